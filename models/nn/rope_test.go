package nn

import (
	"errors"
	"math"
	"testing"

	"ingot/models/modeltest"
	"ingot/runtime/mlx"
)

func TestRopeTables(t *testing.T) {
	one := 1.0
	for name, c := range map[string]struct {
		scaling *RopeScaling
		scale   float64
		freqs   []float64 // of the first, a middle and the last pair; nil: none
		mult    float64
	}{
		"none":    {nil, 1, nil, 1},
		"default": {&RopeScaling{Type: "default"}, 1, nil, 1},
		"linear":  {&RopeScaling{OldType: "linear", Factor: 4}, 0.25, nil, 1},
		// Waves longer than 8192 are stretched by 8, those below 2048 are kept.
		"llama3":             {&RopeScaling{Type: "llama3", Factor: 8, LowFreq: 1, HighFreq: 4, Original: 8192}, 1, []float64{1, 100, 8 * math.Pow(10000, 30.0/32)}, 1},
		"yarn":               {&RopeScaling{Type: "yarn", Factor: 4, Original: 4096}, 1, []float64{1, 0, 4 * math.Pow(10000, 30.0/32)}, 0.1*math.Log(4) + 1},
		"yarn, equal scales": {&RopeScaling{Type: "yarn", Factor: 4, Original: 4096, Mscale: &one, MscaleAll: &one}, 1, []float64{1, 0, 4 * math.Pow(10000, 30.0/32)}, 1},
		"longrope": {&RopeScaling{Type: "longrope", Original: 4096, LongFactor: []float64{2}}, 1, []float64{2, 200, 2 * math.Pow(10000, 30.0/32)},
			math.Sqrt(1 + math.Log(8)/math.Log(4096))},
	} {
		got, err := RopeConfig{Dims: 32, Base: 10000, Context: 32768, Scaling: c.scaling}.Table()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Scale != c.scale || math.Abs(got.Mult-c.mult) > 1e-9 || (got.Freqs == nil) != (c.freqs == nil) {
			t.Errorf("%s: scale %v, multiplier %v, want %v and %v", name, got.Scale, got.Mult, c.scale, c.mult)
		}
		for i, at := range []int{0, 8, 15} {
			if c.freqs == nil || c.freqs[i] == 0 {
				continue
			}
			if f := float64(got.Freqs[at]); math.Abs(f-c.freqs[i]) > 1e-5*c.freqs[i] {
				t.Errorf("%s: pair %d has %v, want %v", name, at, f, c.freqs[i])
			}
		}
	}
}

func TestBadRope(t *testing.T) {
	for name, c := range map[string]RopeConfig{
		"odd":      {Dims: 3, Base: 1e4},
		"base":     {Dims: 4},
		"kind":     {Dims: 4, Base: 1e4, Scaling: &RopeScaling{Type: "dynamic"}},
		"linear":   {Dims: 4, Base: 1e4, Scaling: &RopeScaling{Type: "linear"}},
		"llama3":   {Dims: 4, Base: 1e4, Scaling: &RopeScaling{Type: "llama3", Factor: 2, LowFreq: 4}},
		"yarn":     {Dims: 4, Base: 1e4, Scaling: &RopeScaling{Type: "yarn"}},
		"longrope": {Dims: 8, Base: 1e4, Scaling: &RopeScaling{Type: "su", Original: 5, LongFactor: []float64{1, 2}}},
	} {
		if _, err := c.Table(); !errors.Is(err, ErrRope) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each row turns at its own position, whatever it stands beside.
func TestRopeTurnsByPosition(t *testing.T) {
	dev := modeltest.Device()
	on(t, func(s *mlx.Scope) error {
		r, err := NewRope(dev, RopeConfig{Dims: 4, Base: 100, Context: 64, Scaling: &RopeScaling{Type: "longrope", Original: 16, LongFactor: []float64{2, 3}}}, 6, mlx.Float32)
		if err != nil {
			return err
		}
		defer r.Free()
		x := random(5, 3*2*6)
		p := &Step{Rows: 3, runs: []mlx.Run{{Position: 7, Rows: 2}, {Position: 100, Rows: 1}}}
		got := floats(t, r.Apply(s, p, s.FromFloat32(x, 1, 3, 2, 6)))
		close32(t, "turned", got, turned(x, []int{7, 8, 100}, []float64{2, 3 * 10}, math.Sqrt(1+math.Log(4)/math.Log(16))), 1e-4)
		return s.Err()
	})
}

// turned is the rotation by hand: rows of 2 heads, 6 wide, of which 4 turn.
func turned(x []float32, at []int, freqs []float64, mult float64) []float32 {
	out := append([]float32(nil), x...)
	for row := range at {
		for h := range 2 {
			v := out[(row*2+h)*6:]
			for i := range 2 {
				a, b, th := mult*float64(v[i]), mult*float64(v[i+2]), float64(at[row])/freqs[i]
				v[i], v[i+2] = float32(a*math.Cos(th)-b*math.Sin(th)), float32(a*math.Sin(th)+b*math.Cos(th))
			}
		}
	}
	return out
}
