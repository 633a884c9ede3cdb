package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/ipc"
	"ingot/ipc/server"
	"ingot/ipc/server/servertest"
)

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !servertest.Eventually(ok) {
		t.Fatalf("never: %s", what)
	}
}

// eof reads to the end of the connection, which must hold nothing more.
func (c *caller) eof() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
		c.t.Fatalf("after the end: %q, %v", rest, err)
	}
}

func TestDisconnectCancelsAWholeAnswer(t *testing.T) {
	h := open(t, server.Options{})
	c := h.dial(t)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"completion.create","params":{"model":"slow","prompt":"x"}}`)
	eventually(t, "the turn starts", func() bool { return h.Views() == 1 })
	c.c.Close()
	if id := <-h.Cancelled(); id != "t1" {
		t.Errorf("cancelled %s", id)
	}
	eventually(t, "the view is closed", func() bool { return h.Views() == 0 })
}

func TestAStreamLingersAndIsAttached(t *testing.T) {
	h := open(t, server.Options{})
	c := h.dial(t)
	id := c.stream(servertest.Slow, "x")
	h.Grow("one ")
	if e := c.event(); e.Type != "queued" {
		t.Fatalf("%+v", e)
	}
	if e := c.event(); e.Delta != "one " {
		t.Fatalf("%+v", e)
	}
	c.c.Close()
	eventually(t, "the view is closed", func() bool { return h.Views() == 0 })
	h.Grow("two ")
	other := h.dial(t)
	l := other.call("turn.attach", fmt.Sprintf(`{"turn":%q,"from_seq":2}`, id))
	if string(l.Result) != fmt.Sprintf(`{"turn":%q}`, id) {
		t.Fatalf("%+v", l)
	}
	h.Finish(nil)
	if text, last := other.rest(2); text != "two " || last.Finish != "stop" {
		t.Errorf("%q, %+v", text, last)
	}
	if len(h.Cancelled()) != 0 {
		t.Error("a streamed turn was cancelled")
	}
}

func TestCancelEndsTheStream(t *testing.T) {
	h := open(t, server.Options{})
	c := h.dial(t)
	id := c.stream(servertest.Slow, "x")
	c.send(`{"jsonrpc":"2.0","id":2,"method":"turn.cancel","params":{"turn":%q}}`, id)
	var end event
	for answered := false; !answered || end.Type == ""; {
		l := c.recv()
		if l.Method == "" {
			answered = true
			continue
		}
		var e event
		if err := json.Unmarshal(l.Params, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == "done" {
			end = e
		}
	}
	if end.Finish != "cancelled" {
		t.Errorf("%+v", end)
	}
}

// A peer that does not read stops its own turns and nothing else; it can
// still cancel them.
func TestASlowReaderStopsOnlyItself(t *testing.T) {
	h := open(t, server.Options{})
	deaf := h.dial(t)
	deaf.send(`{"jsonrpc":"2.0","id":1,"method":"completion.create","params":{"model":"endless","stream":true,"prompt":"x"}}`)
	eventually(t, "the stream starts", func() bool { return h.Views() == 1 })
	c := h.dial(t)
	for range 100 {
		c.stream("m", "a b")
		c.rest(0)
	}
	deaf.send(`{"jsonrpc":"2.0","id":2,"method":"turn.cancel","params":{"turn":"t1"}}`)
	if id := <-h.Cancelled(); id != "t1" {
		t.Errorf("cancelled %s", id)
	}
}

func TestAHalfClosedPeerGetsEverything(t *testing.T) {
	h := open(t, server.Options{})
	c := h.dial(t)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"completion.create","params":{"model":"slow","stream":true,"prompt":"x"}}`)
	c.send(`{"jsonrpc":"2.0","id":2,"method":"completion.create","params":{"model":"slow","prompt":"y"}}`)
	if err := c.c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both turns start", func() bool { return len(h.Requests()) == 2 })
	h.Grow("text")
	h.Finish(nil)
	var streamed, whole bool
	for !streamed || !whole {
		l := c.recv()
		whole = whole || string(l.ID) == "2" && strings.Contains(string(l.Result), `"text":"text"`)
		streamed = streamed || strings.Contains(string(l.Params), `"type":"done"`)
	}
	c.eof()
}

func TestShutdownLetsEveryStreamEnd(t *testing.T) {
	h := open(t, server.Options{})
	idle, mute, c := h.dial(t), h.dial(t), h.dial(t)
	idle.call("daemon.status", "{}")
	_ = mute // never says anything
	c.stream(servertest.Slow, "x")
	c.send(`{"jsonrpc":"2.0","id":2,"method":"completion.create","params":{"model":"slow","prompt":"y"}}`)
	eventually(t, "both turns start", func() bool { return h.Views() == 2 })
	done := make(chan error, 1)
	go func() { done <- h.srv.Shutdown(context.Background()) }()
	idle.eof()
	mute.eof()
	h.Finish(ipc.Errorf(ipc.ShuttingDown, "bye").With("retry_after_s", 2))
	var event, answer bool
	for !event || !answer {
		l := c.recv()
		if l.Method == ipc.NoteTurn {
			event = event || strings.Contains(string(l.Params), `"name":"shutting_down"`)
		} else {
			wantError(t, l, ipc.ShuttingDown)
			answer = true
		}
	}
	c.eof()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("unix", h.path); err == nil {
		t.Error("still listening")
	}
}

func TestShutdownCutsOffAtItsDeadline(t *testing.T) {
	h := open(t, server.Options{})
	c := h.dial(t)
	c.stream(servertest.Slow, "x")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.srv.Shutdown(ctx) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if h.Views() != 0 {
		t.Error("a view is open")
	}
}

func TestWatch(t *testing.T) {
	h := open(t, server.Options{})
	c := h.dial(t)
	if l := c.call("daemon.watch", "{}"); l.Error != nil {
		t.Fatal(l.Error)
	}
	types := func(n int) (got []string) {
		for range n {
			var e ipc.Event
			if l := c.recv(); l.Method != ipc.NoteDaemon || json.Unmarshal(l.Params, &e) != nil {
				t.Fatalf("%+v", l)
			}
			got = append(got, string(e.Type))
		}
		return got
	}
	h.Publish(ipc.Event{Rev: 1, Type: ipc.EventModel, Model: &ipc.ModelStatus{Name: "m"}})
	if got := types(2); !slices.Equal(got, []string{"state", "model"}) {
		t.Errorf("got %q", got)
	}
	// Once unwatch is answered, nothing more comes.
	for i := range 100 {
		h.Publish(ipc.Event{Rev: int64(i), Type: ipc.EventNotice})
	}
	c.send(`{"jsonrpc":"2.0","id":7,"method":"daemon.unwatch"}`)
	for c.recv().Method != "" {
	}
	h.Publish(ipc.Event{Type: ipc.EventNotice})
	if l := c.call("tokens.count", `{"text":"abc"}`); string(l.Result) != `{"tokens":3}` {
		t.Errorf("after unwatch: %+v", l)
	}
	// A second watch replaces the first.
	c.call("daemon.watch", "{}")
	types(1)
	c.call("daemon.watch", "{}")
	types(1)
	if n := h.Watchers(); n != 1 {
		t.Errorf("%d watchers", n)
	}
	c.c.Close()
	eventually(t, "the watcher is gone", func() bool { return h.Watchers() == 0 })
}

func TestPullTellsOfItsProgress(t *testing.T) {
	h := open(t, server.Options{})
	h.PullSteps = 3
	c := h.dial(t)
	if l := c.call("models.pull", `{"model":"m","stream":true}`); !strings.HasPrefix(string(l.Result), `{"pull":"pull-`) {
		t.Fatalf("%+v", l)
	}
	for i, want := range []string{`"type":"progress","file":"model","done":1`, `"done":2`, `"done":3`, `"type":"done","model":"m"`} {
		l := c.recv()
		if l.Method != ipc.NotePull || !strings.Contains(string(l.Params), want) || !strings.Contains(string(l.Params), fmt.Sprintf(`"seq":%d`, i)) {
			t.Errorf("%s, want %s", l.Params, want)
		}
	}
	c.call("models.pull", `{"model":"missing","stream":true}`)
	for {
		if l := c.recv(); !strings.Contains(string(l.Params), `"type":"progress"`) {
			if !strings.Contains(string(l.Params), `"name":"download_failed"`) {
				t.Errorf("%s", l.Params)
			}
			return
		}
	}
}

func TestAnotherUserIsTurnedAway(t *testing.T) {
	h := open(t, server.Options{PeerUID: func(net.Conn) (uint32, error) { return 1 << 30, nil }})
	c := h.dial(t)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"daemon.status"}`)
	wantError(t, c.recv(), ipc.Forbidden)
	web := h.dial(t)
	web.send("GET /health HTTP/1.1\r\nHost: x\r\n\r")
	if all, _ := io.ReadAll(web.r); !strings.HasPrefix(string(all), "HTTP/1.1 403 ") || !strings.Contains(string(all), `"forbidden"`) {
		t.Errorf("%s", all)
	}
	h2 := open(t, server.Options{PeerUID: func(net.Conn) (uint32, error) { return 0, errors.New("?") }})
	h2.dial(t).eof()
}

// Whatever comes in, what goes out is JSON-RPC with named errors, and the
// connection ends.
func FuzzLines(f *testing.F) {
	h := open(f, server.Options{})
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"daemon.status"}`))
	f.Add([]byte(`[{"jsonrpc":"2.0","id":1,"method":"completion.create","params":{"model":"m","stream":true,"prompt":"a"}}]`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"chat.create","params":{"model":"broken","messages":[{"role":"user","content":"x"}]}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, stuck := range []string{servertest.Slow, servertest.Endless, "GET ", "POST "} {
			if strings.Contains(string(in), stuck) {
				return
			}
		}
		c := h.dial(t)
		defer c.c.Close()
		_ = c.c.SetDeadline(time.Now().Add(time.Minute))
		go func() {
			_, _ = c.c.Write(in)
			_ = c.c.CloseWrite()
		}()
		for {
			b, err := c.r.ReadBytes('\n')
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				if ne, ok := err.(net.Error); ok && ne.Timeout() {
					t.Fatal("the connection does not end")
				}
				return // reset: it was HTTP, say
			}
			check(t, b)
		}
	})
}

func check(t *testing.T, b []byte) {
	t.Helper()
	var batch []line
	if b[0] != '[' {
		batch = make([]line, 1)
		if err := json.Unmarshal(b, &batch[0]); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
	} else if err := json.Unmarshal(b, &batch); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	for _, l := range batch {
		if l.Error != nil && (l.Error.Data["name"] == nil || l.Error.Message == "") {
			t.Fatalf("unnamed error: %s", b)
		}
	}
}
