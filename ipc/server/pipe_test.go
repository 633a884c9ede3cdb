package server

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/creachadair/jrpc2"

	"ingot/ipc"
)

func TestEveryErrorIsNamed(t *testing.T) {
	for in, want := range map[string]string{
		// Nothing to do: not an error, or one of ours.
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                                                     `{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32003,"message":"m","data":{"name":"no_room"}}}`: `{"jsonrpc":"2.0","id":1,"error":{"code":-32003,"message":"m","data":{"name":"no_room"}}}`,
		// A result that looks like an error stays as it is.
		`{"jsonrpc":"2.0","id":1,"result":"\"error\":{\"code\":"}`:                                                `{"jsonrpc":"2.0","id":1,"result":"\"error\":{\"code\":"}`,
		`{"jsonrpc":"2.0","id":1,"result":{"error":{"code":1}}}`:                                                  `{"jsonrpc":"2.0","id":1,"result":{"error":{"code":1}}}`,
		`not json "error":{"code":1}`:                                                                             `not json "error":{"code":1}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32700,"message":"m"}}`:                                          `{"jsonrpc":"2.0","id":1,"error":{"code":-32700,"message":"not a JSON-RPC 2.0 request: m","data":{"name":"parse_error"}}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"m","data":["x"]}}`:                             `{"jsonrpc":"2.0","id":1,"error":{"code":-32700,"message":"not a JSON-RPC 2.0 request: m [\"x\"]","data":{"name":"parse_error"}}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32097,"message":"m"}}`:                                          `{"jsonrpc":"2.0","id":1,"error":{"code":-32009,"message":"m","data":{"name":"shutting_down"}}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"m"}}`:                                          `{"jsonrpc":"2.0","id":1,"error":{"code":-32008,"message":"m","data":{"name":"engine_failed"}}}`,
		`[{"jsonrpc":"2.0","id":1,"result":3},{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}]`: `[{"jsonrpc":"2.0","id":1,"result":3},{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not a JSON-RPC 2.0 request: m","data":{"name":"parse_error"}}}]`,
	} {
		if got := string(named([]byte(in))); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", in, got, want)
		}
	}
}

func TestAnsweredSkipsErrors(t *testing.T) {
	for in, want := range map[string][]string{
		`{"jsonrpc":"2.0","id":"a","result":{}}`:                                                                 {`"a"`},
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`:                                              nil,
		`[{"jsonrpc":"2.0","id":1,"result":{}},{"id":2,"error":{"code":1,"message":""}},{"id":3.0,"result":{}}]`: {"1", "3.0"},
		`nonsense`: nil,
		`[1]`:      nil,
	} {
		if got := answered([]byte(in)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestCrowd(t *testing.T) {
	many := func(n int) []byte { return []byte("[" + strings.TrimSuffix(strings.Repeat("{},", n), ",") + "]") }
	for _, tc := range []struct {
		in   []byte
		want bool
	}{
		{nil, false}, {[]byte(`{}`), false}, {[]byte(`[`), false}, {[]byte(`[]`), false}, {[]byte(`[}`), false}, {[]byte(`[1,`), false},
		{many(ipc.MaxBatch), false}, {many(ipc.MaxBatch + 1), true}, {append(many(ipc.MaxBatch + 1)[:3*ipc.MaxBatch+2], '!'), true},
	} {
		if got := crowd(tc.in); got != tc.want {
			t.Errorf("%.30s (%d bytes): %v", tc.in, len(tc.in), got)
		}
	}
}

func TestErrorsOfHandlersAreOfTheTable(t *testing.T) {
	for err, want := range map[error]ipc.Name{
		ipc.Invalid("f", "x"): ipc.InvalidParams, errors.New("?"): ipc.EngineFailed, ipc.QueueFull: ipc.QueueFull,
	} {
		_, got := reply(nil, err)
		var je *jrpc2.Error
		if !errors.As(got, &je) || int(je.Code) != want.Code() || !hasName(je.Data) {
			t.Errorf("%v became %v", err, got)
		}
	}
	if v, err := reply(5, nil); v != 5 || err != nil {
		t.Error(v, err)
	}
}

func TestNotificationsAndErrorRepliesAreJSONRPC(t *testing.T) {
	msg, err := notification("m", map[string]int{"a": 1})
	if err != nil || string(msg) != `{"jsonrpc":"2.0","method":"m","params":{"a":1}}` {
		t.Errorf("%s, %v", msg, err)
	}
	if _, err := notification("m", func() {}); err == nil {
		t.Error("a func is JSON")
	}
	if got := errorReply(ipc.Errorf(ipc.TooLarge, "m")); !json.Valid(got) || !strings.Contains(string(got), `"id":null`) {
		t.Errorf("%s", got)
	}
	if got := clip(strings.Repeat("x", 100)); len(got) != 63 {
		t.Error(got)
	}
}
