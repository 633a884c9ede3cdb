package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Listener is a listening socket and its lock.
type Listener struct {
	*net.UnixListener
	path string
	mine os.FileInfo
	lock *os.File
	once sync.Once
}

// Listen opens the socket at path with mode 0600, making its folder with mode
// 0700 where it is missing. A stale socket file is replaced; a live owner
// (ErrLive) and a file that is no socket (ErrNotSocket) are left alone.
func Listen(path string) (*Listener, error) {
	l, err := listen(path)
	if err != nil {
		return nil, &Error{Op: "listen", Path: path, Err: err}
	}
	return l, nil
}

func listen(path string) (_ *Listener, err error) {
	if len(path) > MaxPath {
		return nil, ErrTooLong
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := clearable(path); err != nil { // before the lock file litters beside it
		return nil, err
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	if err := clearStale(path); err != nil {
		return nil, err
	}
	ul, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	ul.SetUnlinkOnClose(false) // Close looks first whose file it is
	// Until here the umask decided; the check of the peer's user holds anyway.
	if err := os.Chmod(path, 0o600); err != nil {
		ul.Close()
		return nil, err
	}
	mine, err := os.Lstat(path)
	if err != nil {
		ul.Close()
		return nil, err
	}
	return &Listener{UnixListener: ul, path: path, mine: mine, lock: lock}, nil
}

// Close stops listening and removes the socket file if it is still this
// listener's.
func (l *Listener) Close() error {
	err := net.ErrClosed
	l.once.Do(func() {
		if now, e := os.Lstat(l.path); e == nil && os.SameFile(now, l.mine) {
			_ = os.Remove(l.path) // a stale file is harmless
		}
		err = l.UnixListener.Close()
		l.lock.Close()
	})
	return err
}

// lockFile takes the lock that a listener holds, or fails with ErrLive.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrLive
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// Owned reports whether a daemon owns the socket at path, even one that is
// only starting and does not listen yet.
func Owned(path string) bool {
	if _, err := os.Lstat(path + ".lock"); err != nil {
		return false
	}
	f, err := lockFile(path + ".lock")
	if err == nil {
		f.Close()
	}
	return errors.Is(err, ErrLive)
}

// clearable reports what stands in the way at path for good.
func clearable(path string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.Mode().Type() != fs.ModeSocket:
		return ErrNotSocket
	}
	return nil
}

// clearStale removes a socket file that nobody listens on.
func clearStale(path string) error {
	if err := clearable(path); err != nil {
		return err
	}
	c, err := net.Dial("unix", path)
	switch {
	case err == nil:
		c.Close()
		return ErrLive
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.ECONNREFUSED):
		return os.Remove(path)
	}
	return err
}
