package governor

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ingot/runtime/turn"
)

// TestMain has every run draw the same plants, so that one run fails as the
// next; -rapid.seed draws others.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.seed"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("20261201")
	}
	os.Exit(m.Run())
}

// anyPlant draws a model: what its steps need, in flight and beyond, with
// noise, and how long they take.
func anyPlant(t *rapid.T) *plant {
	p := &plant{layers: rapid.IntRange(1, 80).Draw(t, "layers"), rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "noise"), 1))}
	f := func(name string, of ...float64) float64 { return rapid.SampledFrom(of).Draw(t, name) }
	p.buffers = vector{f("const", 0, 20, 200), f("part", 100, 1000, 5000), f("width", 0, 10, 500, 20000), f("pairs", 0, 0, 300, 3000), 0, f("rows", 0, 30)}
	p.bytes = vector{f("byte const", 0, 1e7), f("byte part", 0, 1e8), f("byte width", 1e6, 3e8, 3e9), f("byte pairs", 0, 0, 1e8, 1e10), f("byte context", 0, 0, 1e8), 1e6}
	p.seconds = vector{f("second", 0.001, 0.02, 0.1), f("split", 0, 0.002), f("second width", 0.01, 0.3, 2), f("second pairs", 0, 0.05, 1), 0, f("second rows", 0.001, 0.05)}
	p.limits = Limits{Resident: 1500, ResidentBytes: 1e9}
	p.states = 100
	p.noise = f("jitter", 0, 0.01, 0.04)
	return p
}

// timed is how long prompts take.
func (p *plant) timed(g *Governor, prompts, tokens int) time.Duration {
	before := p.clock
	for range prompts {
		p.prefill(g, tokens, nil)
	}
	return p.clock - before
}

// natural is what a step of 2048 needs at most within a prompt of so many
// tokens.
func (p *plant) natural(tokens float64) (b, m float64) {
	s := shape{2048, tokens, 0, 1}
	return s.terms(buffers).dot(p.buffers), s.terms(memory).dot(p.bytes)
}

// least is what the smallest step needs, at the worst of its noise.
func (p *plant) least(tokens float64) (b, m float64) {
	s := shape{1, tokens, 1, 1 / float64(p.layers)}
	return s.terms(buffers).dot(p.buffers) * (1 + p.noise), s.terms(memory).dot(p.bytes) * (1 + p.noise)
}

// squeeze sets limits at a part of the natural extra of buffers and bytes.
func (p *plant) squeeze(part, tokens float64) {
	b, m := p.natural(tokens)
	p.limits.Buffers = p.limits.Resident + p.states + turn.Buffers(part*b)
	p.limits.Bytes = p.limits.ResidentBytes + turn.Bytes(part*m)
}

// TestEveryPromptCompletes: wherever the limit lies, a prompt whose smallest
// step fits runs to its end; widths are allowed ones; few steps fail.
func TestEveryPromptCompletes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlant(t)
		const tokens = 16384
		p.squeeze(rapid.Float64Range(0.02, 1.5).Draw(t, "limit"), tokens)
		limit := rapid.SampledFrom([]int{0, 0, 1, 7, 300, 5000}).Draw(t, "cap")
		width := rapid.SampledFrom([]int{0, 0, 512, 8192}).Draw(t, "width")
		g := New(Config{Layers: p.layers, Width: width})
		plans, refused := p.prefill(g, tokens/4, func(a *Ask) { a.Cap = limit })
		b, m := p.least(tokens)
		room := roomOf(p.level(), p.limits, 1)
		if refused != nil {
			if b <= room[buffers] && m <= room[memory] {
				t.Fatalf("refused %+v, the smallest step needs %.0f buffers of %.0f, %.0f bytes of %.0f", refused, b, room[buffers], m, room[memory])
			}
			if refused.Need <= refused.Have {
				t.Fatalf("refused with numbers that fit: %+v", refused)
			}
			return
		}
		for _, pl := range plans {
			if pl.Width < 1 || limit > 0 && pl.Width > limit || width > 0 && pl.Width > width {
				t.Fatalf("width %d with a cap of %d and a config of %d", pl.Width, limit, width)
			}
		}
		if p.faults > 20+p.steps/20 {
			t.Fatalf("%d of %d steps failed", p.faults, p.steps)
		}
		p.faults, p.steps = 0, 0
		if _, refused := p.prefill(g, tokens/4, func(a *Ask) { a.Cap = limit }); refused == nil && p.faults > 8+p.steps/20 {
			t.Fatalf("%d steps failed of a second prompt", p.faults)
		}
	})
}

// TestSpeedUnderALimit: at 60% of the natural extra and above, a known model
// runs at no less than 0.95 of its unlimited speed.
func TestSpeedUnderALimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlant(t)
		if p.layers < 8 {
			p.layers = 8
		}
		const tokens = 16384
		p.buffers[0], p.bytes[0], p.bytes[4] = 0, 0, 0 // what no lever reaches is not at issue
		part := rapid.Float64Range(0.6, 2).Draw(t, "limit")
		run := func(limited bool) time.Duration {
			q := *p
			q.rng = rand.New(rand.NewPCG(5, 5))
			if limited {
				q.squeeze(part, tokens)
			}
			g := New(Config{Layers: p.layers, Width: StartWidth})
			q.prefill(g, tokens, nil)
			return q.timed(g, 3, tokens)
		}
		free, limited := run(false), run(true)
		if float64(limited) > float64(free)/0.95 {
			t.Fatalf("at %.2f: %v, unlimited %v", part, limited, free)
		}
	})
}

// TestShift: costs change of a sudden; few steps fail, and soon the width is
// what a governor that knew nothing else would choose.
func TestShift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlant(t)
		const tokens = 16384
		p.squeeze(rapid.Float64Range(0.2, 1).Draw(t, "limit"), tokens)
		cfg := Config{Layers: p.layers, Width: StartWidth}
		g := New(cfg)
		if _, refused := p.prefill(g, tokens, nil); refused != nil {
			return
		}
		by := rapid.SampledFrom([]float64{0.3, 0.7, 1.5, 4}).Draw(t, "shift")
		for i := range features {
			p.buffers[i] *= by
			p.bytes[i] *= by
		}
		p.faults, p.steps = 0, 0
		if _, refused := p.prefill(g, 2*tokens, nil); refused != nil {
			return
		}
		if p.faults > 20+p.steps/3 { // many only where even the least step is at the limit
			t.Fatalf("%d of %d steps failed", p.faults, p.steps)
		}
		fresh := New(cfg)
		p.prefill(fresh, 2*tokens, nil)
		settled, want := p.timed(g, 4, tokens), p.timed(fresh, 4, tokens)
		if float64(settled) > 1.5*float64(want) {
			t.Fatalf("%v for four prompts after the shift, %v for one that never knew otherwise", settled, want)
		}
	})
}

// TestMaxStep: once the model is known, no step is planned to take longer
// than it may, and few do.
func TestMaxStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlant(t)
		p.limits = Limits{}
		rows := rapid.SampledFrom([]int{0, 4}).Draw(t, "rows")
		p.seconds[1] = 0
		g := New(Config{Layers: p.layers})
		p.prefill(g, 8192, func(a *Ask) { a.Decode = rows })
		limit := MaxStep.Seconds()
		if rows > 0 {
			s := shape{rows: float64(rows), part: 1}
			limit = max(RideStep.Seconds(), 2*s.terms(seconds).dot(p.seconds))
		}
		one := shape{1, 8192, float64(rows), 1}
		limit = max(limit, one.terms(seconds).dot(p.seconds)) // progress comes first
		late, steps := 0, 0
		for done := 0; done < 8192; {
			a := Ask{Remaining: 8192 - done, Context: done, Decode: rows}
			pl := g.Next(a)
			r := p.step(a, pl)
			g.Observe(r)
			done += pl.Width
			steps++
			if r.Elapsed.Seconds() > 1.02*limit*(1+p.noise) {
				late++
			}
		}
		if late > 2+steps/20 {
			t.Fatalf("%d of %d steps took longer than %.3f s", late, steps, limit)
		}
	})
}

// TestNeighboursGoOn: whatever the pressure, a step with decode rows and a
// prompt moves at least one of them, and each within a few steps.
func TestNeighboursGoOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlant(t)
		p.squeeze(rapid.Float64Range(0.05, 1).Draw(t, "limit"), 16384)
		b, m := p.least(16384)
		room := roomOf(p.level(), p.limits, 1)
		if 4*b > room[buffers] || 4*m > room[memory] {
			return
		}
		g := New(Config{Layers: p.layers})
		a := Ask{Remaining: 4000, Decode: rapid.IntRange(1, 40).Draw(t, "rows"), Limits: p.limits}
		fed, stepped := 0, 0
		for range 100 {
			a.Level = p.level()
			pl := g.Next(a)
			if pl.Refusal != nil {
				t.Fatalf("refused: %+v", pl.Refusal)
			}
			if pl.Rows < 1 || pl.Rows > a.Decode {
				t.Fatalf("%d rows of %d", pl.Rows, a.Decode)
			}
			r := p.step(a, pl)
			g.Observe(r)
			if r.Fault == FaultNone {
				fed += pl.Width
				stepped += pl.Rows
				a.Remaining = max(a.Remaining-pl.Width, 1)
			}
		}
		if fed < 20 || stepped < 50 {
			t.Fatalf("100 steps fed %d tokens of the prompt and %d rows", fed, stepped)
		}
	})
}

// TestAbsurdReadings: whatever it is told, it plans something that can be
// done and does not hang.
func TestAbsurdReadings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(-1<<40, 1<<50)
		g := New(Config{Layers: rapid.IntRange(-1, 200).Draw(t, "layers"), Width: rapid.IntRange(-5, 1<<20).Draw(t, "width"), Share: rapid.Float64().Draw(t, "share")})
		for range 60 {
			a := Ask{
				Remaining: rapid.IntRange(0, 1<<20).Draw(t, "remaining"), Context: rapid.IntRange(0, 1<<20).Draw(t, "context"),
				Decode: rapid.IntRange(0, 100).Draw(t, "decode"), Cap: rapid.IntRange(0, 3000).Draw(t, "cap"),
				Grid:   rapid.SampledFrom([]int{0, 0, 256}).Draw(t, "grid"),
				Level:  Level{Live: turn.Buffers(n.Draw(t, "live")), Bytes: turn.Bytes(n.Draw(t, "bytes")), Cached: 5, CachedBytes: 7},
				Limits: Limits{turn.Buffers(n.Draw(t, "limit")), turn.Bytes(n.Draw(t, "limit bytes")), turn.Buffers(n.Draw(t, "resident")), 0},
			}
			pl := g.Next(a)
			if pl.Refusal == nil && (pl.Width < 0 || pl.Width > a.Remaining || pl.Rows > a.Decode || pl.Width+pl.Rows == 0 && a.Remaining+a.Decode > 0) {
				t.Fatalf("%+v for %+v", pl, a)
			}
			g.Observe(Reading{Width: pl.Width, Context: a.Context, Decode: pl.Rows, Depth: pl.Depth, Before: a.Level, Limits: a.Limits,
				PeakLive: turn.Buffers(n.Draw(t, "peak")), PeakBytes: turn.Bytes(n.Draw(t, "peak bytes")), Elapsed: time.Duration(n.Draw(t, "elapsed")),
				Fault: rapid.SampledFrom([]Fault{FaultNone, FaultNone, FaultBuffers, FaultBytes, FaultLaunch}).Draw(t, "fault")})
		}
	})
}

// TestSolveFindsWhatIsThere: exact data gives exact terms back.
func TestSolveFindsWhatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want vector
		for i := range want {
			want[i] = rapid.SampledFrom([]float64{0, 0, 1, 3, 10}).Draw(t, fmt.Sprint(i))
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "rows"), 1))
		var n normal
		for range 30 {
			var row vector
			for i := range row {
				row[i] = r.Float64()
			}
			n.add(row, row.dot(want), 1)
		}
		for i, got := range n.solve() {
			if math.Abs(got-want[i]) > 1e-4 {
				t.Fatalf("term %d is %v, want %v", i, got, want[i])
			}
		}
	})
}

func BenchmarkGovernor(b *testing.B) {
	p := &plant{layers: 40, rng: rand.New(rand.NewPCG(1, 1)), noise: 0.03}
	p.buffers, p.bytes, p.seconds = vector{100, 900, 20000, 100, 0, 30}, vector{1e7, 1e8, 1e9, 1e8, 0, 1e6}, vector{0.01, 0.001, 0.3, 0.1, 0, 0.01}
	p.limits = Limits{Resident: 1500, ResidentBytes: 1e9}
	p.squeeze(0.5, 65536)
	for name, a := range map[string]Ask{
		"prefill": {Remaining: 1 << 16}, "mixed": {Remaining: 1 << 16, Decode: 8}, "decode": {Decode: 8},
	} {
		b.Run(name, func(b *testing.B) {
			p.steps = 0
			g := New(Config{Layers: 40})
			p.prefill(g, 65536, nil)
			a.Limits, a.Level = p.limits, p.level()
			b.ReportAllocs()
			for b.Loop() {
				a.Context = (a.Context + 64) % 65536
				g.Observe(p.step(a, g.Next(a)))
			}
		})
	}
}
