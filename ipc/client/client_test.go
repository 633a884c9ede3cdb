package client

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ingot/ipc"
	"ingot/ipc/server"
	"ingot/ipc/server/servertest"
	"ingot/ipc/socket"
	"ingot/runtime/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a server with a fake backend, and a client of it.
type house struct {
	*servertest.Fake
	*Client
	srv *server.Server
}

func open(t *testing.T) *house {
	t.Helper()
	dir, err := os.MkdirTemp("", "cli")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := &house{Fake: servertest.New(), Client: &Client{Socket: filepath.Join(dir, "s"), Patience: time.Minute}}
	h.serve(t)
	return h
}

// serve puts a new server on the socket.
func (h *house) serve(t *testing.T) {
	t.Helper()
	l, err := socket.Listen(h.Socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := server.New(h.Fake, server.Options{})
	h.srv = srv
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Close()
		<-served
	})
}

func chat(model, text string) *ipc.ChatRequest {
	return &ipc.ChatRequest{Model: model, Messages: []ipc.Message{{Role: "user", Content: text}}}
}

func TestCalls(t *testing.T) {
	h := open(t)
	ctx := t.Context()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	st, err := h.Client.Load(ctx, ipc.LoadParams{Model: "m"})
	if err != nil || st.State != ipc.StateReady {
		t.Errorf("load: %+v, %v", st, err)
	}
	status, err := h.Client.Status(ctx)
	if err != nil || status.Version != "test" || len(status.Models) != 1 {
		t.Errorf("status: %+v, %v", status, err)
	}
	list, err := h.Models(ctx)
	if err != nil || list.Models[0].Name != "echo" {
		t.Errorf("models: %+v, %v", list, err)
	}
	d, err := h.Client.Show(ctx, "m")
	if err != nil || d.Name != "m" {
		t.Errorf("show: %+v, %v", d, err)
	}
	must("unload", h.Client.Unload(ctx, "m"))
	must("pin", h.Client.Pin(ctx, ipc.PinParams{Model: "m", Pinned: true}))
	must("alias", h.Client.Alias(ctx, ipc.AliasParams{Alias: "a"}))
	must("remove", h.Client.Remove(ctx, "m"))
	must("stop", h.Client.Stop(ctx))
	enc, err := h.Client.Encode(ctx, ipc.EncodeParams{Text: "ab"})
	if err != nil || len(enc.Tokens) != 2 {
		t.Errorf("encode: %+v, %v", enc, err)
	}
	dec, err := h.Client.Decode(ctx, ipc.DecodeParams{Tokens: enc.Tokens})
	if err != nil || dec.Text != "ab" {
		t.Errorf("decode: %+v, %v", dec, err)
	}
	text := "abc"
	n, err := h.Client.Count(ctx, ipc.CountParams{Text: &text})
	if err != nil || n.Tokens != 3 {
		t.Errorf("count: %+v, %v", n, err)
	}
	logs, err := h.Client.Logs(ctx, ipc.LogsParams{Lines: 2})
	if err != nil || len(logs.Lines) != 2 {
		t.Errorf("logs: %+v, %v", logs, err)
	}
}

func TestErrorsComeTyped(t *testing.T) {
	h := open(t)
	if _, err := h.Client.Show(t.Context(), servertest.Missing); !errors.Is(err, ipc.ModelNotFound) {
		t.Errorf("show: %v", err)
	}
	for _, err := range h.Chat(t.Context(), chat(servertest.Missing, "x")) {
		if !errors.Is(err, ipc.ModelNotFound) {
			t.Errorf("chat: %v", err)
		}
	}
	absent := &Client{Socket: h.Socket + "x"}
	if _, err := absent.Status(t.Context()); !errors.Is(err, socket.ErrAbsent) {
		t.Errorf("nobody there: %v", err)
	}
	var last turn.Event
	var failed error
	for e, err := range h.Chat(t.Context(), chat(servertest.Broken, "x")) {
		if err != nil {
			failed = err
		} else {
			last = e
		}
	}
	if last.Type != turn.EventError || !errors.Is(failed, ipc.ModelFailed) {
		t.Errorf("broken: %+v, %v", last, failed)
	}
}

func TestGenerateYieldsEveryEventOnce(t *testing.T) {
	h := open(t)
	seq, text := int64(0), ""
	for e, err := range h.Chat(t.Context(), chat("m", "a b c")) {
		if err != nil || e.Seq != seq {
			t.Fatalf("%+v, %v; want seq %d", e, err, seq)
		}
		seq++
		if e.Type == turn.EventText {
			text += e.Delta
		}
	}
	if text != "a b c" || seq != 5 {
		t.Errorf("%q after %d events", text, seq)
	}
	for e, err := range h.Complete(t.Context(), &ipc.CompletionRequest{Model: "m", Prompt: ipc.Prompt{Tokens: []turn.TokenID{1}}}) {
		if err != nil {
			t.Fatal(e, err)
		}
	}
	if got := h.Requests()[1].Tokens; len(got) != 1 || got[0] != 1 {
		t.Errorf("tokens %v", got)
	}
}

func TestTheContextCancelsTheTurnAndItsEndComes(t *testing.T) {
	h := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last turn.Event
	for e, err := range h.Chat(ctx, chat(servertest.Slow, "x")) {
		if err != nil {
			t.Fatal(err)
		}
		last = e
		cancel()
	}
	if last.Done == nil || last.FinishReason != turn.FinishCancelled {
		t.Errorf("%+v", last)
	}
}

func TestACallerThatStopsCancels(t *testing.T) {
	h := open(t)
	for range h.Chat(t.Context(), chat(servertest.Slow, "x")) {
		break
	}
	if id := <-h.Cancelled(); id != "t1" {
		t.Errorf("cancelled %s", id)
	}
}

func TestACancelledContextStartsNothing(t *testing.T) {
	h := open(t)
	ended, end := context.WithCancel(t.Context())
	end()
	for _, err := range h.Chat(ended, chat("m", "x")) {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _, err := h.Client.Load(ctx, ipc.LoadParams{Model: servertest.Slow}); done <- err }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// breaker stands between a client and its daemon and breaks the first
// connections once they carried some events.
type breaker struct {
	l      net.Listener
	behind string
	breaks atomic.Int32 // connections still to break
}

func newBreaker(t *testing.T, behind string, breaks int32) *breaker {
	t.Helper()
	dir, err := os.MkdirTemp("", "brk")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	b := &breaker{l: l, behind: behind}
	b.breaks.Store(breaks)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go b.carry(c)
		}
	}()
	t.Cleanup(func() { l.Close(); <-done; os.RemoveAll(dir) })
	return b
}

func (b *breaker) carry(c net.Conn) {
	defer c.Close()
	d, err := net.Dial("unix", b.behind)
	if err != nil {
		return
	}
	defer d.Close()
	ended := make(chan struct{})
	go func() { defer close(ended); io.Copy(d, c) }() //nolint:errcheck
	if b.breaks.Add(-1) >= 0 {
		io.CopyN(c, d, 250) //nolint:errcheck // in the middle of an event
		c.Close()
	} else {
		io.Copy(c, d) //nolint:errcheck
		c.Close()
	}
	<-ended
}

func TestALostConnectionIsTakenUpAgain(t *testing.T) {
	h := open(t)
	b := newBreaker(t, h.Socket, 1)
	c := &Client{Socket: b.l.Addr().String()}
	want := strings.Repeat("word ", 50)
	var text string
	seq := int64(0)
	for e, err := range c.Chat(t.Context(), chat("m", want)) {
		if err != nil || e.Seq != seq {
			t.Fatalf("%+v, %v", e, err)
		}
		seq++
		if e.Type == turn.EventText {
			text += e.Delta
		}
	}
	if text != want {
		t.Errorf("got %q", text)
	}
}

func TestALostDaemonIsAnError(t *testing.T) {
	h := open(t)
	n := 0
	for e, err := range h.Chat(t.Context(), chat(servertest.Slow, "x")) {
		if n++; n == 1 {
			h.Client.Patience = 0
			h.srv.Close()
			continue
		}
		if !errors.Is(err, ErrLost) {
			t.Errorf("%+v, %v", e, err)
		}
	}
	if n != 2 {
		t.Errorf("%d yields", n)
	}
}

func TestWatchSurvivesARestart(t *testing.T) {
	h := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	states, losses := 0, 0
	for e, err := range h.Client.Watch(ctx) {
		switch {
		case err != nil:
			losses++
		case e.Type == ipc.EventState:
			states++
			if states == 1 {
				h.srv.Close()
				h.serve(t)
			} else {
				h.Publish(ipc.Event{Type: ipc.EventNotice})
			}
		case e.Type == ipc.EventNotice:
			cancel()
		}
	}
	if states != 2 || losses != 1 {
		t.Errorf("%d states, %d losses", states, losses)
	}
	for range h.Client.Watch(t.Context()) {
		break // a caller may leave
	}
}

func TestPull(t *testing.T) {
	h := open(t)
	h.PullSteps = 3
	var seen []turn.Bytes
	res, err := h.Client.Pull(t.Context(), ipc.PullParams{Model: "/f.gguf", As: "m"}, func(p ipc.PullProgress) { seen = append(seen, p.Done) })
	if err != nil || res.Model != "m" || len(seen) != 3 {
		t.Errorf("%+v, %v, %v", res, seen, err)
	}
	if _, err := h.Client.Pull(t.Context(), ipc.PullParams{Model: servertest.Missing}, nil); !errors.Is(err, ipc.DownloadFailed) {
		t.Error(err)
	}
	if _, err := h.Client.Pull(t.Context(), ipc.PullParams{}, nil); !errors.Is(err, ipc.InvalidParams) {
		t.Error(err)
	}
}
