package index

import (
	"encoding/binary"
	"io"
	"math"
)

// The value types of GGUF metadata.
const (
	ggufU8 = iota
	ggufI8
	ggufU16
	ggufI16
	ggufU32
	ggufI32
	ggufF32
	ggufBool
	ggufString
	ggufArray
	ggufU64
	ggufI64
	ggufF64
)

// value reads one metadata value; arrays do not nest.
func (p *ggufParser) value(kind uint32, arrays bool) any {
	switch kind {
	case ggufString:
		return p.string()
	case ggufArray:
		if !arrays {
			p.fail("an array of arrays")
			return nil
		}
		return p.array()
	}
	b := p.bytes(int64(scalarSize(kind)))
	if b == nil {
		return nil
	}
	return p.scalar(kind, b)
}

// scalarSize is 0 for kinds that are no scalars.
func scalarSize(kind uint32) int {
	switch kind {
	case ggufU8, ggufI8, ggufBool:
		return 1
	case ggufU16, ggufI16:
		return 2
	case ggufU32, ggufI32, ggufF32:
		return 4
	case ggufU64, ggufI64, ggufF64:
		return 8
	}
	return 0
}

func (p *ggufParser) scalar(kind uint32, b []byte) any {
	le := binary.LittleEndian
	switch kind {
	case ggufU8:
		return b[0]
	case ggufI8:
		return int8(b[0])
	case ggufBool:
		return b[0] != 0
	case ggufU16:
		return le.Uint16(b)
	case ggufI16:
		return int16(le.Uint16(b))
	case ggufU32:
		return le.Uint32(b)
	case ggufI32:
		return int32(le.Uint32(b))
	case ggufF32:
		return math.Float32frombits(le.Uint32(b))
	case ggufU64:
		return le.Uint64(b)
	case ggufI64:
		return int64(le.Uint64(b))
	case ggufF64:
		return math.Float64frombits(le.Uint64(b))
	}
	p.fail("metadata of type %d", kind)
	return nil
}

// array reads the arrays that matter as slices of their own type; others
// become []any.
func (p *ggufParser) array() any {
	kind := p.u32()
	n := p.count("elements", maxGGUFArray)
	size := int64(max(scalarSize(kind), 1))
	if kind == ggufString {
		size = 8
	}
	if int64(n) > p.left/size { // before anything is allocated
		if p.err == nil {
			p.err = io.ErrUnexpectedEOF
		}
		return nil
	}
	switch kind {
	case ggufString:
		return list(p, n, p.string)
	case ggufI32:
		return list(p, n, func() int32 { return int32(p.u32()) })
	case ggufF32:
		return list(p, n, func() float32 { return math.Float32frombits(p.u32()) })
	}
	return list(p, n, func() any { return p.value(kind, false) })
}

func list[T any](p *ggufParser, n int, next func() T) []T {
	out := make([]T, 0, n)
	for range n {
		v := next()
		if p.err != nil {
			return nil
		}
		out = append(out, v)
	}
	return out
}
