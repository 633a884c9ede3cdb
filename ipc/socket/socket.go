// Package socket opens and reaches the daemon's Unix socket.
//
// It owns the path, the file, its permissions, who may be on the other side,
// and which tongue a connection speaks. A listener holds a lock file beside
// the socket for its whole life, so of two daemons that start at once one
// wins and the other learns of it. Everything may be called from any
// goroutine. It never reads more of a connection than tells the tongue, and
// gives all of it on.
package socket

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// MaxPath is the longest path a socket can have everywhere, in bytes (macOS
// has room for 104 with the final zero).
const MaxPath = 103

// Reasons a socket can't be had, inside an *Error.
var (
	ErrTooLong   = fmt.Errorf("path is over %d bytes; set INGOT_SOCKET to a shorter one", MaxPath)
	ErrLive      = errors.New("another daemon owns it")
	ErrNotSocket = errors.New("a file that is not a socket is in its place")
	ErrAbsent    = errors.New("no daemon listens")
)

// Error says what was done to which socket.
type Error struct {
	Op   string // listen or dial
	Path string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("%s on socket %s: %v", e.Op, e.Path, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Home returns INGOT_HOME, or ~/.ingot.
func Home() (string, error) {
	if h := os.Getenv("INGOT_HOME"); h != "" {
		return filepath.Abs(h)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find home folder: %w; set INGOT_HOME", err)
	}
	return filepath.Join(home, ".ingot"), nil
}

// Path returns INGOT_SOCKET, or run/ingot.sock in the home folder.
func Path() (string, error) {
	if p := os.Getenv("INGOT_SOCKET"); p != "" {
		return filepath.Abs(p)
	}
	home, err := Home()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, "run", "ingot.sock"), nil
}
