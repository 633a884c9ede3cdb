package cli

import (
	"errors"
	"fmt"

	"ingot/ipc"
	"ingot/ipc/client"
	"ingot/ipc/socket"
)

var (
	errNoDaemon = errors.New("no daemon is running")
	errUsage    = errors.New("wrong use")
)

// hint says what to do next about an error, or nothing.
func hint(err error) string {
	for _, h := range hints {
		if errors.Is(err, h.err) {
			return h.say
		}
	}
	var e *ipc.Error
	if errors.As(err, &e) {
		if s, ok := e.Data["retry_after_s"]; ok {
			return fmt.Sprintf("Try again in %v s.", s)
		}
	}
	return ""
}

var hints = []struct {
	err error
	say string
}{
	{errNoDaemon, "Start it with: ingot serve (or any command that needs it, such as: ingot run)"},
	{ipc.ModelNotFound, "See what is here with: ingot ls. Fetch one with: ingot pull"},
	{ipc.ModelFailed, "See why with: ingot logs"},
	{ipc.ContextExceeded, "Shorten the prompt, or use a model with a longer context."},
	{ipc.TurnKilledRunner, "This prompt ends the model's process. See: ingot logs"},
	{ipc.EngineFailed, "See: ingot logs"},
	{ipc.Forbidden, "Every user has a daemon of their own; see INGOT_HOME and INGOT_SOCKET."},
	{client.ErrLost, "The daemon may have stopped or crashed. See: ingot status, ingot logs"},
	{socket.ErrTooLong, "Set INGOT_SOCKET to a shorter path."},
}
