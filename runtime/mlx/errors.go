package mlx

import (
	"errors"

	"ingot/runtime/mlx/internal/cabi"
)

var (
	// ErrInvalid is MLX's refusal of an operation: shapes, types, arguments.
	ErrInvalid = errors.New("invalid operation")
	// ErrResourceLimit is the device's (or the ledger's) limit on live buffers.
	// Recover, release, and try a narrower step.
	ErrResourceLimit = errors.New("resource limit of the device reached")
	// ErrMemory is memory that could not be had. The same remedy.
	ErrMemory = errors.New("device memory exhausted")
	// ErrLaunch is a kernel too large for the device to start (CUDA's grids). A
	// narrower step helps.
	ErrLaunch = errors.New("launch too large for the device")
	// ErrDevice is the device failing under way. Arrays may be marked evaluated
	// and hold garbage: nothing of the process can be trusted any more.
	ErrDevice = errors.New("device failed")
	// ErrWrongThread is a call off the device thread.
	ErrWrongThread = errors.New("not on the device thread")
	// ErrClosed is a device that is closed.
	ErrClosed = errors.New("device closed")
)

// Error is a failed call: which, what MLX said, and which kind it is.
type Error struct {
	Op  string
	Msg string
	Err error // one of the sentinels above
}

func (e *Error) Error() string {
	if e.Msg == "" {
		return e.Op + ": " + e.Err.Error()
	}
	return e.Op + ": " + e.Err.Error() + ": " + e.Msg
}

func (e *Error) Unwrap() error { return e.Err }

// failure makes the error of a status; nil for success.
func failure(op string, s cabi.Status, msg string) error {
	switch s {
	case cabi.OK:
		return nil
	case cabi.Resource:
		return &Error{op, msg, ErrResourceLimit}
	case cabi.Memory:
		return &Error{op, msg, ErrMemory}
	case cabi.Launch:
		return &Error{op, msg, ErrLaunch}
	case cabi.DeviceFault:
		return &Error{op, msg, ErrDevice}
	case cabi.WrongThread:
		return &Error{op, "", ErrWrongThread}
	}
	return &Error{op, msg, ErrInvalid}
}
