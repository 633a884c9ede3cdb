package socket

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Waits between two tries of Dial.
const (
	firstWait = 2 * time.Millisecond
	lastWait  = 100 * time.Millisecond
)

// Dial connects to the socket at path. While nobody listens it tries again
// for as long as patience lasts, then fails with ErrAbsent.
func Dial(ctx context.Context, path string, patience time.Duration) (net.Conn, error) {
	if len(path) > MaxPath {
		return nil, &Error{Op: "dial", Path: path, Err: ErrTooLong}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := time.NewTimer(patience)
	defer over.Stop()
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err == nil {
			return c, nil
		}
		if !absent(err) {
			return nil, &Error{Op: "dial", Path: path, Err: plain(err)}
		}
		again := time.NewTimer(wait)
		select {
		case <-again.C:
		case <-over.C:
			again.Stop()
			return nil, &Error{Op: "dial", Path: path, Err: ErrAbsent}
		case <-ctx.Done():
			again.Stop()
			return nil, ctx.Err()
		}
	}
}

func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.EAGAIN)
}

// plain takes off what net.OpError repeats of the path.
func plain(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
