package ipc

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"ingot/runtime/turn"
)

// Name is the frozen name of an error. It is an error itself, so that
// errors.Is(err, ModelNotFound) asks what an *Error is.
type Name string

// The error names of the contract. With Table they are the one place where
// codes are given out.
const (
	InvalidParams    Name = "invalid_params"
	MethodNotFound   Name = "method_not_found"
	ParseError       Name = "parse_error"
	ModelNotFound    Name = "model_not_found"
	TurnNotFound     Name = "turn_not_found"
	NoRoom           Name = "no_room"
	QueueFull        Name = "queue_full"
	ContextExceeded  Name = "context_exceeded"
	ModelFailed      Name = "model_failed"
	TurnKilledRunner Name = "turn_killed_runner"
	EngineFailed     Name = "engine_failed"
	ShuttingDown     Name = "shutting_down"
	Forbidden        Name = "forbidden"
	Unauthorized     Name = "unauthorized"
	TooLarge         Name = "too_large"
	Unsupported      Name = "unsupported"
	DownloadFailed   Name = "download_failed"
)

// Row is one line of the error table.
type Row struct {
	Name  Name
	Code  int    // JSON-RPC
	HTTP  int    // status
	Data  string // keys of data beside name
	Means string
}

// Table is the frozen error table, in the order of the documentation.
var Table = []Row{
	{InvalidParams, -32602, 400, "field", "a parameter is wrong; the field is named"},
	{MethodNotFound, -32601, 404, "", "there is no such method or path"},
	{ParseError, -32700, 400, "", "what came is not JSON, or not a JSON-RPC 2.0 request"},
	{ModelNotFound, -32001, 404, "model", "no model of that name is here"},
	{TurnNotFound, -32002, 404, "turn", "no such turn, or its events are gone"},
	{NoRoom, -32003, 503, "need, have, width, retry_after_s", "memory or buffers do not suffice now"},
	{QueueFull, -32004, 503, "retry_after_s", "too many turns wait already"},
	{ContextExceeded, -32005, 400, "tokens, context", "the prompt is longer than the model's context"},
	{ModelFailed, -32006, 500, "model", "the model would not load"},
	{TurnKilledRunner, -32007, 500, "turn", "this turn ended its runner twice"},
	{EngineFailed, -32008, 500, "", "something inside failed"},
	{ShuttingDown, -32009, 503, "retry_after_s", "the daemon is stopping"},
	{Forbidden, -32010, 403, "", "the peer is another user, or a foreign web page"},
	{Unauthorized, -32011, 401, "", "the token is missing or wrong"},
	{TooLarge, -32012, 413, "limit", "a message is over 32 MiB"},
	{Unsupported, -32013, 400, "field", "the parameter is known but not supported; it is named"},
	{DownloadFailed, -32014, 502, "", "a download failed"},
}

func (n Name) Error() string { return string(n) }

// row returns the table's line of n; names that are none are engine_failed.
func (n Name) row() Row {
	for _, r := range Table {
		if r.Name == n {
			return r
		}
	}
	return EngineFailed.row()
}

// Code returns the JSON-RPC code of n.
func (n Name) Code() int { return n.row().Code }

// HTTP returns the HTTP status of n.
func (n Name) HTTP() int { return n.row().HTTP }

// NameOf returns the name of a JSON-RPC code, or EngineFailed.
func NameOf(code int) Name {
	for _, r := range Table {
		if r.Code == code {
			return r.Name
		}
	}
	return EngineFailed
}

// Error is an error of the contract. Data holds the keys of the table beside
// the name, which is added when it is encoded.
type Error struct {
	Name    Name
	Message string
	Data    map[string]any
}

// Errorf returns an Error of that name.
func Errorf(n Name, format string, args ...any) *Error {
	return &Error{Name: n, Message: fmt.Sprintf(format, args...)}
}

// Invalid returns an invalid_params error naming the field.
func Invalid(field, format string, args ...any) *Error {
	return Errorf(InvalidParams, "%s: %s", field, fmt.Sprintf(format, args...)).With("field", field)
}

// NotSupported returns an unsupported error naming the parameter.
func NotSupported(field, format string, args ...any) *Error {
	return Errorf(Unsupported, "%s: %s", field, fmt.Sprintf(format, args...)).With("field", field)
}

// With returns a copy of e that has one more key in its data.
func (e *Error) With(key string, value any) *Error {
	c := *e
	c.Data = maps.Clone(e.Data)
	if c.Data == nil {
		c.Data = map[string]any{}
	}
	c.Data[key] = value
	return &c
}

func (e *Error) Error() string { return e.Message }

// Is makes errors.Is(err, NoRoom) work.
func (e *Error) Is(target error) bool {
	n, ok := target.(Name)
	return ok && n == e.Name
}

// Code returns the JSON-RPC code.
func (e *Error) Code() int { return e.Name.Code() }

// RawData returns data as JSON; it always has "name".
func (e *Error) RawData() json.RawMessage {
	raw, err := json.Marshal(e.With("name", e.Name).Data)
	if err != nil { // a value in Data that JSON has no form for
		raw, _ = json.Marshal(map[string]any{"name": e.Name})
	}
	return raw
}

// Failure returns e as the body of a turn's error event.
func (e *Error) Failure() *turn.Failure {
	return &turn.Failure{Code: e.Code(), Message: e.Message, Data: e.RawData()}
}

// FromWire rebuilds an Error from what a client received: an error response
// or a turn's error event.
func FromWire(code int, message string, data json.RawMessage) *Error {
	e := &Error{Name: NameOf(code), Message: message}
	if json.Unmarshal(data, &e.Data) == nil {
		if n, ok := e.Data["name"].(string); ok {
			e.Name = Name(n)
		}
		delete(e.Data, "name")
	}
	return e
}

// AsError is the one place that turns any error into one of the contract: an
// *Error stays as it is, a turn.FieldError becomes invalid_params, a bare Name
// gets itself as its message, and the rest is engine_failed.
func AsError(err error) *Error {
	var e *Error
	var f *turn.FieldError
	var n Name
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &f):
		return Invalid(f.Field, "%s", f.Why)
	case errors.As(err, &n):
		return Errorf(n, "%s", err)
	}
	return Errorf(EngineFailed, "%s", err)
}
