package socket

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// PeerUID returns the user on the other side of a Unix connection, as the
// kernel knows it.
func PeerUID(c net.Conn) (uint32, error) {
	var uid uint32
	err := control(c, func(fd int) (err error) {
		uid, err = peerUID(fd)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("ask who is on the socket: %w", err)
	}
	return uid, nil
}

// Gone reports whether the peer has closed the connection for good: it will
// read nothing of what is written. A peer that only shut down its sending
// half is not gone.
func Gone(c net.Conn) bool {
	gone := false
	err := control(c, func(fd int) error {
		// Not POLLIN: some systems report the end of input as a hang-up.
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		_, err := unix.Poll(p, 0)
		gone = p[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
		return err
	})
	return gone || (err != nil && err != unix.EINTR)
}

// control runs f on the descriptor under c.
func control(c net.Conn, f func(fd int) error) error {
	if w, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = w.NetConn()
	}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return fmt.Errorf("%T has no descriptor", c)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}
