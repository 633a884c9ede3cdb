package mlx

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"ingot/runtime/turn"
)

// tiny is a two-layer transformer with append caches: the smallest thing with
// every way in which a step can fail.
type tiny struct {
	weights []*Array // per layer: norm, q, k, v, o, norm, gate, up, down
	k, v    []*Array
	n       int // rows of the caches that count
}

const (
	tinyLayers = 2
	tinyDim    = 32
	tinyHeads  = 2
	tinyCap    = 64
	perLayer   = 9
)

func newTiny(s *Scope, capacity int) (*tiny, error) {
	m := &tiny{}
	keep := func(a *Array) *Array { return s.Keep(a) }
	for l := range tinyLayers {
		for w := range perLayer {
			shape := []int{tinyDim, tinyDim}
			if w == 0 || w == 5 {
				shape = []int{tinyDim}
			}
			m.weights = append(m.weights, keep(wave(s, l*perLayer+w, shape...)))
		}
		m.k = append(m.k, keep(s.Zeros(Float32, 1, tinyHeads, capacity, tinyDim/tinyHeads)))
		m.v = append(m.v, keep(s.Zeros(Float32, 1, tinyHeads, capacity, tinyDim/tinyHeads)))
	}
	return m, s.Eval(m.states(m.weights...)...)
}

func (m *tiny) states(more ...*Array) []*Array { return slices.Concat(m.k, m.v, more) }

func (m *tiny) free() error { return FreeAll(m.states(m.weights...)...) }

// step runs t rows through the layers and evaluates everything it touched.
func (m *tiny) step(t int) ([]float32, error) {
	s := dev.NewScope()
	defer s.Close()
	x := wave(s, m.n+100, 1, t, tinyDim)
	for l := range tinyLayers {
		x = m.layer(s, l, x, t)
	}
	if err := s.Eval(m.states(x)...); err != nil {
		return nil, err
	}
	out, err := floats(x)
	if err == nil {
		m.n += t
	}
	return out, err
}

func (m *tiny) layer(s *Scope, l int, x *Array, t int) *Array {
	w := m.weights[l*perLayer:]
	heads := func(y *Array) *Array {
		return s.Transpose(s.Reshape(y, 1, t, tinyHeads, tinyDim/tinyHeads), 0, 2, 1, 3)
	}
	c := s.Child()
	defer c.Close()
	h := c.RMSNorm(x, w[0], 1e-5)
	r := Rotary{Dims: tinyDim / tinyHeads, Base: 10000}
	q, k := c.RoPE(heads(c.MatMul(h, w[1])), r, m.n), c.RoPE(heads(c.MatMul(h, w[2])), r, m.n)
	from, to := []int{0, 0, m.n, 0}, []int{1, tinyHeads, m.n + t, tinyDim / tinyHeads}
	m.k[l] = s.TakeSliceUpdate(m.k[l], k, from, to)
	m.v[l] = s.TakeSliceUpdate(m.v[l], heads(c.MatMul(h, w[3])), from, to)
	a := c.RaggedAttention(c.Transpose(q, 0, 2, 1, 3), AttentionOptions{Scale: 0.25},
		Attended{K: m.k[l], V: m.v[l], Rows: t, Length: m.n + t})
	x = s.Add(x, c.MatMul(c.Reshape(a, 1, t, tinyDim), w[4]))
	h = c.RMSNorm(x, w[5], 1e-5)
	return s.Add(x, c.MatMul(c.SwiGLU(c.MatMul(h, w[6]), c.MatMul(h, w[7])), w[8]))
}

func (m *tiny) recover() error {
	for _, states := range [][]*Array{m.k, m.v} {
		for l, a := range states {
			r, err := Recover(a)
			if err != nil {
				return err
			}
			states[l] = r
		}
	}
	return nil
}

// withTiny runs f on the device thread over a model with a prefilled cache.
func withTiny(t *testing.T, capacity, prefill int, f func(m *tiny) error) {
	t.Helper()
	on(t, func(s *Scope) error {
		m, err := newTiny(s, capacity)
		if err != nil {
			return err
		}
		if _, err = m.step(prefill); err == nil {
			err = f(m)
		}
		return errors.Join(err, m.free())
	})
}

func liveNow() turn.Buffers {
	_ = dev.Ledger().Settle()
	n, _ := dev.Ledger().Live()
	return n
}

// TestThrowAtEveryMalloc lets each allocation of a step fail in turn: the states
// recover, nothing leaks, and the repeated step has the bits of an undisturbed one.
func TestThrowAtEveryMalloc(t *testing.T) {
	for _, rows := range []int{1, 5} {
		t.Run(fmt.Sprint(rows, " rows"), func(t *testing.T) {
			withTiny(t, tinyCap, 7, func(m *tiny) error { return throwAtEvery(m, rows) })
		})
	}
}

func throwAtEvery(m *tiny, rows int) error {
	led := dev.Ledger()
	start := m.n
	want, err := m.step(rows)
	if err != nil {
		return err
	}
	m.n = start
	base := liveNow()
	// How many allocations a step makes is not fixed: MLX writes into an input's
	// buffer where its last reader is done by then. The first n that a whole step
	// does not reach ends the search.
	for n := int64(1); ; n++ {
		fired := led.Fired()
		err := throwOnce(m, n, rows, base, want)
		if led.Fired() == fired && err == nil && n > 20 {
			return nil
		}
		if led.Fired() != fired+1 {
			return fmt.Errorf("malloc %d: %d faults fired, want 1; error %v", n, led.Fired()-fired, err)
		}
		if err != nil {
			return fmt.Errorf("malloc %d: %w", n, err)
		}
		m.n = start
	}
}

func throwOnce(m *tiny, n int64, rows int, base turn.Buffers, want []float32) error {
	led := dev.Ledger()
	fired := led.Fired()
	led.FailAt(n)
	got, err := m.step(rows)
	led.FailAt(0)
	if led.Fired() > fired {
		if !errors.Is(err, ErrResourceLimit) {
			return fmt.Errorf("error %v, want %v", err, ErrResourceLimit)
		}
		if err := m.recover(); err != nil {
			return err
		}
		if live := liveNow(); live != base {
			return fmt.Errorf("%d live buffers, want %d", live, base)
		}
		got, err = m.step(rows)
	}
	if err != nil {
		return fmt.Errorf("the repeated step: %w", err)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the repeated step differs: %v, want %v", head(got), head(want))
	}
	if live := liveNow(); live != base {
		return fmt.Errorf("%d live buffers after the repeated step, want %d", live, base)
	}
	return nil
}

// TestLimits shows both limits' errors, and that the process goes on.
func TestLimits(t *testing.T) {
	withTiny(t, tinyCap, 7, func(m *tiny) error {
		led := dev.Ledger()
		start := m.n
		want, err := m.step(3)
		if err != nil {
			return err
		}
		m.n = start
		buffers, bytes := led.Live()
		wasBuffers, wasBytes := led.Limits()
		defer led.SetLimits(wasBuffers, wasBytes)
		for _, c := range []struct {
			buffers turn.Buffers
			bytes   turn.Bytes
			want    error
		}{{buffers + 3, 0, ErrResourceLimit}, {0, bytes + 1500, ErrMemory}} {
			led.SetLimits(c.buffers, c.bytes)
			led.ResetPeak()
			if _, err := m.step(3); !errors.Is(err, c.want) {
				return fmt.Errorf("error %v, want %v", err, c.want)
			}
			pb, py := led.Peak()
			if c.buffers > 0 && pb > c.buffers || c.bytes > 0 && py > c.bytes {
				return fmt.Errorf("peak %d buffers, %d bytes beyond the limit", pb, py)
			}
			led.SetLimits(wasBuffers, wasBytes)
			if err := m.recover(); err != nil {
				return err
			}
			got, err := m.step(3)
			if err != nil {
				return err
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("after %v the step differs", c.want)
			}
			m.n = start
		}
		return nil
	})
}

// TestDecodeIsFlat: a decode step leaves no buffer behind, and what it allocates
// does not depend on the context's length.
func TestDecodeIsFlat(t *testing.T) {
	led := dev.Ledger()
	perStep := func(prefill int) (least turn.Bytes) {
		withTiny(t, 1024, prefill, func(m *tiny) error {
			live := liveNow()
			for range 20 {
				_, before := led.Total()
				if _, err := m.step(1); err != nil {
					return err
				}
				_, after := led.Total()
				if least == 0 || after-before < least {
					least = after - before
				}
				if now := liveNow(); now != live {
					return fmt.Errorf("%d live buffers after %d rows, want %d", now, m.n, live)
				}
			}
			return nil
		})
		return least
	}
	if short, long := perStep(8), perStep(900); short != long {
		t.Errorf("a decode step allocates %d bytes at 900 positions, %d at 8", long, short)
	}
}
