package journal

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// clock is a time that tests move.
type clock struct{ t time.Time }

func (c *clock) now() time.Time          { return c.t }
func (c *clock) advance(d time.Duration) { c.t = c.t.Add(d) }

func fixed(o Options) (*Journal, *clock) {
	c := &clock{t: time.Unix(1e9, 0)}
	o.Now = c.now
	return New(o), c
}

func spec(id turn.ID, linger bool) Spec {
	text := "prompt"
	p := turn.Neutral()
	return Spec{Model: "m", Submit: wire.Submit{Turn: id, Text: &text, Params: p}, Linger: linger}
}

func token(id turn.ID, text string) *wire.Step {
	zero := 0
	return &wire.Step{Turn: id, Choices: []wire.Advance{{Tokens: []turn.TokenID{turn.TokenID(len(text))}}},
		Events: []turn.Event{{Type: turn.EventText, Choice: &zero, Text: &turn.Text{Delta: text}}}}
}

// drain reads what is there, without waiting.
func drain(t interface{ Fatalf(string, ...any) }, r *Reader) (evs []turn.Event, err error) {
	for {
		ev, wait, err := r.try()
		if wait != nil || err != nil {
			return evs, err
		}
		if n := len(evs); n > 0 && ev.Seq != evs[n-1].Seq+1 {
			t.Fatalf("seq %d after %d", ev.Seq, evs[n-1].Seq)
		}
		evs = append(evs, ev)
	}
}

func TestEventsAreNumberedAndEndOnce(t *testing.T) {
	ended := 0
	j, _ := fixed(Options{Ended: func(s *Summary) {
		if ended++; s.Turn != "a" || s.Event.Done == nil {
			t.Errorf("%+v", s)
		}
	}})
	r := j.Open(spec("a", false))
	j.Tell("a", turn.Event{Type: turn.EventLoading, Loading: &turn.Loading{}})
	j.Stepped(token("a", "x"))
	if !j.Done("a", &turn.Done{FinishReason: turn.FinishStop}) || ended != 1 {
		t.Fatal("the first end is refused")
	}
	if j.Failed("a", turn.Failure{}) || ended != 1 {
		t.Error("a second end is taken")
	}
	if j.Stepped(token("a", "y")) {
		t.Error("a token after the end")
	}
	evs, err := drain(t, r)
	if len(evs) != 3 || !errors.Is(err, io.EOF) {
		t.Fatalf("%d events, %v", len(evs), err)
	}
	for i, ev := range evs {
		if ev.Seq != int64(i) || ev.Turn != "a" || ev.Final() != (i == 2) {
			t.Errorf("event %d: %+v", i, ev)
		}
	}
	r.Close()
	if j.Len() != 0 {
		t.Error("a turn that nobody can come back to is kept")
	}
}

func TestASubmissionIsAResumeOnceThePromptIsKnown(t *testing.T) {
	var sum *Summary
	j, clk := fixed(Options{Ended: func(s *Summary) { sum = s }})
	r := j.Open(spec("a", true))
	j.Tell("a", turn.Event{Type: turn.EventLoading, Loading: &turn.Loading{}})
	clk.advance(time.Second)
	s, again, ok := j.Submission("a")
	if !ok || again || s.Resume != nil || s.Text == nil {
		t.Fatalf("first: %+v again %v", s, again)
	}
	s, again, _ = j.Submission("a") // it died before it told the prompt
	if !again || s.Resume != nil || s.Text == nil {
		t.Fatalf("second: %+v again %v", s, again)
	}
	p := turn.Neutral()
	p.N, p.TopK = 2, 40
	j.Prompted(&wire.Prompt{Turn: "a", Tokens: []turn.TokenID{1, 2}, Params: p})
	j.Prompted(&wire.Prompt{Turn: "a", Tokens: []turn.TokenID{9}, Params: turn.Neutral()}) // nothing is rendered twice
	j.Stepped(&wire.Step{Turn: "a", Choices: []wire.Advance{{Choice: 1, Tokens: []turn.TokenID{7}, Finish: turn.FinishStop}}})
	s, again, _ = j.Submission("a")
	want := &wire.Resume{Choices: []wire.Delivered{{}, {Tokens: []turn.TokenID{7}, Finish: turn.FinishStop}}, Resumed: 2}
	if !again || !reflect.DeepEqual(s.Resume, want) || s.Text != nil || len(s.Tokens) != 2 || s.Params.TopK != 40 {
		t.Fatalf("third: %+v %+v", s, s.Resume)
	}
	j.Resumed("a")
	j.Done("a", &turn.Done{})
	if rep := sum.Event.Done.Report; rep.Resumed != 2 || rep.LoadMS != 1000 || rep.QueueMS != 0 {
		t.Errorf("report %+v", rep)
	}
	evs, _ := drain(t, r)
	if e := evs[1]; e.Type != turn.EventResumed || e.Resumed.Tokens != 1 {
		t.Errorf("%+v", e)
	}
}

func TestACancelledTurnCountsWhatItDelivered(t *testing.T) {
	var s *Summary
	j, _ := fixed(Options{Ended: func(end *Summary) { s = end }})
	sp := spec("a", false)
	sp.Submit.Params.N = 2
	j.Open(sp)
	j.Submission("a")
	j.Prompted(&wire.Prompt{Turn: "a", Tokens: make([]turn.TokenID, 5), Params: sp.Submit.Params})
	j.Stepped(&wire.Step{Turn: "a", Choices: []wire.Advance{{Choice: 0, Tokens: []turn.TokenID{7, 8}, Finish: turn.FinishStop}}})
	j.Cancelled("a")
	d := s.Event.Done
	if d.Usage.TotalTokens != 7 || d.FinishReasons[0] != turn.FinishStop || d.FinishReasons[1] != turn.FinishCancelled {
		t.Errorf("%+v", d)
	}
}

func TestALingeringTurnCanBePickedUp(t *testing.T) {
	var gone []turn.ID
	j, clk := fixed(Options{Linger: time.Minute, Gone: func(id turn.ID) { gone = append(gone, id) }})
	r := j.Open(spec("a", true))
	for range 5 {
		j.Stepped(token("a", "x"))
	}
	drain(t, r)
	r.Close()
	j.Stepped(token("a", "y"))
	clk.advance(59 * time.Second)
	j.Sweep()
	r, err := j.Attach("a", 3)
	if err != nil {
		t.Fatal(err)
	}
	evs, _ := drain(t, r)
	if len(evs) != 3 || evs[0].Seq != 3 || evs[2].Text.Delta != "y" {
		t.Errorf("%+v", evs)
	}
	if _, err := j.Attach("a", 7); !errors.Is(err, ErrFuture) {
		t.Errorf("beyond the next event: %v", err)
	}
	r.Close()
	clk.advance(61 * time.Second)
	j.Sweep()
	if len(gone) != 1 {
		t.Errorf("given up: %v", gone)
	}
	if _, err := j.Attach("a", 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("after the linger: %v", err)
	}
	j.Cancelled("a")
	if j.Len() != 0 {
		t.Error("it is kept")
	}
}

func TestAFinishedTurnIsForgottenAfterItsLinger(t *testing.T) {
	j, clk := fixed(Options{Linger: time.Minute})
	r := j.Open(spec("a", true))
	j.Done("a", &turn.Done{})
	clk.advance(2 * time.Minute)
	j.Sweep()
	if j.Len() != 1 {
		t.Fatal("forgotten before its reader had the end")
	}
	drain(t, r)
	r.Close()
	clk.advance(30 * time.Second)
	j.Sweep()
	if _, err := j.Attach("a", 0); err != nil {
		t.Errorf("its client comes back after 30 s: %v", err)
	}
}

func TestFinishedTurnsShareABound(t *testing.T) {
	j, clk := fixed(Options{Total: 4 << 10})
	for _, id := range []turn.ID{"a", "b", "c"} {
		j.Open(spec(id, true)).Close()
		j.Stepped(token(id, strings.Repeat("x", 1500)))
		clk.advance(time.Second)
		j.Done(id, &turn.Done{})
	}
	if j.Has("a") || !j.Has("b") || !j.Has("c") {
		t.Error("the oldest goes, the others stay")
	}
}

func TestAnotherReaderTakesTheTurnOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(Options{})
		old := j.Open(spec("a", true))
		errs := make(chan error)
		go func() {
			_, err := old.Next(context.Background())
			errs <- err
		}()
		synctest.Wait()
		r, _ := j.Attach("a", 0)
		if err := <-errs; !errors.Is(err, ErrTaken) {
			t.Errorf("the old reader: %v", err)
		}
		old.Close() // does not touch the new one
		j.Stepped(token("a", "x"))
		if ev, err := r.Next(context.Background()); err != nil || ev.Text.Delta != "x" {
			t.Errorf("%+v, %v", ev, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

func TestASilentTurnGivesSignsOfLife(t *testing.T) {
	j, clk := fixed(Options{})
	r := j.Open(spec("a", true))
	var gaps []string
	for range 20 {
		clk.advance(time.Second)
		j.Sweep()
		evs, _ := drain(t, r)
		for _, ev := range evs {
			gaps = append(gaps, ev.Waiting.Phase)
		}
	}
	if len(gaps) != 5 || gaps[0] != "queued" {
		t.Errorf("in 20 s: %v", gaps)
	}
	r.Close()
	clk.advance(10 * time.Second)
	j.Sweep()
	r, _ = j.Attach("a", 5)
	if evs, _ := drain(t, r); len(evs) != 0 {
		t.Errorf("nobody listened, yet %d signs", len(evs))
	}
}

// TestBounds: whatever is stepped, read, left and taken up again, readers see
// every seq once in order, what is held stays bounded while parking is
// obeyed, and there is one end.
func TestBounds(t *testing.T) {
	const keep = 8 << 10
	rapid.Check(t, func(t *rapid.T) {
		parked := false
		j, clk := fixed(Options{Keep: keep, Linger: time.Minute, Flow: func(_ turn.ID, p bool) { parked = p }})
		r := j.Open(spec("a", true))
		next, sent, ended := int64(0), int64(0), false
		read := func(n int) {
			for ; n > 0 && r != nil; n-- {
				ev, wait, err := r.try()
				if wait != nil || errors.Is(err, io.EOF) {
					return
				}
				if err != nil || ev.Seq != next {
					t.Fatalf("seq %d, want %d (%v)", ev.Seq, next, err)
				}
				next++
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"step": func(t *rapid.T) {
				if parked || ended {
					t.Skip()
				}
				j.Stepped(token("a", strings.Repeat("x", rapid.IntRange(1, 400).Draw(t, "size"))))
				sent++
			},
			"read": func(t *rapid.T) { read(rapid.IntRange(1, 20).Draw(t, "events")) },
			"leave": func(t *rapid.T) {
				if r == nil {
					t.Skip()
				}
				r.Close()
				r = nil
				clk.advance(time.Second)
			},
			"come": func(t *rapid.T) {
				var err error
				if r, err = j.Attach("a", next); err != nil {
					t.Fatalf("attach at %d: %v", next, err)
				}
			},
			"end": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "luck") == 0 {
					ok := j.Done("a", &turn.Done{})
					if ok == ended {
						t.Fatalf("end taken: %v, it had ended: %v", ok, ended)
					}
					if ok {
						sent++
					}
					ended = true
				}
			},
			"": func(t *rapid.T) {
				e := j.turns["a"]
				if e.kept > keep+1024 {
					t.Fatalf("%d bytes are held", e.kept)
				}
				if r != nil && e.unread == 0 && parked {
					t.Fatal("parked though everything is read")
				}
			},
		})
		if r == nil {
			r, _ = j.Attach("a", next)
		}
		read(1 << 30)
		if next != sent {
			t.Fatalf("%d events read of %d", next, sent)
		}
	})
}
