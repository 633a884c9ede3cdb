package engine

import (
	"slices"
	"testing"

	"ingot/models/modeltest"
	"ingot/runtime/step"
	"ingot/runtime/turn"
)

// warm answers a prompt on an engine that may hold a prefix of it.
func (b *bed) warm(prompt []turn.TokenID, n, grid int) *talk {
	b.t.Helper()
	k := b.talk(prompt, greedy(), grid)
	b.until(n, step.Step{Deterministic: grid > 0}, max(grid, 1), k)
	b.Close(k.id, true)
	return k
}

func TestPrefixIsLent(t *testing.T) {
	b := load(t, Options{})
	prompt := b.words(1, 100)
	first := b.warm(prompt, 10, 64)
	if first.cached != 0 {
		t.Errorf("%d tokens cached on an empty engine", first.cached)
	}
	b.ClearPrefixes()
	cold := load(t, Options{CacheEntries: -1})
	for name, c := range map[string]struct {
		next   []turn.TokenID
		cached int
	}{
		"goes on":          {slices.Concat(prompt, first.all, b.words(2, 20)), 109},
		"once more":        {prompt, 99},
		"differs later":    {slices.Concat(prompt[:80], b.words(3, 20)), 80},
		"is a part":        {prompt[:60], 59},
		"differs at once":  {b.words(4, 100), 0},
		"too little to do": {slices.Concat(prompt[:10], b.words(5, 50)), 0},
	} {
		b.warm(prompt, 10, 0)
		live := b.live()
		got := b.talk(c.next, greedy(), 0)
		if got.cached != c.cached {
			t.Errorf("%s: %d tokens cached, want %d", name, got.cached, c.cached)
		}
		if c.cached > 54 && b.live() > live {
			t.Errorf("%s: lending took %d buffers", name, b.live()-live)
		}
		b.until(10, step.Step{}, 64, got)
		if want := cold.alone(c.next, greedy(), 10); !slices.Equal(got.all, want.all) {
			t.Errorf("%s: %v, cold %v", name, got.all, want.all)
		}
		b.Close(got.id, true)
		b.ClearPrefixes()
	}
}

// TestPrefixIsCopied where its owner goes on, or would lose most of it.
func TestPrefixIsCopied(t *testing.T) {
	b := load(t, Options{})
	prompt := b.words(1, 200)
	k := b.talk(prompt, greedy(), 0)
	b.until(5, step.Step{}, 256, k)
	other := slices.Concat(prompt[:150], b.words(2, 30))
	for range 2 {
		f := b.talk(other, greedy(), 0)
		if f.cached != 150 {
			t.Errorf("%d tokens copied from a running turn", f.cached)
		}
		b.until(5, step.Step{}, 256, f, k)
		b.Close(f.id, false)
	}
	b.until(10, step.Step{}, 256, k)
	b.Close(k.id, true)
	short := b.talk(slices.Concat(prompt[:40], b.words(3, 5)), greedy(), 0)
	if short.cached != 40 || b.prefix.count() != 1 {
		t.Errorf("%d tokens copied of a longer entry, %d entries left", short.cached, b.prefix.count())
	}
	b.Close(short.id, false)
	if s := b.Stats(); s.Copied != 3 || s.Lent != 0 {
		t.Errorf("%+v", s)
	}
	cold := load(t, Options{CacheEntries: -1})
	if want := cold.alone(prompt, greedy(), 10); !slices.Equal(k.all, want.all) {
		t.Errorf("%v, cold %v", k.all, want.all)
	}
}

// TestPrefixOnAGrid: what was not computed on the grid is not used on it.
func TestPrefixOnAGrid(t *testing.T) {
	b := load(t, Options{})
	prompt := b.words(1, 150)
	for _, c := range []struct {
		before, grid, cached int
	}{
		{0, 32, 0}, {32, 32, 128}, {32, 64, 0}, {32, 0, 149}, {0, 0, 149},
	} {
		first := b.warm(prompt, 4, c.before)
		k := b.talk(prompt, greedy(), c.grid)
		if k.cached != c.cached {
			t.Errorf("grid %d after %d: %d tokens cached, want %d", c.grid, c.before, k.cached, c.cached)
		}
		b.until(4, step.Step{Deterministic: c.grid > 0}, max(1, c.grid), k)
		if !slices.Equal(k.all, first.all) {
			t.Errorf("grid %d after %d: %v, then %v", c.grid, c.before, first.all, k.all)
		}
		b.Close(k.id, false)
		b.ClearPrefixes()
	}
}

func TestPrefixBounds(t *testing.T) {
	b := load(t, Options{CacheEntries: 3})
	base := b.live()
	var held turn.Buffers
	for i := range uint64(6) {
		b.warm(b.words(i, 40), 3, 0)
		if i == 2 {
			held = b.live()
		}
	}
	if b.prefix.count() != 3 || b.live() != held {
		t.Errorf("%d entries, live %d, want %d", b.prefix.count(), b.live(), held)
	}
	kept := b.Reading().Kept
	if len(kept) != 3 || turn.Buffers(3)*kept[0].Buffers != held-base {
		t.Errorf("kept %v, held %d", kept, held-base)
	}
	b.Relieve(step.Relief{Evict: 1, Clear: true, Settle: true})
	if got := b.talk(b.words(3, 40), greedy(), 0); got.cached != 0 {
		t.Errorf("the oldest entry is still there: %d tokens", got.cached)
	} else {
		b.Close(got.id, false)
	}
	if got := b.talk(b.words(5, 40), greedy(), 0); got.cached != 39 {
		t.Errorf("the newest entry is gone: %d tokens", got.cached)
	} else {
		b.Close(got.id, true)
	}
	b.SetGrant(b.Reading().Resident+4*kept[0].Buffers, 0) // room for one entry
	if b.prefix.count() != 1 {
		t.Errorf("%d entries after the grant shrank", b.prefix.count())
	}
	b.SetGrant(0, 0)
	b.ClearPrefixes()
	if b.live() != base {
		t.Errorf("live %d, was %d", b.live(), base)
	}
}

// TestConversationHasOneEntry: a turn that goes on takes the entry along.
func TestConversationHasOneEntry(t *testing.T) {
	b := load(t, Options{})
	prompt := b.words(1, 30)
	for i := range uint64(4) {
		k := b.talk(prompt, greedy(), 0)
		b.until(3, step.Step{}, 64, k)
		b.Close(k.id, true)
		prompt = slices.Concat(prompt, k.all, b.words(2+i, 10))
	}
	if b.prefix.count() != 1 || b.Stats().Lent != 3 {
		t.Errorf("%d entries, %+v", b.prefix.count(), b.Stats())
	}
}

// TestNoRoomForACopy: the prefix is computed again.
func TestNoRoomForACopy(t *testing.T) {
	b := load(t, Options{})
	prompt := b.words(1, 100)
	k := b.talk(prompt, greedy(), 0)
	b.until(2, step.Step{}, 256, k)
	b.SetGrant(b.live()+1, 0)
	live := b.live()
	f := b.talk(prompt, greedy(), 0)
	if f.cached != 0 || b.live() != live {
		t.Errorf("%d tokens cached, live %d, was %d", f.cached, b.live(), live)
	}
	if _, err := b.Fork(k.id); step.FaultOf(err) != step.FaultBuffers || b.live() != live {
		t.Errorf("fork: %v, live %d, was %d", err, b.live(), live)
	}
	b.SetGrant(0, 0)
	b.until(2, step.Step{}, 256, f)
	if !slices.Equal(f.all, k.all) {
		t.Errorf("%v, want %v", f.all, k.all)
	}
	b.Close(f.id, false)
	b.Close(k.id, false)
}

// TestPrefixOfARecurrentModel: states that can't be trimmed are there at the
// end of a turn and a little before the end of its prompt.
func TestPrefixOfARecurrentModel(t *testing.T) {
	folder := modeltest.Tiny(t, "qwen3_5_moe", "--layers", "8", "--experts", "8", "--hidden", "128", "--vocab", "512")
	b, cold := open(t, Options{}, folder), open(t, Options{CacheEntries: -1}, folder)
	prompt := b.words(1, 150)
	for name, c := range map[string]struct {
		next   func(said []turn.TokenID) []turn.TokenID
		cached int
	}{
		"goes on":             {func(said []turn.TokenID) []turn.TokenID { return slices.Concat(prompt, said, b.words(2, 20)) }, 159},
		"said otherwise":      {func([]turn.TokenID) []turn.TokenID { return slices.Concat(prompt, b.words(3, 30)) }, 142},
		"once more":           {func([]turn.TokenID) []turn.TokenID { return prompt }, 142},
		"differs at the end":  {func([]turn.TokenID) []turn.TokenID { return slices.Concat(prompt[:145], b.words(4, 10)) }, 142},
		"differs before that": {func([]turn.TokenID) []turn.TokenID { return slices.Concat(prompt[:100], b.words(5, 60)) }, 0},
	} {
		first := b.talk(prompt, greedy(), 0)
		b.step(step.Step{}, 100, first)
		b.until(10, step.Step{}, 100, first)
		b.Close(first.id, true)
		next := c.next(first.all)
		got := b.talk(next, greedy(), 0)
		if got.cached != c.cached {
			t.Errorf("%s: %d tokens cached, want %d", name, got.cached, c.cached)
		}
		b.until(10, step.Step{}, 100, got)
		if want := cold.alone(next, greedy(), 10); !slices.Equal(got.all, want.all) {
			t.Errorf("%s: %v, cold %v", name, got.all, want.all)
		}
		b.Close(got.id, true)
		b.ClearPrefixes()
	}
}

// TestMarkOfARunningTurnIsCopied while it goes on.
func TestMarkOfARunningTurnIsCopied(t *testing.T) {
	folder := modeltest.Tiny(t, "qwen3_5_moe", "--layers", "8", "--experts", "8", "--hidden", "128", "--vocab", "512")
	b := open(t, Options{}, folder)
	prompt := b.words(1, 100)
	first := b.talk(prompt, greedy(), 0)
	b.until(3, step.Step{}, 128, first)
	second := b.talk(prompt, greedy(), 0)
	if second.cached != 92 {
		t.Errorf("%d tokens cached", second.cached)
	}
	b.until(12, step.Step{}, 128, first, second)
	if !slices.Equal(first.all, second.all) {
		t.Errorf("%v, then %v", first.all, second.all)
	}
	b.Close(first.id, false)
	b.Close(second.id, false)
}
