package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// sink is a channel whose peer reads when the test says so.
type sink struct {
	mu    sync.Mutex
	got   []string
	ready chan struct{} // a token lets one Send through; closed: all
	gone  error
}

func newSink() *sink { return &sink{ready: make(chan struct{}, 1000)} }

func (s *sink) Send(msg []byte) error {
	<-s.ready
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, string(msg))
	return s.gone
}

func (s *sink) Recv() ([]byte, error) { return nil, errors.New("a sink") }
func (s *sink) Close() error          { return nil }

func (s *sink) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// running starts o's writer and returns a func that waits for its end.
func running(o *outbox) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- o.run() }()
	return func() error { return <-done }
}

func TestOutboxWritesInOrderAndTellsWhen(t *testing.T) {
	s := newSink()
	o := newOutbox(s)
	wait := running(o)
	var at []string // what had been written when each reply was
	for i := range 3 {
		if err := o.event(t.Context(), fmt.Appendf(nil, "e%d", i)); err != nil {
			t.Fatal(err)
		}
		if err := o.reply(fmt.Appendf(nil, "r%d", i), func() { at = append(at, fmt.Sprint(len(s.seen()))) }); err != nil {
			t.Fatal(err)
		}
	}
	close(s.ready)
	o.close()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if got := s.seen(); !slices.Equal(got, []string{"e0", "r0", "e1", "r1", "e2", "r2"}) || !slices.Equal(at, []string{"2", "4", "6"}) {
		t.Errorf("wrote %q, told at %q", got, at)
	}
	if o.reply(nil, nil) != errClosed || o.event(t.Context(), nil) != errClosed {
		t.Error("a closed outbox took something")
	}
}

func TestEventsWaitForRoomAndRepliesDoNot(t *testing.T) {
	s := newSink()
	o := newOutbox(s)
	wait := running(o)
	big := make([]byte, maxEvents)
	if err := o.event(t.Context(), big); err != nil {
		t.Fatal(err)
	}
	if full, err := o.tryEvent([]byte("x")); full == nil || err != nil {
		t.Fatal("there is room")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.event(ctx, []byte("x")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	through := make(chan error, 1)
	go func() { through <- o.event(t.Context(), []byte("late")) }()
	if err := o.reply([]byte("reply"), nil); err != nil {
		t.Fatal(err)
	}
	s.ready <- struct{}{} // the peer reads one message
	if err := <-through; err != nil {
		t.Fatal(err)
	}
	close(s.ready)
	o.close()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if got := s.seen()[1:]; !slices.Equal(got, []string{"reply", "late"}) {
		t.Errorf("%q", got)
	}
}

func TestADeafPeerIsCutOff(t *testing.T) {
	o := newOutbox(newSink()) // nobody writes
	big := make([]byte, maxReplies/4)
	var err error
	n := 0
	for ; err == nil; n++ {
		err = o.reply(big, nil)
	}
	if !errors.Is(err, errDeaf) || n < 4 || n > 7 {
		t.Errorf("%v after %d replies", err, n)
	}
}

func TestAWriteThatFailsEndsTheWriter(t *testing.T) {
	s := newSink()
	s.gone = errors.New("gone")
	close(s.ready)
	o := newOutbox(s)
	wait := running(o)
	told := false
	if err := o.reply([]byte("x"), func() { told = true }); err != nil {
		t.Fatal(err)
	}
	if err := wait(); !errors.Is(err, s.gone) || told {
		t.Errorf("%v, told %v", err, told)
	}
}

// Whatever is put in by many comes out once, each one's in its order.
func TestOutboxLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(0, 40), 1, 5).Draw(t, "messages of each")
		size := rapid.SampledFrom([]int{1, 1000, maxEvents}).Draw(t, "size")
		s := newSink()
		close(s.ready)
		o := newOutbox(s)
		wait := running(o)
		var all sync.WaitGroup
		for who, n := range counts {
			all.Go(func() {
				for i := range n {
					msg := fmt.Appendf(make([]byte, 0, size), "%d.%d", who, i)
					if i%3 == 0 {
						_ = o.reply(msg, nil)
					} else {
						_ = o.event(context.Background(), msg)
					}
				}
			})
		}
		all.Wait()
		o.close()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		next := make([]int, len(counts))
		for _, m := range s.seen() {
			var who, i int
			if _, err := fmt.Sscanf(m, "%d.%d", &who, &i); err != nil || next[who] != i {
				t.Fatalf("%q came, want %d of %d", m, next[who], who)
			}
			next[who]++
		}
		if !slices.Equal(next, counts) {
			t.Fatalf("got %v of %v", next, counts)
		}
		if o.events != 0 || o.replies != 0 {
			t.Fatalf("%d and %d bytes are still counted", o.events, o.replies)
		}
	})
}
