package mlx

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
)

// dev is the process's one device.
var dev *Device

func TestMain(m *testing.M) {
	var err error
	if dev, err = Open(Options{Kind: CPU}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := errors.Join(leaks(), dev.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// leaks tells whether the tests left arrays behind.
func leaks() error {
	if n := dev.Handles(); n != 0 {
		return fmt.Errorf("%d arrays were never freed", n)
	}
	return nil
}

// on runs f with a scope on the device thread.
func on(t *testing.T, f func(s *Scope) error) {
	t.Helper()
	err := dev.Do(func() error {
		s := dev.NewScope()
		defer s.Close()
		return f(s)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// floats evaluates a and reads it as float32.
func floats(a *Array) ([]float32, error) {
	if !a.Alive() {
		return nil, errors.New("dead array")
	}
	out := make([]float32, a.Size())
	return out, a.Float32s(out)
}

// ramp is an array of 0, step, 2 step...
func ramp(s *Scope, step float32, shape ...int) *Array {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(i) * step
	}
	return s.FromFloat32(v, shape...)
}

// wave is an array of bounded values without a pattern that a bug could hide in.
func wave(s *Scope, seed int, shape ...int) *Array {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(math.Sin(float64(i*(seed*2+7)%1009) * 0.37))
	}
	return s.FromFloat32(v, shape...)
}

// near compares elementwise, relative to the larger of 1 and the value.
func near(got, want []float32, tol float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d values, want %d", len(got), len(want))
	}
	for i := range got {
		g, w := float64(got[i]), float64(want[i])
		if g == w || math.IsNaN(g) && math.IsNaN(w) {
			continue
		}
		if d := math.Abs(g - w); math.IsNaN(d) || d > tol*max(1, math.Abs(w)) {
			return fmt.Errorf("[%d] = %v, want %v (of %v, want %v)", i, g, w, head(got), head(want))
		}
	}
	return nil
}

func head(v []float32) []float32 { return v[:min(len(v), 12)] }

// same compares two arrays of one scope elementwise.
func same(a, b *Array, tol float64) error {
	if !slices.Equal(a.Shape(), b.Shape()) {
		return fmt.Errorf("shape %v, want %v", a.Shape(), b.Shape())
	}
	x, err := floats(a)
	if err != nil {
		return err
	}
	y, err := floats(b)
	if err != nil {
		return err
	}
	return near(x, y, tol)
}
