package weights

import (
	"encoding/binary"
	"math"
	"testing"

	"ingot/runtime/mlx"
)

// Every half survives the way to float32 and back, and means what it says.
func TestHalvesSurvive(t *testing.T) {
	for h := range 1 << 16 {
		b := halfBits(uint16(h))
		f := float64(math.Float32frombits(b))
		exp, frac := h>>10&31, float64(h&0x3ff)
		want := math.Ldexp(1+frac/1024, exp-15)
		switch {
		case exp == 0:
			want = math.Ldexp(frac, -24)
		case exp == 31 && frac == 0:
			want = math.Inf(1)
		case exp == 31:
			want = math.NaN()
		}
		if math.Abs(f) != want && !(math.IsNaN(f) && math.IsNaN(want)) {
			t.Fatalf("%#04x means %v, want %v", h, f, want)
		}
		if back := toHalf(b); back != uint16(h) && !math.IsNaN(f) {
			t.Fatalf("%#04x came back as %#04x", h, back)
		}
		if brain := toBrain(uint32(h) << 16); brain != uint16(h) && !math.IsNaN(float64(math.Float32frombits(uint32(h)<<16))) {
			t.Fatalf("bfloat16 %#04x came back as %#04x", h, brain)
		}
	}
}

// Rounding agrees with the nearest of the two neighbours, ties to even.
func TestHalvesRound(t *testing.T) {
	for h := range uint16(0x7bff) {
		lo, hi := math.Float32frombits(halfBits(h)), math.Float32frombits(halfBits(h+1))
		mid := lo + (hi-lo)/2
		even := h + h&1
		if got := toHalf(math.Float32bits(mid)); got != even {
			t.Fatalf("between %#04x and the next: %#04x", h, got)
		}
		if got := toHalf(math.Float32bits(math.Nextafter32(mid, 0))); got != h {
			t.Fatalf("below the middle after %#04x: %#04x", h, got)
		}
		if got := toHalf(math.Float32bits(math.Nextafter32(mid, 1e9))); got != h+1 {
			t.Fatalf("above the middle after %#04x: %#04x", h, got)
		}
	}
	for f, want := range map[float32]uint16{65519: 0x7bff, 65520: 0x7c00, -1e9: 0xfc00, 1e-9: 0} {
		if got := toHalf(math.Float32bits(f)); got != want {
			t.Errorf("%v became %#04x, want %#04x", f, got, want)
		}
	}
	if got := toBrain(0x3f808000); got != 0x3f80 {
		t.Errorf("a tie became %#04x", got)
	}
	if got := toBrain(0x3f818000); got != 0x3f82 {
		t.Errorf("a tie became %#04x", got)
	}
}

func TestConverters(t *testing.T) {
	halves := []mlx.Dtype{mlx.Float16, mlx.BFloat16, mlx.Float32}
	for _, from := range halves {
		for _, to := range halves {
			src := one(from)
			convert, ok := converter(from, to)
			if !ok || convert == nil != (from == to) {
				t.Errorf("%v to %v: %v", from, to, ok)
				continue
			}
			dst := src
			if convert != nil {
				dst = make([]byte, to.Size())
				convert(dst, src)
			}
			addTo(to, dst, 1)
			if got, want := value(to, dst), float32(2.5); got != want {
				t.Errorf("%v to %v, plus one: %v, want %v", from, to, got, want)
			}
		}
	}
	if _, ok := converter(mlx.Uint32, mlx.Float32); ok {
		t.Error("packed words became floats")
	}
}

func one(dt mlx.Dtype) []byte {
	bits := math.Float32bits(1.5)
	switch dt {
	case mlx.Float16:
		return binary.LittleEndian.AppendUint16(nil, toHalf(bits))
	case mlx.BFloat16:
		return binary.LittleEndian.AppendUint16(nil, toBrain(bits))
	}
	return binary.LittleEndian.AppendUint32(nil, bits)
}

func value(dt mlx.Dtype, b []byte) float32 {
	switch dt {
	case mlx.Float16:
		return math.Float32frombits(halfBits(binary.NativeEndian.Uint16(b)))
	case mlx.BFloat16:
		return math.Float32frombits(uint32(binary.NativeEndian.Uint16(b)) << 16)
	}
	return math.Float32frombits(binary.NativeEndian.Uint32(b))
}
