package nn

import (
	"errors"
	"fmt"
	"math"

	"ingot/runtime/mlx"
)

// RopeConfig is rotary positions as config.json tells them.
type RopeConfig struct {
	Dims        int // features that turn
	Base        float64
	Traditional bool
	Context     int // max_position_embeddings
	Scaling     *RopeScaling
}

// RopeScaling is config.json's rope_scaling (or rope_parameters).
type RopeScaling struct {
	Type        string    `json:"rope_type"`
	OldType     string    `json:"type"`
	Factor      float64   `json:"factor"`
	LowFreq     float64   `json:"low_freq_factor"`
	HighFreq    float64   `json:"high_freq_factor"`
	Original    int       `json:"original_max_position_embeddings"`
	BetaFast    float64   `json:"beta_fast"`
	BetaSlow    float64   `json:"beta_slow"`
	Mscale      *float64  `json:"mscale"`
	MscaleAll   *float64  `json:"mscale_all_dim"`
	LongFactor  []float64 `json:"long_factor"`
	ShortFactor []float64 `json:"short_factor"`
	Theta       float64   `json:"rope_theta"`
	Partial     float64   `json:"partial_rotary_factor"`
}

// Kind is the type under its new or its old name, "default" if none.
func (r *RopeScaling) Kind() string {
	switch {
	case r == nil:
		return "default"
	case r.OldType != "":
		return r.OldType
	case r.Type != "":
		return r.Type
	}
	return "default"
}

// ErrRope is wrapped by complaints about rope_scaling.
var ErrRope = errors.New("rope_scaling")

// RopeTable is a RopeConfig worked out: the angle of feature pair i at
// position p is p * Scale / Freqs[i], or with Base where Freqs is nil.
type RopeTable struct {
	Scale float64
	Freqs []float32 // [Dims/2]
	Mult  float64   // what the turning features are multiplied by first
}

// Table works the config out (pure).
func (c RopeConfig) Table() (RopeTable, error) {
	plain := RopeTable{Scale: 1, Mult: 1}
	if c.Dims <= 0 || c.Dims%2 != 0 || c.Base <= 0 {
		return plain, fmt.Errorf("%w: %d rotary features, base %v", ErrRope, c.Dims, c.Base)
	}
	switch kind := c.Scaling.Kind(); kind {
	case "default", "mrope":
		return plain, nil
	case "linear":
		if c.Scaling.Factor <= 0 {
			return plain, fmt.Errorf("%w: linear: factor %v", ErrRope, c.Scaling.Factor)
		}
		return RopeTable{Scale: 1 / c.Scaling.Factor, Mult: 1}, nil
	case "llama3":
		return c.llama3()
	case "yarn", "deepseek_yarn":
		return c.yarn()
	case "longrope", "su":
		return c.longRope()
	default:
		return plain, fmt.Errorf("%w: type %q is not known (known: default, linear, llama3, longrope, mrope, su, yarn)", ErrRope, kind)
	}
}

// freqs is base^(2i/dims), the wavelength of each pair over 2 pi.
func (c RopeConfig) freqs() []float64 {
	f := make([]float64, c.Dims/2)
	for i := range f {
		f[i] = math.Pow(c.Base, float64(2*i)/float64(c.Dims))
	}
	return f
}

func single(f []float64) []float32 {
	out := make([]float32, len(f))
	for i, v := range f {
		out[i] = float32(v)
	}
	return out
}

// llama3 stretches long waves by the factor, leaves short ones and blends
// between (Llama 3.1).
func (c RopeConfig) llama3() (RopeTable, error) {
	r := *c.Scaling
	setDefault(&r.LowFreq, 1)
	setDefault(&r.HighFreq, 4)
	if r.Original == 0 {
		r.Original = 8192
	}
	if r.Factor <= 0 || r.HighFreq == r.LowFreq {
		return RopeTable{}, fmt.Errorf("%w: llama3: factor %v, frequency factors %v and %v", ErrRope, r.Factor, r.LowFreq, r.HighFreq)
	}
	old := float64(r.Original)
	f := c.freqs()
	for i, v := range f {
		wave := 2 * math.Pi * v
		switch {
		case wave > old/r.LowFreq:
			f[i] = v * r.Factor
		case wave > old/r.HighFreq && wave < old/r.LowFreq:
			smooth := (old/wave - r.LowFreq) / (r.HighFreq - r.LowFreq)
			f[i] = v / ((1-smooth)/r.Factor + smooth)
		}
	}
	return RopeTable{Scale: 1, Freqs: single(f), Mult: 1}, nil
}

// yarn interpolates by wavelength and scales the features (Peng et al. 2023).
func (c RopeConfig) yarn() (RopeTable, error) {
	r := *c.Scaling
	setDefault(&r.BetaFast, 32)
	setDefault(&r.BetaSlow, 1)
	if r.Original == 0 {
		r.Original = 4096
	}
	if r.Factor <= 0 {
		return RopeTable{}, fmt.Errorf("%w: yarn: factor %v", ErrRope, r.Factor)
	}
	dim := func(rotations float64) float64 {
		return float64(c.Dims) * math.Log(float64(r.Original)/(rotations*2*math.Pi)) / (2 * math.Log(c.Base))
	}
	low := max(math.Floor(dim(r.BetaFast)), 0)
	high := min(math.Ceil(dim(r.BetaSlow)), float64(c.Dims-1))
	if low == high {
		high += 0.001
	}
	f := c.freqs()
	for i, v := range f {
		keep := 1 - min(max((float64(i)-low)/(high-low), 0), 1)
		f[i] = r.Factor * v * v / (r.Factor*v*keep + v*(1-keep))
	}
	mult := yarnScale(r.Factor, value(r.Mscale, 1)) / yarnScale(r.Factor, value(r.MscaleAll, 0))
	return RopeTable{Scale: 1, Freqs: single(f), Mult: mult}, nil
}

func yarnScale(factor, m float64) float64 {
	if factor <= 1 {
		return 1
	}
	return 0.1*m*math.Log(factor) + 1
}

// longRope stretches each wave by a factor of its own (Ding et al. 2024);
// the long factors serve at every length.
func (c RopeConfig) longRope() (RopeTable, error) {
	r := *c.Scaling
	if r.Original <= 0 || len(r.LongFactor) != c.Dims/2 && len(r.LongFactor) != 1 {
		return RopeTable{}, fmt.Errorf("%w: longrope: %d long factors for %d pairs, original context %d", ErrRope, len(r.LongFactor), c.Dims/2, r.Original)
	}
	f := c.freqs()
	for i := range f {
		f[i] *= r.LongFactor[min(i, len(r.LongFactor)-1)]
	}
	mult := 1.0
	if factor := float64(c.Context) / float64(r.Original); factor > 1 {
		mult = math.Sqrt(1 + math.Log(factor)/math.Log(float64(r.Original)))
	}
	return RopeTable{Scale: 1, Freqs: single(f), Mult: mult}, nil
}

func setDefault(v *float64, d float64) {
	if *v == 0 {
		*v = d
	}
}

func value(v *float64, d float64) float64 {
	if v == nil {
		return d
	}
	return *v
}

// Rope turns features by position.
type Rope struct {
	r    mlx.Rotary
	mult *mlx.Array // [D]; nil: 1
	own  []*mlx.Array
}

// NewRope puts the table of a config on the device, for heads of width
// features. Free it.
func NewRope(dev *mlx.Device, c RopeConfig, width int, dt mlx.Dtype) (*Rope, error) {
	t, err := c.Table()
	if err != nil {
		return nil, err
	}
	rope := &Rope{r: mlx.Rotary{Dims: c.Dims, Traditional: c.Traditional, Base: c.Base, Scale: t.Scale}}
	s := dev.NewScope()
	defer s.Close()
	if t.Freqs != nil {
		rope.r.Freqs = s.FromFloat32(t.Freqs)
		rope.own = append(rope.own, rope.r.Freqs)
	}
	if t.Mult != 1 {
		rope.mult = s.AsType(s.FromFloat32(multiplier(t.Mult, c.Dims, width)), dt)
		rope.own = append(rope.own, rope.mult)
	}
	if err := s.Eval(rope.own...); err != nil {
		return nil, err
	}
	for _, a := range rope.own {
		s.Keep(a)
	}
	return rope, nil
}

func multiplier(m float64, dims, width int) []float32 {
	out := make([]float32, width)
	for i := range out {
		out[i] = 1
		if i < dims {
			out[i] = float32(m)
		}
	}
	return out
}

// Apply turns x [1, N, H, D], each row at its own position.
func (r *Rope) Apply(s *mlx.Scope, p *Step, x *mlx.Array) *mlx.Array {
	if r.mult != nil {
		x = s.Mul(x, r.mult)
	}
	return s.RoPERows(x, r.r, p.runs...)
}

// Free gives the tables back.
func (r *Rope) Free() { _ = mlx.FreeAll(r.own...) }
