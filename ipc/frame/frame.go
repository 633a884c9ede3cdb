// Package frame cuts a byte stream into messages: newline JSON and
// WebSocket behind one Channel.
//
// It owns the limit on a message's size and nothing of what is inside one.
// One goroutine may send and another receive at the same time; Close may come
// from any and ends both.
package frame

import (
	"errors"
	"fmt"
)

// Channel carries whole messages.
type Channel interface {
	// Send writes one message. It blocks while the peer does not read.
	Send(msg []byte) error

	// Recv returns the next message, which the caller may keep. io.EOF: the
	// peer sends no more. A *TooLargeError loses that message only: the
	// channel is at the start of the next one.
	Recv() ([]byte, error)

	// Close ends the channel; blocked calls return.
	Close() error
}

// ErrTooLarge is what every *TooLargeError is.
var ErrTooLarge = errors.New("message too large")

// TooLargeError reports a message over the limit, in bytes.
type TooLargeError struct{ Limit int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("message of more than %d bytes", e.Limit)
}

// Is makes errors.Is(err, ErrTooLarge) work.
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }
