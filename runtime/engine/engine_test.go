package engine

import (
	"errors"
	"math"
	"slices"
	"testing"

	"ingot/models/modeltest"
	"ingot/runtime/mlx"
	"ingot/runtime/sample"
	"ingot/runtime/step"
	"ingot/runtime/turn"
)

// TestTogetherAsAlone: however prompts are cut and whoever rides along, the
// greedy answers are those of each alone.
func TestTogetherAsAlone(t *testing.T) {
	b := load(t, Options{CacheEntries: -1})
	var want []*talk
	for i := range 5 {
		want = append(want, b.alone(b.words(uint64(i), 5+40*i), greedy(), 20))
	}
	for _, st := range []step.Step{{}, {Depth: 1}, {Depth: 2}, {Deterministic: true}} {
		for _, width := range []int{1 << 20, 64, 7} {
			var ks []*talk
			for i := range 5 {
				ks = append(ks, b.talk(b.words(uint64(i), 5+40*i), greedy(), 0))
			}
			b.until(20, st, width, ks...)
			for i, k := range ks {
				if !slices.Equal(k.all, want[i].all) {
					t.Errorf("%+v, width %d, prompt %d: %v, alone %v", st, width, i, k.all, want[i].all)
				}
				b.Close(k.id, false)
			}
		}
	}
}

// TestSamplersOfAllKindsShareAStep: plain, drawn and unwanted rows each get
// what is theirs.
func TestSamplersOfAllKindsShareAStep(t *testing.T) {
	b := load(t, Options{CacheEntries: -1})
	kinds := []func() *sample.Sampler{
		func() *sample.Sampler { return greedy() },
		func() *sample.Sampler { return sampled() },
		func() *sample.Sampler { return greedy(logprobs) },
		func() *sample.Sampler {
			return sampled(logprobs, func(p *turn.Params) { p.TopK, p.RepetitionPenalty = 20, 1.2 })
		},
	}
	var want, ks []*talk
	for i, kind := range kinds {
		prompt := b.words(uint64(10+i), 30+50*i) // long ones are still in their prompt while short ones talk
		want = append(want, b.alone(prompt, kind(), 12))
		ks = append(ks, b.talk(prompt, kind(), 0))
	}
	b.until(12, step.Step{}, 25, ks...)
	for i, k := range ks {
		if !slices.Equal(k.all, want[i].all) {
			t.Errorf("kind %d: %v, alone %v", i, k.all, want[i].all)
		}
		for j := range k.probs {
			if math.Abs(k.probs[j]-want[i].probs[j]) > 1e-3 {
				t.Errorf("kind %d, token %d: logprob %v, alone %v", i, j, k.probs[j], want[i].probs[j])
			}
		}
		b.Close(k.id, false)
	}
}

// TestDeterministic: beside others, logprobs are the same to the last bit.
func TestDeterministic(t *testing.T) {
	b := load(t, Options{CacheEntries: -1})
	run := func(beside int) *talk {
		k := b.talk(b.words(3, 77), sampled(logprobs), 32)
		ks := []*talk{k}
		for i := range beside {
			ks = append(ks, b.talk(b.words(uint64(20+i), 40), sampled(), 32))
		}
		b.until(15, step.Step{Deterministic: true}, 32, ks...)
		for _, k := range ks {
			b.Close(k.id, false)
		}
		return k
	}
	alone := run(0)
	for _, n := range []int{1, 4} {
		if k := run(n); !slices.Equal(k.all, alone.all) || !slices.Equal(k.probs, alone.probs) {
			t.Errorf("beside %d others: %v %v, alone %v %v", n, k.all, k.probs, alone.all, alone.probs)
		}
	}
}

// TestSteady holds the two invariants of a decode step: it leaves as many
// buffers as it found, and what it allocates does not grow with the context.
func TestSteady(t *testing.T) {
	for name, args := range families {
		t.Run(name, func(t *testing.T) {
			b := open(t, Options{CacheEntries: -1}, modeltest.Tiny(t, args[0], args[1:]...))
			shortBytes, shortBuffers := b.fiveSteps(t, 260)
			longBytes, longBuffers := b.fiveSteps(t, 1800)
			// What may grow: scores and masks, a few bytes a position, head and layer.
			// The count varies with which results MLX could write over their inputs.
			if longBytes > shortBytes+5*1800*4*32 || 20*longBuffers > 21*shortBuffers {
				t.Errorf("5 steps at 1,800 tokens: %d bytes in %d buffers, at 260: %d in %d", longBytes, longBuffers, shortBytes, shortBuffers)
			}
		})
	}
}

// fiveSteps returns what five decode steps behind a context allocate.
func (b *bed) fiveSteps(t *testing.T, context int) (turn.Bytes, turn.Buffers) {
	t.Helper()
	k := b.talk(b.words(1, context), greedy(), 0)
	defer b.Close(k.id, false)
	b.step(step.Step{}, 1<<20, k)
	b.step(step.Step{}, 1, k)
	live := b.settledLive()
	buffers, bytes := b.ledger.Total()
	for range 5 {
		b.step(step.Step{}, 1, k)
		if now := b.settledLive(); now != live {
			t.Errorf("context %d: live %d after a step, %d before", context, now, live)
		}
	}
	nowBuffers, now := b.ledger.Total()
	return now - bytes, nowBuffers - buffers
}

// TestManyComeAndGo: sequences, half of them dropped in the middle of their
// prompt, leave the device as it was.
func TestManyComeAndGo(t *testing.T) {
	for name, n := range map[string]int{"llama": 1000, "mistral": 100, "qwen3_5_moe": 100, "qwen3_next": 100} {
		t.Run(name, func(t *testing.T) {
			b := open(t, Options{CacheEntries: -1}, modeltest.Tiny(t, families[name][0], families[name][1:]...))
			want, handles := b.settledLive(), b.dev.Handles()
			for i := range n {
				k := b.talk(b.words(uint64(i), 1+i%60), sampled(), 0)
				b.step(step.Step{}, 1+i%30, k)
				if i%2 == 0 {
					b.until(2, step.Step{}, 64, k)
				}
				b.Close(k.id, false)
			}
			if got := b.settledLive(); got != want || b.dev.Handles() != handles {
				t.Errorf("live %d, was %d; handles %d, were %d", got, want, b.dev.Handles(), handles)
			}
		})
	}
}

// TestThrows makes the n-th allocation of a mixed step fail, for every n:
// the fault is told apart, nothing has changed, and the step then gives what
// it would have given.
func TestThrows(t *testing.T) {
	b := load(t, Options{CacheEntries: -1})
	for _, st := range []step.Step{{}, {Depth: 1}, {Deterministic: true}} {
		everyThrow(t, b, st, 1)
	}
}

// TestThrowsWithMarks does so where a prompt is led and marked.
func TestThrowsWithMarks(t *testing.T) {
	b := open(t, Options{}, modeltest.Tiny(t, "qwen3_5_moe", "--layers", "4", "--experts", "4", "--hidden", "128", "--vocab", "384"))
	everyThrow(t, b, step.Step{}, 7)
	everyThrow(t, b, step.Step{Depth: 1}, 11)
}

// everyThrow fails each stride-th allocation of a step.
func everyThrow(t *testing.T, b *bed, st step.Step, stride int64) {
	t.Helper()
	fresh := func() []*talk {
		ks := []*talk{b.talk(b.words(1, 9), greedy(), 0), b.talk(b.words(2, 300), sampled(logprobs), 0)}
		b.step(step.Step{}, 120, ks...) // the first talks, the second is within its prompt
		return ks
	}
	end := func(ks []*talk) {
		for _, k := range ks {
			b.Close(k.id, false)
		}
	}
	ks := fresh()
	b.step(st, 90, ks...)
	b.step(st, 90, ks...)
	want, wantProb := [2]turn.TokenID{ks[0].all[2], ks[1].all[0]}, ks[1].probs[0]
	end(ks)
	for n := int64(1); ; n += stride {
		ks := fresh()
		b.step(st, 90, ks...)
		fired := throwOnce(t, b, st, n, ks)
		if !fired {
			end(ks)
			if n < 20 {
				t.Errorf("%+v: only %d allocations", st, n-1)
			}
			return
		}
		b.step(st, 90, ks...)
		if ks[0].all[2] != want[0] || ks[1].all[0] != want[1] || math.Abs(ks[1].probs[0]-wantProb) > 1e-4 {
			t.Fatalf("%+v, allocation %d: %v %v %v, want %v %v", st, n, ks[0].all, ks[1].all, ks[1].probs, want, wantProb)
		}
		end(ks)
	}
}

// throwOnce fails the n-th allocation of a step; false if it has fewer.
func throwOnce(t *testing.T, b *bed, st step.Step, n int64, ks []*talk) bool {
	t.Helper()
	live, fired := b.live(), b.ledger.Fired()
	for _, k := range ks {
		st.Rows = append(st.Rows, k.feed(min(90, len(k.next))))
	}
	b.ledger.FailAt(n)
	_, err := b.Step(&st)
	b.ledger.FailAt(0)
	if b.ledger.Fired() == fired {
		if err != nil {
			t.Fatalf("allocation %d did not fail, the step did: %v", n, err)
		}
		return false
	}
	if step.FaultOf(err) != step.FaultBuffers || !errors.Is(err, mlx.ErrResourceLimit) {
		t.Fatalf("allocation %d: %v", n, err)
	}
	if got := b.live(); got > live {
		// A cache that had grown before the throw keeps its new size, in as
		// many buffers.
		t.Fatalf("allocation %d: live %d, was %d", n, got, live)
	}
	return true
}

func TestLimits(t *testing.T) {
	b := load(t, Options{CacheEntries: -1})
	k := b.talk(b.words(1, 200), greedy(), 0)
	live, bytes := b.ledger.Live()
	try := func(buffers turn.Buffers, limit turn.Bytes) error {
		b.SetGrant(buffers, limit)
		_, err := b.Step(&step.Step{Rows: []step.Row{k.feed(200)}})
		return err
	}
	if err := try(live+5, 0); step.FaultOf(err) != step.FaultBuffers {
		t.Errorf("buffers: %v", err)
	}
	if err := try(0, bytes+1000); step.FaultOf(err) != step.FaultBytes {
		t.Errorf("bytes: %v", err)
	}
	if r := b.Reading(); r.LimitBytes != bytes+1000 || r.Limit != b.own || r.Resident != live || r.ResidentBytes != bytes {
		t.Errorf("reading %+v, weights %d %d", r, live, bytes)
	}
	b.SetGrant(0, 0)
	b.until(1, step.Step{}, 200, k)
	b.Close(k.id, false)
	if b.Stats().Failed != 2 {
		t.Errorf("%d failures counted", b.Stats().Failed)
	}
}

func TestLoadWithoutRoom(t *testing.T) {
	dev := modeltest.Device()
	folder := modeltest.Tiny(t, "llama", "--layers", "3", "--vocab", "384")
	buffers, bytes := dev.Ledger().Limits()
	defer dev.Ledger().SetLimits(buffers, bytes)
	quiet(t)
	live, liveBytes := dev.Ledger().Live()
	whole, err := Open(dev, folder, Options{})
	if err != nil {
		t.Fatal(err)
	}
	quiet(t)
	all, allBytes := dev.Ledger().Live()
	if err := whole.Unload(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		buffers turn.Buffers
		bytes   turn.Bytes
	}{{live + 3, 0}, {buffers, liveBytes + 10000}} {
		dev.Ledger().SetLimits(c.buffers, c.bytes)
		_, err := Open(dev, folder, Options{})
		var room *RoomError
		if !errors.As(err, &room) || room.Buffers != (c.bytes == 0) || room.Need <= room.Have {
			t.Fatalf("limits %+v: %v", c, err)
		}
		if want := int64(all - live); room.Buffers && room.Need != want {
			t.Errorf("limits %+v: told %d, the weights take %d", c, room.Need, want)
		}
		// The CPU's allocator rounds buffers up, to what it happens to have free.
		if want := int64(allBytes - liveBytes); !room.Buffers && (room.Need < want-want/10 || room.Need > want+want/10) {
			t.Errorf("limits %+v: told %d, the weights take %d", c, room.Need, want)
		}
		quiet(t)
		if now, _ := dev.Ledger().Live(); now != live {
			t.Errorf("limits %+v: %d buffers left", c, now-live)
		}
	}
}

func TestMistakesChangeNothing(t *testing.T) {
	b := load(t, Options{CacheEntries: -1})
	k := b.talk(b.words(1, 10), greedy(), 0)
	for name, rows := range map[string][]step.Row{
		"none":       nil,
		"unknown":    {{Seq: 999, Tokens: k.next}},
		"twice":      {k.feed(5), k.feed(5)},
		"empty":      {{Seq: k.id}},
		"context":    {{Seq: k.id, Tokens: make([]turn.TokenID, b.Info().Context+1)}},
		"vocabulary": {{Seq: k.id, Tokens: []turn.TokenID{-1}}},
	} {
		if _, err := b.Step(&step.Step{Rows: rows}); err == nil || step.FaultOf(err) != step.FaultNone {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.Fork(999); !errors.Is(err, step.ErrUnknown) {
		t.Errorf("fork: %v", err)
	}
	b.Close(999, true)
	want := b.alone(b.words(1, 10), greedy(), 5)
	b.until(5, step.Step{}, 64, k)
	if !slices.Equal(k.all, want.all) {
		t.Errorf("%v, want %v", k.all, want.all)
	}
	b.Close(k.id, false)
}

func TestFork(t *testing.T) {
	b := load(t, Options{CacheEntries: -1})
	prompt := b.words(1, 50)
	want := b.alone(prompt, greedy(), 8)
	k := b.talk(prompt, greedy(), 0)
	b.step(step.Step{}, 49, k)
	id, err := b.Fork(k.id)
	if err != nil {
		t.Fatal(err)
	}
	f := &talk{id: id, s: greedy(), next: prompt[49:]}
	b.until(8, step.Step{}, 64, k, f)
	if !slices.Equal(k.all, want.all) || !slices.Equal(f.all, want.all) {
		t.Errorf("%v and %v, want %v", k.all, f.all, want.all)
	}
	b.Close(k.id, false)
	b.Close(f.id, false)
}

func TestLogitsThatAreNone(t *testing.T) {
	for _, v := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		var bad *sample.LogitsError
		if p := plain(3, v); !errors.As(p.Err, &bad) {
			t.Errorf("%v: %+v", v, p)
		}
	}
	if p := plain(3, 1); p.Err != nil || p.Token != 3 {
		t.Errorf("%+v", p)
	}
}

func TestFaults(t *testing.T) {
	for cause, want := range map[error]step.Fault{
		mlx.ErrResourceLimit: step.FaultBuffers, mlx.ErrMemory: step.FaultBytes, mlx.ErrLaunch: step.FaultLaunch,
		mlx.ErrDevice: step.FaultDevice, mlx.ErrInvalid: step.FaultNone, mlx.ErrWrongThread: step.FaultNone,
	} {
		err := fault(&mlx.Error{Op: "eval", Err: cause})
		if step.FaultOf(err) != want || !errors.Is(err, cause) {
			t.Errorf("%v: %v", cause, err)
		}
	}
	lost := fault(errors.Join(&mlx.Error{Op: "eval", Err: mlx.ErrMemory}, mlx.ErrDevice))
	if step.FaultOf(lost) != step.FaultDevice {
		t.Errorf("a sequence lost on the way: %v", lost)
	}
	if fault(nil) != nil {
		t.Error("a fault of nothing")
	}
}
