package daemon

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ingot/ipc"
	"ingot/ipc/server"
	"ingot/runtime/turn"
)

// storm is a daemon under everything at once.
type storm struct {
	*stand
	mu  sync.Mutex
	rng *rand.Rand
}

func (s *storm) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// client asks again and again, in all the ways a client can behave.
func (s *storm) client(requests int) {
	for range requests {
		prompt := fmt.Sprintf("tokens %d pause %dms prefill %dms", 1+s.draw(60), s.draw(100), s.draw(200))
		if s.draw(25) == 0 {
			prompt += []string{" die prefill", " die 3", " device 2 until 3", " fail no_room"}[s.draw(4)]
		}
		v, err := s.StartTurn(bg, &ipc.TurnRequest{Model: []string{"a", "b", "c"}[s.draw(3)], Text: &prompt, Params: turn.Neutral(), Linger: s.draw(2) == 0})
		if err != nil {
			s.t.Error(err)
			return
		}
		s.behave(v)
	}
}

func (s *storm) behave(v server.Turn) {
	switch s.draw(6) {
	case 0: // goes away, and does not come back
		time.Sleep(time.Duration(s.draw(2000)) * time.Millisecond)
		v.Close()
		return
	case 1: // cancels
		time.Sleep(time.Duration(s.draw(2000)) * time.Millisecond)
		if err := s.Cancel(bg, v.ID()); err != nil {
			s.t.Error(err)
		}
	case 2: // reads late
		time.Sleep(time.Duration(s.draw(30)) * time.Second)
	}
	s.read(v)
}

// read holds one view to its rules.
func (s *storm) read(v server.Turn) {
	defer v.Close()
	seq, finals := int64(0), 0
	for {
		ev, err := v.Next(bg)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || ev.Seq != seq {
			s.t.Errorf("seq %d, want %d (%v)", ev.Seq, seq, err)
			return
		}
		seq++
		if ev.Final() {
			finals++
		}
	}
	if finals != 1 {
		s.t.Errorf("%d ends in %d events", finals, seq)
	}
}

// weather kills runners, unloads, loads and asks, until stop.
func (s *storm) weather(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(1+s.draw(3000)) * time.Millisecond):
		}
		name := []string{"a", "b", "c"}[s.draw(3)]
		switch s.draw(6) {
		case 0, 1:
			s.fleet.Kill()
		case 2:
			_ = s.Unload(bg, name) // refused while it has turns
		case 3:
			if _, err := s.Load(bg, ipc.LoadParams{Model: name}); err != nil && !errors.Is(err, ipc.ModelFailed) {
				s.t.Errorf("load: %v", err)
			}
		case 4:
			if _, err := s.Encode(bg, ipc.EncodeParams{Model: name, Text: "x"}); err != nil && !errors.Is(err, ipc.EngineFailed) {
				s.t.Errorf("encode: %v", err)
			}
		case 5:
			if _, err := s.Status(bg); err != nil {
				s.t.Error(err)
			}
		}
	}
}

// TestStorm: whatever clients do and runners suffer, every turn ends once,
// nobody hangs, and afterwards nothing is open.
func TestStorm(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			s := &storm{stand: newStand(t, "memory_budget = \"10GB\"\nkeep_alive = \"20s\"\n[turns]\nlinger = \"5s\"",
				"a:3000000000", "b:3000000000", "c:6000000000"), rng: rand.New(rand.NewPCG(seed, 7))}
			s.fleet.Options.Load = 300 * time.Millisecond
			stop := make(chan struct{})
			var clients, weather sync.WaitGroup
			weather.Go(func() { s.weather(stop) })
			for range 6 {
				clients.Go(func() { s.client(25) })
			}
			clients.Wait()
			close(stop)
			weather.Wait()
			time.Sleep(10 * time.Minute) // lingering turns end, idle models leave
			if n := s.journal.Len(); n != 0 {
				t.Errorf("seed %d: %d turns are held", seed, n)
			}
			st, _ := s.Status(bg)
			for _, m := range st.Models {
				if m.Turns+m.Queued != 0 || m.PID != 0 {
					t.Errorf("seed %d: %+v", seed, m)
				}
			}
			s.close()
		})
	}
}
