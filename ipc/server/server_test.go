package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ingot/ipc"
	"ingot/ipc/server"
	"ingot/ipc/server/servertest"
	"ingot/ipc/socket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a server of a fake backend on a socket.
type house struct {
	*servertest.Fake
	srv  *server.Server
	path string
}

func open(t testing.TB, opt server.Options) *house {
	t.Helper()
	dir, err := os.MkdirTemp("", "srv")
	if err != nil {
		t.Fatal(err)
	}
	h := &house{Fake: servertest.New(), path: filepath.Join(dir, "s")}
	l, err := socket.Listen(h.path)
	if err != nil {
		t.Fatal(err)
	}
	h.srv = server.New(h.Fake, opt)
	served := make(chan error, 1)
	go func() { served <- h.srv.Serve(l) }()
	t.Cleanup(func() {
		h.srv.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	return h
}

// line is one message from the server, of any kind.
type line struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *wireError      `json:"error"`
	Params json.RawMessage `json:"params"`
}

type wireError struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data"`
}

// event is the params of a turn.event.
type event struct {
	Turn   string     `json:"turn"`
	Seq    int64      `json:"seq"`
	Type   string     `json:"type"`
	Delta  string     `json:"delta"`
	Finish string     `json:"finish_reason"`
	Code   int        `json:"code"`
	Data   *wireError `json:"-"`
}

// caller speaks newline JSON.
type caller struct {
	t testing.TB
	c *net.UnixConn
	r *bufio.Reader
}

func (h *house) dial(t testing.TB) *caller {
	t.Helper()
	c, err := socket.Dial(context.Background(), h.path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &caller{t: t, c: c.(*net.UnixConn), r: bufio.NewReader(c)}
}

func (c *caller) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.c, format+"\n", args...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *caller) raw() []byte {
	c.t.Helper()
	b, err := c.r.ReadBytes('\n')
	if err != nil {
		c.t.Fatalf("read: %v (%q)", err, b)
	}
	return b
}

func (c *caller) recv() line {
	c.t.Helper()
	b := c.raw()
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		c.t.Fatalf("%s: %v", b, err)
	}
	return l
}

// call sends a request with id 1 and returns the response.
func (c *caller) call(method, params string) line {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	return c.recv()
}

// event reads the next message, which must be a turn.event.
func (c *caller) event() event {
	c.t.Helper()
	l := c.recv()
	if l.Method != ipc.NoteTurn {
		c.t.Fatalf("got %+v, want a turn.event", l)
	}
	var e event
	if err := json.Unmarshal(l.Params, &e); err != nil {
		c.t.Fatal(err)
	}
	return e
}

// stream starts a turn and returns its id.
func (c *caller) stream(model, content string) string {
	c.t.Helper()
	l := c.call(ipc.ChatCreate, fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":%q}]}`, model, content))
	var ref struct{ Turn string }
	if l.Error != nil || json.Unmarshal(l.Result, &ref) != nil || ref.Turn == "" {
		c.t.Fatalf("chat.create: %+v", l)
	}
	return ref.Turn
}

// rest reads a turn's events to its end: the text, and the last one. Seq must
// go up by one from from.
func (c *caller) rest(from int64) (text string, last event) {
	c.t.Helper()
	for {
		e := c.event()
		if e.Seq != from {
			c.t.Fatalf("seq %d, want %d", e.Seq, from)
		}
		from++
		text += e.Delta
		if e.Type == "done" || e.Type == "error" {
			return text, e
		}
	}
}

func wantError(t testing.TB, l line, name ipc.Name) {
	t.Helper()
	if l.Error == nil || l.Error.Data["name"] != string(name) || l.Error.Code != name.Code() {
		t.Errorf("got %+v %+v, want %s", l, l.Error, name)
	}
}

func TestMethodsAnswer(t *testing.T) {
	h := open(t, server.Options{})
	c := h.dial(t)
	for _, tc := range []struct{ method, params, want string }{
		{"daemon.status", "{}", `"version":"test"`},
		{"models.list", "{}", `"name":"echo"`},
		{"models.show", `{"model":"m"}`, `"name":"m"`},
		{"models.pull", `{"model":"/f.gguf","as":"m"}`, `{"model":"m","bytes":1}`},
		{"models.load", `{"model":"m","keep_alive":"5m"}`, `"state":"ready"`},
		{"models.pin", `{"model":"m","pinned":true}`, `{}`},
		{"models.alias", `{"alias":"a","model":null}`, `{}`},
		{"models.unload", `{"model":"m"}`, `{}`},
		{"models.remove", `{"model":"m"}`, `{}`},
		{"tokens.encode", `{"text":"ab"}`, `{"tokens":[97,98]}`},
		{"tokens.decode", `{"tokens":[97,98]}`, `{"text":"ab"}`},
		{"tokens.count", `{"text":"abc"}`, `{"tokens":3}`},
		{"logs.tail", `{"lines":2}`, `{"lines":["one","two"]}`},
		{"daemon.stop", `{}`, `{}`},
		{"daemon.unwatch", `{}`, `{}`},
		{"rpc.discover", `{}`, `"openrpc":`},
	} {
		l := c.call(tc.method, tc.params)
		if l.Error != nil || !strings.Contains(string(l.Result), tc.want) {
			t.Errorf("%s: %s %+v, want %s", tc.method, l.Result, l.Error, tc.want)
		}
	}
}

func TestWholeAnswers(t *testing.T) {
	h := open(t, server.Options{})
	c := h.dial(t)
	l := c.call("chat.create", `{"model":"m","return_token_ids":true,"messages":[{"role":"user","content":"Paris it is"}]}`)
	var chat ipc.ChatCompletion
	if err := json.Unmarshal(l.Result, &chat); err != nil {
		t.Fatal(err, l.Error)
	}
	if got := chat.Choices[0]; got.Message.Content != "Paris it is" || got.FinishReason != "stop" || len(got.TokenIDs) != 3 ||
		chat.Object != "chat.completion" || chat.Model != "m" || chat.Usage.CompletionTokens != 3 {
		t.Errorf("chat: %+v", chat)
	}
	l = c.call("completion.create", `{"model":"m","prompt":"Once upon"}`)
	var text ipc.Completion
	if err := json.Unmarshal(l.Result, &text); err != nil {
		t.Fatal(err, l.Error)
	}
	if text.Choices[0].Text != "Once upon" || text.Object != "text_completion" {
		t.Errorf("completion: %+v", text)
	}
}

func TestStreamsAreWholeAndOrdered(t *testing.T) {
	h := open(t, server.Options{})
	c := h.dial(t)
	c.stream("m", "a b c")
	if text, last := c.rest(0); text != "a b c" || last.Type != "done" || last.Finish != "stop" {
		t.Errorf("%q, %+v", text, last)
	}
	c.stream(servertest.Broken, "x")
	if _, last := c.rest(0); last.Type != "error" || last.Code != ipc.ModelFailed.Code() {
		t.Errorf("broken: %+v", last)
	}
}

// The contract's ordering: whatever a turn has to say, its response is first.
func TestTheResponseIsAlwaysFirst(t *testing.T) {
	streams := 10_000
	if testing.Short() {
		streams = 500
	}
	h := open(t, server.Options{})
	c := h.dial(t)
	go func() {
		for i := range streams {
			fmt.Fprintf(c.c, `{"jsonrpc":"2.0","id":%d,"method":"completion.create","params":{"model":"m","stream":true,"prompt":"x"}}`+"\n", i)
		}
	}()
	known := map[string]int64{} // next seq of each turn that has been named
	for ended := 0; ended < streams; {
		l := c.recv()
		if l.Method == "" {
			var ref ipc.TurnRef
			if err := json.Unmarshal(l.Result, &ref); err != nil {
				t.Fatal(err, l.Error)
			}
			known[string(ref.Turn)] = 0
			continue
		}
		var e event
		if err := json.Unmarshal(l.Params, &e); err != nil {
			t.Fatal(err)
		}
		if want, ok := known[e.Turn]; !ok || e.Seq != want {
			t.Fatalf("turn %s: event %d came, response known: %v, want seq %d", e.Turn, e.Seq, ok, want)
		}
		known[e.Turn]++
		if e.Type == "done" {
			ended++
		}
	}
}

func TestBatchesAndNotifications(t *testing.T) {
	h := open(t, server.Options{})
	c := h.dial(t)
	c.send(`[{"jsonrpc":"2.0","id":"a","method":"tokens.count","params":{"text":"ab"}},` +
		`{"jsonrpc":"2.0","method":"models.load","params":{"model":"m"}},` +
		`{"jsonrpc":"2.0","id":"b","method":"completion.create","params":{"model":"m","stream":true,"prompt":"x"}},` +
		`{"jsonrpc":"2.0","id":"c","method":"no.such"}]`)
	var batch []line
	if raw := c.raw(); json.Unmarshal(raw, &batch) != nil || len(batch) != 3 {
		t.Fatalf("batch: %s", raw)
	}
	wantError(t, batch[2], ipc.MethodNotFound)
	if text, _ := c.rest(0); text != "x" {
		t.Errorf("stream in a batch: %q", text)
	}
	// A notification that takes for ever holds nobody up.
	c.send(`{"jsonrpc":"2.0","method":"models.load","params":{"model":"slow"}}`)
	if l := c.call("tokens.count", `{"text":"abc"}`); string(l.Result) != `{"tokens":3}` {
		t.Errorf("after a slow notification: %+v", l)
	}
	// A streamed notification has no response; its events come all the same.
	c.send(`{"jsonrpc":"2.0","method":"completion.create","params":{"model":"m","stream":true,"prompt":"n"}}`)
	if text, _ := c.rest(0); text != "n" {
		t.Errorf("stream of a notification: %q", text)
	}
	c.send("[%s1]", strings.Repeat("1,", ipc.MaxBatch))
	wantError(t, c.recv(), ipc.TooLarge)
}

func TestBadInputGetsANamedError(t *testing.T) {
	h := open(t, server.Options{})
	c := h.dial(t)
	for in, want := range map[string]ipc.Name{
		`{`:                                 ipc.ParseError,
		`hello`:                             ipc.ParseError,
		`[]`:                                ipc.ParseError,
		`{"id":1,"method":"daemon.status"}`: ipc.ParseError,
		`{"jsonrpc":"1.0","id":1,"method":"daemon.status"}`:                                                   ipc.ParseError,
		`{"jsonrpc":"2.0","id":1}`:                                                                            ipc.ParseError,
		`{"jsonrpc":"2.0","id":{},"method":"daemon.status"}`:                                                  ipc.ParseError,
		`{"jsonrpc":"2.0","id":1,"method":"daemon.status","params":3}`:                                        ipc.ParseError,
		`{"jsonrpc":"2.0","id":1,"method":"daemon.status","extra":3}`:                                         ipc.ParseError,
		`{"jsonrpc":"2.0","id":1,"method":"rpc.serverInfo"}`:                                                  ipc.MethodNotFound,
		`{"jsonrpc":"2.0","id":1,"method":"ingot.settle"}`:                                                    ipc.MethodNotFound,
		`{"jsonrpc":"2.0","id":1,"method":"daemon.status","params":[1]}`:                                      ipc.InvalidParams,
		`{"jsonrpc":"2.0","id":1,"method":"daemon.status","params":{"x":1}}`:                                  ipc.InvalidParams,
		`{"jsonrpc":"2.0","id":1,"method":"models.load","params":{}}`:                                         ipc.InvalidParams,
		`{"jsonrpc":"2.0","id":1,"method":"completion.create","params":{"model":"missing","prompt":"x"}}`:     ipc.ModelNotFound,
		`{"jsonrpc":"2.0","id":1,"method":"completion.create","params":{"model":"broken","prompt":"x"}}`:      ipc.ModelFailed,
		`{"jsonrpc":"2.0","id":1,"method":"turn.cancel","params":{"turn":"nope"}}`:                            ipc.TurnNotFound,
		`{"jsonrpc":"2.0","id":1,"method":"turn.attach","params":{"turn":"nope","from_seq":0}}`:               ipc.TurnNotFound,
		`{"jsonrpc":"2.0","id":1,"method":"completion.create","params":{"prompt":"x","stream_options":{}}}`:   "",
		`{"jsonrpc":"2.0","id":1,"method":"completion.create","params":{"prompt":"x","best_of":2}}`:           ipc.Unsupported,
		`{"jsonrpc":"2.0","id":1,"method":"completion.create","params":{"prompt":["a","b"]}}`:                 ipc.InvalidParams,
		`{"jsonrpc":"2.0","id":1,"method":"chat.create","params":{"messages":[]}}`:                            ipc.InvalidParams,
		`{"jsonrpc":"2.0","id":1,"method":"tokens.count","params":{"text":"a","messages":[{"role":"user"}]}}`: ipc.InvalidParams,
	} {
		c.send("%s", in)
		l := c.recv()
		if want == "" {
			if l.Error != nil {
				t.Errorf("%s: %+v", in, l.Error)
			}
			continue
		}
		wantError(t, l, want)
		if t.Failed() {
			t.Fatal(in)
		}
	}
}

func TestADuplicateIDOpensNoGate(t *testing.T) {
	h := open(t, server.Options{})
	c := h.dial(t)
	c.send(`[{"jsonrpc":"2.0","id":1,"method":"daemon.status"},{"jsonrpc":"2.0","id":1,"method":"daemon.status"}]`)
	var batch []line
	if raw := c.raw(); json.Unmarshal(raw, &batch) != nil || len(batch) != 2 {
		t.Fatalf("batch: %s", raw)
	}
	for _, l := range batch {
		wantError(t, l, ipc.ParseError)
	}
}

func TestAnOversizedLineIsRefusedAndTheNextAnswered(t *testing.T) {
	h := open(t, server.Options{})
	c := h.dial(t)
	go c.c.Write(append(append([]byte("{"), make([]byte, ipc.MaxMessage)...), '\n')) //nolint:errcheck
	wantError(t, c.recv(), ipc.TooLarge)
	if l := c.call("tokens.count", `{"text":"abc"}`); string(l.Result) != `{"tokens":3}` {
		t.Errorf("after it: %+v", l)
	}
}
