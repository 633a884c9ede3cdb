package daemon

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ingot/daemon/config"
	"ingot/daemon/fakerunner"
	"ingot/daemon/journal"
	"ingot/ipc"
	"ingot/ipc/server"
	"ingot/runtime/turn"
)

var bg = context.Background()

type discard struct{ io.Writer }

func (discard) Close() error { return nil }

// stand is a daemon over fake runners in this process.
type stand struct {
	*Daemon
	t     *testing.T
	fleet *fakerunner.Fleet
}

func newStand(t *testing.T, conf string, models ...string) *stand {
	t.Helper()
	cfg, err := config.Parse("config.toml", conf)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	for _, m := range models {
		putModel(t, home, m)
	}
	s := &stand{t: t, fleet: &fakerunner.Fleet{}}
	s.Daemon, err = New(Options{Home: home, Config: cfg, Launch: s.fleet.Launch, Runner: []string{"/none"}, Log: discard{io.Discard}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stand) close() {
	s.Drain(bg)
	s.Close(bg)
	time.Sleep(time.Minute) // fakes that were cut off end when they next wake
	if n := s.fleet.Alive(); n != 0 {
		s.t.Errorf("%d runners outlive the daemon", n)
	}
}

// putModel writes a model that only the fake takes; NAME:BYTES makes it that
// large, without the disk noticing.
func putModel(t *testing.T, home, name string) {
	t.Helper()
	var size int64
	if n, s, ok := strings.Cut(name, ":"); ok {
		name = n
		fmt.Sscan(s, &size)
	}
	folder := filepath.Join(home, "models", "local", name)
	head, err := json.Marshal(map[string]any{"w": map[string]any{"dtype": "F32", "shape": []int64{size / 4}, "data_offsets": []int64{0, size}}})
	if err != nil {
		t.Fatal(err)
	}
	weights := append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...)
	path := filepath.Join(folder, "model.safetensors")
	if err := errors.Join(
		os.MkdirAll(folder, 0o700),
		os.WriteFile(filepath.Join(folder, "config.json"), []byte(`{"model_type":"llama","vocab_size":256,"max_position_embeddings":4096}`), 0o600),
		os.WriteFile(filepath.Join(folder, "tokenizer.json"), []byte("{}"), 0o600),
		os.WriteFile(path, weights, 0o600),
		os.Truncate(path, int64(len(weights))+size),
	); err != nil {
		t.Fatal(err)
	}
}

func (s *stand) start(model, prompt string, linger bool) server.Turn {
	s.t.Helper()
	v, err := s.StartTurn(bg, &ipc.TurnRequest{Model: model, Text: &prompt, Params: turn.Neutral(), Linger: linger})
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// finish reads a turn to its end.
func (s *stand) finish(v server.Turn) turn.Event {
	s.t.Helper()
	var last turn.Event
	for {
		ev, err := v.Next(bg)
		if errors.Is(err, io.EOF) {
			v.Close()
			return last
		}
		if err != nil {
			s.t.Fatal(err)
		}
		last = ev
	}
}

func (s *stand) answer(model, prompt string) turn.Event {
	return s.finish(s.start(model, prompt, false))
}

func (s *stand) state(model string) ipc.ModelStatus {
	st, err := s.Status(bg)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range st.Models {
		if m.Name == model {
			return m
		}
	}
	return ipc.ModelStatus{}
}

func (s *stand) wantError(err error, name ipc.Name) *ipc.Error {
	s.t.Helper()
	if !errors.Is(err, name) {
		s.t.Errorf("got %v, want %s", err, name)
		return &ipc.Error{}
	}
	return ipc.AsError(err)
}

func TestATurnFromEndToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, "model = \"tiny\"", "tiny")
		defer s.close()
		ev := s.answer("", "tokens 5 pause 10ms")
		if ev.Done == nil || ev.Done.Usage.CompletionTokens != 5 || ev.Done.Report.Seed == 0 {
			t.Fatalf("%+v", ev)
		}
		st, _ := s.Status(bg)
		if len(st.Recent) != 1 || st.Recent[0].Turn != ev.Turn || st.Recent[0].Usage != ev.Done.Usage || st.LastError != nil {
			t.Errorf("%+v", st)
		}
		if m := s.state("tiny"); m.State != ipc.StateReady || m.Buffers.Limit != 1000 || m.ExpiresS == nil || m.Turns != 0 {
			t.Errorf("%+v", m)
		}
		for range 30 {
			s.answer("tiny", "tokens 1")
		}
		if st, _ := s.Status(bg); len(st.Recent) != 20 {
			t.Errorf("%d recent turns", len(st.Recent))
		}
	})
}

func TestIdleModelsAreUnloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, "keep_alive = \"1m\"\n[models.\"stays\"]\nkeep_alive = \"-1\"", "tiny", "stays")
		defer s.close()
		s.answer("tiny", "tokens 1")
		s.answer("stays", "tokens 1")
		time.Sleep(2 * time.Minute)
		if a, b := s.state("tiny"), s.state("stays"); a.State != ipc.StateCold || a.PID != 0 || b.State != ipc.StateReady {
			t.Errorf("tiny %s, stays %s", a.State, b.State)
		}
		long := s.start("tiny", "tokens 100 pause 3s", false)
		time.Sleep(2 * time.Minute)
		if m := s.state("tiny"); m.State != ipc.StateBusy || m.Turns != 1 {
			t.Errorf("%+v", m)
		}
		s.finish(long)
	})
}

func TestOneModelMakesRoomForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, `memory_budget = "10GB"`, "a:6000000000", "b:6000000000", "small:100")
		defer s.close()
		s.answer("a", "tokens 1")
		s.answer("small", "tokens 1")
		busy := s.start("a", "tokens 100 pause 100ms", false)
		b := s.start("b", "tokens 1", false)
		time.Sleep(time.Second)
		if st := s.state("b").State; st != ipc.StateCold {
			t.Errorf("b is %s beside a busy a", st)
		}
		if ev := s.finish(busy); ev.Done == nil {
			t.Errorf("%+v", ev)
		}
		if ev := s.finish(b); ev.Done == nil {
			t.Errorf("%+v", ev)
		}
		if x, y := s.state("a").State, s.state("b").State; x != ipc.StateCold || y != ipc.StateReady {
			t.Errorf("a %s, b %s", x, y)
		}
		if err := s.Pin(bg, ipc.PinParams{Model: "b", Pinned: true}); err != nil {
			t.Fatal(err)
		}
		ev := s.answer("a", "tokens 1")
		if ev.Failure == nil || ev.Failure.Code != ipc.NoRoom.Code() {
			t.Errorf("beside a pinned b: %+v", ev)
		}
		if err := s.Pin(bg, ipc.PinParams{Model: "b"}); err != nil {
			t.Fatal(err)
		}
		if ev := s.answer("a", "tokens 1"); ev.Done == nil {
			t.Errorf("%+v", ev)
		}
	})
}

func TestTheQueueHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, "max_turns = 1\nmax_queue = 1", "tiny")
		defer s.close()
		a, b := s.start("tiny", "tokens 10 pause 1s", false), s.start("tiny", "tokens 10 pause 1s", false)
		text := "x"
		_, err := s.StartTurn(bg, &ipc.TurnRequest{Model: "tiny", Text: &text, Params: turn.Neutral()})
		if e := s.wantError(err, ipc.QueueFull); e.Data["retry_after_s"] == nil {
			t.Errorf("%+v", e.Data)
		}
		s.finish(a)
		s.finish(b)
		s.answer("tiny", "tokens 1")
	})
}

func TestADisconnectCancelsUnlessTheTurnLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, "", "tiny")
		defer s.close()
		v := s.start("tiny", "tokens 100 pause 1s", false)
		time.Sleep(3 * time.Second)
		v.Close()
		time.Sleep(2 * time.Second)
		st, _ := s.Status(bg)
		if len(st.Recent) != 1 || st.Recent[0].FinishReason != turn.FinishCancelled {
			t.Fatalf("%+v", st.Recent)
		}
		v = s.start("tiny", "tokens 20 pause 1s", true)
		time.Sleep(3 * time.Second)
		v.Close()
		time.Sleep(30 * time.Second)
		again, err := s.Attach(bg, v.ID(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if ev := s.finish(again); ev.Done == nil || ev.Done.FinishReason != turn.FinishStop {
			t.Errorf("%+v", ev)
		}
		v = s.start("tiny", "tokens 500 pause 1s", true)
		v.Close()
		time.Sleep(65 * time.Second)
		if _, err := s.Attach(bg, v.ID(), 0); err == nil {
			t.Error("attached after the linger")
		} else {
			s.wantError(err, ipc.TurnNotFound)
		}
		if m := s.state("tiny"); m.Turns != 0 {
			t.Errorf("%d turns go on without a client", m.Turns)
		}
		if err := s.Cancel(bg, v.ID()); err != nil {
			t.Errorf("cancel after the end: %v", err)
		}
		s.wantError(s.Cancel(bg, "t0"), ipc.TurnNotFound)
	})
}

func TestDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, "[turns]\ndrain = \"3s\"", "tiny")
		short, long := s.start("tiny", "tokens 10 pause 100ms", false), s.start("tiny", "tokens 1000 pause 100ms", false)
		time.Sleep(500 * time.Millisecond)
		if err := errors.Join(s.Stop(bg), s.Stop(bg)); err != nil {
			t.Fatal(err)
		}
		<-s.Quit()
		drained := make(chan time.Duration)
		from := time.Now()
		go func() { s.Drain(bg); drained <- time.Since(from) }()
		time.Sleep(time.Second)
		text := "x"
		_, err := s.StartTurn(bg, &ipc.TurnRequest{Model: "tiny", Text: &text, Params: turn.Neutral()})
		s.wantError(err, ipc.ShuttingDown)
		if st, _ := s.Status(bg); !st.Stopping {
			t.Error("the status does not tell")
		}
		_, err = s.Load(bg, ipc.LoadParams{Model: "tiny"})
		s.wantError(err, ipc.ShuttingDown)
		_, err = s.Encode(bg, ipc.EncodeParams{Model: "tiny"})
		s.wantError(err, ipc.ShuttingDown)
		if took := <-drained; took > 3100*time.Millisecond {
			t.Errorf("drained for %v", took)
		}
		if ev := s.finish(short); ev.Done == nil {
			t.Errorf("the short turn: %+v", ev)
		}
		if ev := s.finish(long); ev.Failure == nil || ev.Failure.Code != ipc.ShuttingDown.Code() {
			t.Errorf("the long turn: %+v", ev)
		}
		s.close()
	})
}

func TestWatching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, "", "tiny")
		w, err := s.Watch(bg)
		if err != nil {
			t.Fatal(err)
		}
		s.answer("tiny", "tokens 3 pause 1s")
		seen := map[string]bool{}
		for !seen["turn"] || !seen["model"] {
			ev, err := w.Next(bg)
			if err != nil {
				t.Fatal(err)
			}
			seen[string(ev.Type)] = true
			if ev.Model != nil {
				seen[string(ev.Model.State)] = true
			}
		}
		for _, want := range []string{"state", "model", "turn"} {
			if !seen[want] {
				t.Errorf("no %s event: %v", want, seen)
			}
		}
		s.close()
		for {
			if _, err := w.Next(bg); err != nil {
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				break
			}
		}
	})
}

func TestWhatTheRequestDoesNotSayTheConfigurationMay(t *testing.T) {
	cfg, err := config.Parse("", "temperature = 0.5\ntop_k = 7\ndeterministic = true\nmax_tokens = 9")
	if err != nil {
		t.Fatal(err)
	}
	p := turn.Neutral()
	p.TopK, p.Seed = 3, 42
	s := submission("t", &ipc.TurnRequest{Params: p, Given: []string{"top_k", "seed"}}, &cfg.Model)
	if q := s.Params; q.Temperature != 0.5 || q.TopK != 3 || !q.Deterministic || q.MaxTokens != 9 || q.Seed != 42 {
		t.Errorf("%+v", q)
	}
	if got := fmt.Sprint(s.Given); got != "[top_k seed max_tokens temperature]" {
		t.Error(got)
	}
	s = submission("t", &ipc.TurnRequest{Params: turn.Neutral(), Given: []string{"deterministic"}}, &cfg.Model)
	if s.Params.Deterministic || s.Params.Seed >= 1<<53 {
		t.Errorf("%+v", s.Params)
	}
}

func TestReportOfAFailure(t *testing.T) {
	f := ipc.Errorf(ipc.NoRoom, "full").Failure()
	r := report(&journal.Summary{Turn: "t", Model: "m", Event: turn.Event{Type: turn.EventError, Failure: f},
		Usage: turn.Usage{CompletionTokens: 4}, Resumed: 2, Seed: 3})
	if r.Error.Name != ipc.NoRoom || r.Report.Resumed != 2 || r.Report.Seed != 3 || r.Report.Decode.Tokens != 4 || r.Report.Prefill.Steps == nil {
		t.Errorf("%+v", r)
	}
}

func TestTheEndOfTheLog(t *testing.T) {
	home := t.TempDir()
	l, err := openLog(home, "info", false, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range 50 {
		l.log.Info().Str("model", fmt.Sprintf("m%d", i%2)).Int("i", i).Msg("line")
	}
	lines, err := l.tail(3, "M1")
	if err != nil || len(lines) != 3 || !strings.Contains(lines[2], `"i":49`) || !strings.Contains(lines[0], `"i":45`) {
		t.Errorf("%v, %v", lines, err)
	}
	if lines, _ := l.tail(1000, ""); len(lines) != 50 {
		t.Errorf("%d lines", len(lines))
	}
	if _, err := openLog(home, "loud", false, nil); err == nil {
		t.Error("a level that is none")
	}
}

func TestBufferLimit(t *testing.T) {
	for in, want := range map[string]turn.Buffers{"": 0, "3500": 3500} {
		if got, err := bufferLimit(in); err != nil || got != want {
			t.Errorf("%q: %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"0", "-1", "x", "1e3", "999999999999"} {
		if _, err := bufferLimit(in); err == nil || !strings.Contains(err.Error(), "INGOT_RSRC_LIMIT") {
			t.Errorf("%q: %v", in, err)
		}
	}
	if physicalMemory() < 1<<28 {
		t.Error("this machine has no memory")
	}
}

func TestARequestRightBehindAFailureIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, "", "tiny")
		defer s.close()
		s.fleet.Options.Fail = 1
		first := s.start("tiny", "tokens 1", false)
		answered := make(chan turn.Event)
		go func() {
			s.finish(first)
			answered <- s.answer("tiny", "tokens 2")
		}()
		if ev := <-answered; ev.Done == nil {
			t.Errorf("%+v", ev)
		}
	})
}
