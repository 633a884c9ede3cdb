package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"ingot/ipc"
)

func fresh() *Bus { return New(func() *ipc.Status { return &ipc.Status{PID: 7} }) }

func next(t *testing.T, w *Watcher) *ipc.Event {
	t.Helper()
	ev, err := w.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// quiet fails if there is an event within d.
func quiet(t *testing.T, w *Watcher, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	if ev, err := w.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %+v, %v, want silence", ev, err)
	}
}

func TestFirstTheWholeThenDeltas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fresh()
		b.Model(ipc.ModelStatus{Name: "before"}, true)
		w := b.Watch()
		defer w.Close()
		if ev := next(t, w); ev.Type != ipc.EventState || ev.State.PID != 7 || ev.Rev != 1 {
			t.Fatalf("first %+v", ev)
		}
		quiet(t, w, time.Second)
		b.Model(ipc.ModelStatus{Name: "a", Turns: 1}, true)
		b.Turn(ipc.TurnReport{Turn: "t"})
		b.Notice(ipc.Trouble{Message: "n"})
		b.Removed("b")
		var types []ipc.EventType
		last := int64(1)
		for range 4 {
			ev := next(t, w)
			if ev.Rev <= last {
				t.Errorf("rev %d after %d", ev.Rev, last)
			}
			last = ev.Rev
			types = append(types, ev.Type)
		}
		if got := fmt.Sprint(types); got != "[model turn notice removed]" {
			t.Error(got)
		}
	})
}

func TestDullChangesAreMergedAndNotableOnesToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fresh()
		w := b.Watch()
		defer w.Close()
		next(t, w)
		for i := range 100 {
			b.Model(ipc.ModelStatus{Name: "a", Turns: i}, false)
		}
		from := time.Now()
		if ev := next(t, w); ev.Model.Turns != 99 {
			t.Errorf("told %d, want the latest", ev.Model.Turns)
		}
		if took := time.Since(from); took != Pause {
			t.Errorf("told after %v, want %v", took, Pause)
		}
		quiet(t, w, time.Second)
		b.Model(ipc.ModelStatus{Name: "a", Turns: 1}, false)
		next(t, w) // long since the last: no pause
		b.Model(ipc.ModelStatus{Name: "a", Turns: 2}, false)
		b.Model(ipc.ModelStatus{Name: "b"}, true)
		from = time.Now()
		next(t, w)
		next(t, w)
		if took := time.Since(from); took != 0 {
			t.Errorf("a notable change waited %v", took)
		}
	})
}

func TestASlowWatcherHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fresh()
		w := b.Watch()
		next(t, w)
		for i := range 10_000 {
			b.Model(ipc.ModelStatus{Name: fmt.Sprint(i % 3), Turns: i}, true)
			b.Turn(ipc.TurnReport{EndedAt: int64(i)})
		}
		var turns, models int
		for range kept + 3 {
			switch ev := next(t, w); ev.Type {
			case ipc.EventTurn:
				turns++
			case ipc.EventModel:
				if models++; ev.Model.Turns < 9_997 {
					t.Errorf("stale: %+v", ev.Model)
				}
			}
		}
		if turns != kept || models != 3 {
			t.Errorf("%d turns, %d models", turns, models)
		}
		quiet(t, w, time.Second)
		w.Close()
		if b.Watching() != 0 {
			t.Error("it is still watching")
		}
		b.Removed("x")
	})
}

func TestTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fresh()
		w, idle := b.Watch(), b.Watch()
		next(t, w)
		next(t, idle)
		ended := make(chan error, 1)
		go func() {
			_, err := idle.Next(context.Background())
			ended <- err
		}()
		b.Turn(ipc.TurnReport{Turn: "last"})
		synctest.Wait()
		b.Close()
		if ev := next(t, w); ev.Turn == nil {
			t.Errorf("what was there is lost: %+v", ev)
		}
		if _, err := w.Next(context.Background()); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
		if err := <-ended; err != nil { // it was in Next when the turn came
			t.Error(err)
		}
		if _, err := b.Watch().Next(context.Background()); !errors.Is(err, io.EOF) {
			t.Errorf("a newcomer: %v", err)
		}
	})
}
