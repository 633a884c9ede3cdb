package runner

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"ingot/runtime/sched"
	"ingot/runtime/text"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// Names of errors that cross the wire; package ipc has their codes.
const (
	invalidParams   = "invalid_params"
	noRoom          = "no_room"
	queueFull       = "queue_full"
	contextExceeded = "context_exceeded"
	modelFailed     = "model_failed"
	engineFailed    = "engine_failed"
	shuttingDown    = "shutting_down"
)

// named is the one place where errors get the names of the contract.
func named(err error) *wire.Error {
	out := &wire.Error{Name: engineFailed, Message: err.Error()}
	var (
		field    *turn.FieldError
		template *text.TemplateError
		full     *sched.QueueFullError
		long     *sched.ContextError
		room     *sched.NoRoomError
	)
	switch {
	case errors.As(err, &field):
		out.Name, out.Data = invalidParams, map[string]any{"field": field.Field}
	case errors.As(err, &template), errors.Is(err, text.ErrNoTemplate), errors.Is(err, text.ErrNoMark):
		out.Name, out.Data = invalidParams, map[string]any{"field": "messages"}
	case errors.Is(err, sched.ErrNoPrompt):
		out.Name, out.Message, out.Data = invalidParams, "prompt: is empty", map[string]any{"field": "prompt"}
	case errors.As(err, &full):
		out.Message = fmt.Sprintf("%d turns wait already; try again later", full.Queued)
		out.Name, out.Data = queueFull, map[string]any{"retry_after_s": seconds(full.RetryAfter)}
	case errors.As(err, &long):
		out.Message = fmt.Sprintf("the prompt has %d tokens and the context of the model %d, which leaves no room for an answer", long.Tokens, long.Context)
		out.Name, out.Data = contextExceeded, map[string]any{"tokens": long.Tokens, "context": long.Context}
	case errors.As(err, &room):
		out.Name = noRoom
		out.Message = fmt.Sprintf("no room: a step of %d tokens needs %d %s, %d are free; a shorter prompt, fewer turns or a higher limit would do",
			room.Width, room.Need, room.Resource, room.Have)
		out.Data = map[string]any{"need": room.Need, "have": room.Have, "width": room.Width, "retry_after_s": seconds(room.RetryAfter), "resource": room.Resource}
	case errors.Is(err, sched.ErrClosed):
		out.Name, out.Data = shuttingDown, map[string]any{"retry_after_s": 1}
	}
	return out
}

// loadFailed is what Failed says of a load.
func loadFailed(err error) wire.Error {
	out := wire.Error{Name: modelFailed, Message: err.Error()}
	var need *NeedError
	if errors.As(err, &need) {
		out.Data = map[string]any{"need": need.Need, "have": need.Have, "resource": need.Resource}
	}
	return out
}

// seconds rounds up: to come back too early is worse than too late.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

func count(n int64) string { return strconv.FormatInt(n, 10) }
