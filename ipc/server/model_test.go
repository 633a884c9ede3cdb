package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ingot/ipc"
	"ingot/ipc/server"
	"ingot/ipc/server/servertest"
)

// peer is a client that remembers what it was promised.
type peer struct {
	*caller
	id      int
	want    map[string]bool  // ids of requests without an answer
	streams map[string]int64 // next seq of each stream that was announced
	ended   map[string]bool
}

func (p *peer) ask(method, params string) {
	p.id++
	id := fmt.Sprint(p.id)
	p.want[id] = true
	p.send(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
}

// take checks one message against what was promised.
func (p *peer) take(l line) error {
	switch l.Method {
	case "":
		if !p.want[string(l.ID)] {
			return fmt.Errorf("an answer to %s, which was not asked or was answered", l.ID)
		}
		delete(p.want, string(l.ID))
		var ref ipc.TurnRef
		if l.Error == nil && json.Unmarshal(l.Result, &ref) == nil && ref.Turn != "" {
			p.streams[string(ref.Turn)] = 0
		}
		return nil
	case ipc.NoteTurn:
		var e event
		if err := json.Unmarshal(l.Params, &e); err != nil {
			return err
		}
		next, known := p.streams[e.Turn]
		if !known || e.Seq != next || p.ended[e.Turn] {
			return fmt.Errorf("event %d of %s: announced %v, next %d, ended %v", e.Seq, e.Turn, known, next, p.ended[e.Turn])
		}
		p.streams[e.Turn] = next + 1
		p.ended[e.Turn] = e.Type == "done" || e.Type == "error"
	}
	return nil
}

// finish reads to the end of the connection: everything promised has come.
func (p *peer) finish() error {
	for {
		b, err := p.r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		var l line
		if err := json.Unmarshal(b, &l); err != nil {
			return fmt.Errorf("%s: %w", b, err)
		}
		if err := p.take(l); err != nil {
			return err
		}
	}
	if len(p.want) > 0 {
		return fmt.Errorf("no answer to %v", p.want)
	}
	for id := range p.streams {
		if !p.ended[id] {
			return fmt.Errorf("stream %s has no end", id)
		}
	}
	return nil
}

// Any mixture of calls on some connections, of which each is then half
// closed, is answered in full and in order; those closed at once leave
// nothing behind.
func TestAnyConversationIsAnsweredInFull(t *testing.T) {
	h := open(t, server.Options{})
	rapid.Check(t, func(rt *rapid.T) {
		var peers []*peer
		for range rapid.IntRange(1, 3).Draw(rt, "peers") {
			p := &peer{caller: h.dial(t), want: map[string]bool{}, streams: map[string]int64{}, ended: map[string]bool{}}
			_ = p.c.SetDeadline(time.Now().Add(time.Minute))
			peers = append(peers, p)
		}
		for range rapid.IntRange(0, 12).Draw(rt, "calls") {
			p := rapid.SampledFrom(peers).Draw(rt, "peer")
			call := rapid.SampledFrom([][2]string{
				{"completion.create", `{"model":"m","stream":true,"prompt":"a b c"}`},
				{"completion.create", `{"model":"m","prompt":"a b c"}`},
				{"completion.create", `{"model":"broken","stream":true,"prompt":"x"}`},
				{"completion.create", `{"model":"missing","stream":true,"prompt":"x"}`},
				{"chat.create", `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi there"}]}`},
				{"daemon.watch", `{}`}, {"daemon.unwatch", `{}`}, {"daemon.status", `{}`}, {"no.such", `{}`},
				{"turn.cancel", `{"turn":"t1"}`},
			}).Draw(rt, "call")
			p.ask(call[0], call[1])
		}
		for _, p := range peers {
			if rapid.IntRange(0, 4).Draw(rt, "how it ends") == 0 {
				p.c.Close()
				continue
			}
			if err := p.c.CloseWrite(); err != nil {
				rt.Fatal(err)
			}
			if err := p.finish(); err != nil {
				rt.Fatal(err)
			}
		}
	})
	eventually(t, "every view and watcher is closed", func() bool { return h.Views() == 0 && h.Watchers() == 0 })
}

// A thousand connections of every kind leave no descriptor behind; TestMain
// looks after the goroutines.
func TestChurnLeavesNothingBehind(t *testing.T) {
	h := open(t, server.Options{})
	churn := func(n int) {
		for i := range n {
			c := h.dial(t)
			switch i % 5 {
			case 0:
				c.stream("m", "a b")
				c.rest(0)
			case 1:
				c.stream(servertest.Slow, "a b")
			case 2:
				c.send(`{"jsonrpc":"2.0","id":1,"method":"completion.create","params":{"model":"slow","prompt":"x"}}`)
			case 3:
				c.send("GET /health HTTP/1.1\r\nHost: x\r\n\r")
				c.raw()
			}
			c.c.Close()
		}
		eventually(t, "every view is closed", func() bool { return h.Views() == 0 })
	}
	churn(10)
	before := descriptors(t)
	churn(500)
	eventually(t, "the descriptors are closed", func() bool { return descriptors(t) <= before })
}
