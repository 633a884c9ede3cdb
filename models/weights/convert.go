package weights

import (
	"encoding/binary"
	"math"

	"ingot/runtime/mlx"
)

// converter returns how elements become another type; nil with ok where
// they are the same.
func converter(from, to mlx.Dtype) (convert func(dst, src []byte), ok bool) {
	switch {
	case from == to:
		return nil, true
	case from == mlx.Float16 && to == mlx.Float32:
		return widen(halfBits), true
	case from == mlx.BFloat16 && to == mlx.Float32:
		return widen(func(h uint16) uint32 { return uint32(h) << 16 }), true
	case from == mlx.Float32 && to == mlx.Float16:
		return narrow(toHalf), true
	case from == mlx.Float32 && to == mlx.BFloat16:
		return narrow(toBrain), true
	case from == mlx.Float16 && to == mlx.BFloat16:
		return recode(func(h uint16) uint16 { return toBrain(halfBits(h)) }), true
	case from == mlx.BFloat16 && to == mlx.Float16:
		return recode(func(h uint16) uint16 { return toHalf(uint32(h) << 16) }), true
	}
	return nil, false
}

func widen(f func(uint16) uint32) func(dst, src []byte) {
	return func(dst, src []byte) {
		for i := 0; i+1 < len(src); i += 2 {
			binary.NativeEndian.PutUint32(dst[2*i:], f(binary.LittleEndian.Uint16(src[i:])))
		}
	}
}

func narrow(f func(uint32) uint16) func(dst, src []byte) {
	return func(dst, src []byte) {
		for i := 0; i+3 < len(src); i += 4 {
			binary.NativeEndian.PutUint16(dst[i/2:], f(binary.LittleEndian.Uint32(src[i:])))
		}
	}
}

func recode(f func(uint16) uint16) func(dst, src []byte) {
	return func(dst, src []byte) {
		for i := 0; i+1 < len(src); i += 2 {
			binary.NativeEndian.PutUint16(dst[i:], f(binary.LittleEndian.Uint16(src[i:])))
		}
	}
}

// halfBits is the float32 pattern of an IEEE half.
func halfBits(h uint16) uint32 {
	sign, exp, frac := uint32(h&0x8000)<<16, uint32(h>>10)&31, uint32(h&0x3ff)
	switch {
	case exp == 31:
		return sign | 0xff<<23 | frac<<13
	case exp > 0:
		return sign | (exp+112)<<23 | frac<<13
	}
	return sign | math.Float32bits(float32(frac)*0x1p-24) // subnormal: exact
}

// toHalf rounds a float32 pattern to the nearest half, ties to even.
func toHalf(b uint32) uint16 {
	sign, abs := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00
	case abs >= 0x477ff000: // rounds to 65536 or more
		return sign | 0x7c00
	case abs < 0x38800000: // below the least normal half
		f := math.Float32frombits(abs) + 0.5 // puts the last kept bit at the float's end
		return sign | uint16(math.Float32bits(f)-math.Float32bits(0.5))
	}
	abs += 0xfff + abs>>13&1
	return sign | uint16((abs-112<<23)>>13)
}

// toBrain rounds a float32 pattern to the nearest bfloat16, ties to even.
func toBrain(b uint32) uint16 {
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// addTo adds v to every element of raw.
func addTo(dt mlx.Dtype, raw []byte, v float32) {
	ne := binary.NativeEndian
	switch dt {
	case mlx.Float32:
		for i := 0; i+3 < len(raw); i += 4 {
			ne.PutUint32(raw[i:], math.Float32bits(math.Float32frombits(ne.Uint32(raw[i:]))+v))
		}
	case mlx.Float16:
		for i := 0; i+1 < len(raw); i += 2 {
			ne.PutUint16(raw[i:], toHalf(math.Float32bits(math.Float32frombits(halfBits(ne.Uint16(raw[i:])))+v)))
		}
	case mlx.BFloat16:
		for i := 0; i+1 < len(raw); i += 2 {
			ne.PutUint16(raw[i:], toBrain(math.Float32bits(math.Float32frombits(uint32(ne.Uint16(raw[i:]))<<16)+v)))
		}
	}
}
