package index

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// GGUF is the table of contents of a GGUF file
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
type GGUF struct {
	Path    string
	Version uint32
	Meta    map[string]any // uint8..uint64, int8..int64, float32, float64, bool, string, or a slice of one of them
	Tensors []GGUFTensor
}

// GGUFTensor is where a tensor of a GGUF file lies.
type GGUFTensor struct {
	Name   string
	Type   GGMLType
	Shape  []int // outermost first: the reverse of the file's order
	Offset int64 // in the file
	Size   int64 // bytes
}

// GGMLType is a tensor type of ggml.
type GGMLType uint32

// The types that are understood here.
const (
	GGMLF32  GGMLType = 0
	GGMLF16  GGMLType = 1
	GGMLQ4_0 GGMLType = 2
	GGMLQ4_1 GGMLType = 3
	GGMLQ8_0 GGMLType = 8
	GGMLBF16 GGMLType = 30
)

// ggmlTypes has name, elements per block and bytes per block.
var ggmlTypes = map[GGMLType]struct {
	name        string
	block, size int64
}{
	0: {"F32", 1, 4}, 1: {"F16", 1, 2}, 2: {"Q4_0", 32, 18}, 3: {"Q4_1", 32, 20}, 6: {"Q5_0", 32, 22}, 7: {"Q5_1", 32, 24},
	8: {"Q8_0", 32, 34}, 9: {"Q8_1", 32, 36}, 10: {"Q2_K", 256, 84}, 11: {"Q3_K", 256, 110}, 12: {"Q4_K", 256, 144},
	13: {"Q5_K", 256, 176}, 14: {"Q6_K", 256, 210}, 15: {"Q8_K", 256, 292}, 16: {"IQ2_XXS", 256, 66}, 17: {"IQ2_XS", 256, 74},
	18: {"IQ3_XXS", 256, 98}, 19: {"IQ1_S", 256, 50}, 20: {"IQ4_NL", 32, 18}, 21: {"IQ3_S", 256, 110}, 22: {"IQ2_S", 256, 82},
	23: {"IQ4_XS", 256, 136}, 24: {"I8", 1, 1}, 25: {"I16", 1, 2}, 26: {"I32", 1, 4}, 27: {"I64", 1, 8}, 28: {"F64", 1, 8},
	29: {"IQ1_M", 256, 56}, 30: {"BF16", 1, 2}, 34: {"TQ1_0", 256, 54}, 35: {"TQ2_0", 256, 66}, 39: {"MXFP4", 32, 17},
}

func (t GGMLType) String() string {
	if k, ok := ggmlTypes[t]; ok {
		return k.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Bounds on what a stranger's file may make us allocate.
const (
	maxGGUFCount  = 1 << 20 // keys, tensors
	maxGGUFArray  = 1 << 24 // elements
	maxGGUFString = 1 << 24 // bytes
)

// ReadGGUF reads the table of contents of a GGUF file.
func ReadGGUF(path string) (*GGUF, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return ParseGGUF(path, f, st.Size())
}

// ParseGGUF reads the table of contents of a GGUF file of the given size.
func ParseGGUF(path string, r io.ReaderAt, size int64) (*GGUF, error) {
	p := &ggufParser{path: path, r: bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 1<<16), left: size}
	g := p.file()
	if p.err != nil {
		if errors.Is(p.err, io.EOF) || errors.Is(p.err, io.ErrUnexpectedEOF) {
			return nil, truncated(path, "ends within the header, at byte %d", size)
		}
		return nil, p.err
	}
	if err := g.locate(size-p.left, size); err != nil {
		return nil, err
	}
	return g, nil
}

// locate turns offsets from the data section into offsets in the file.
func (g *GGUF) locate(header, size int64) error {
	align := int64(32)
	if a, ok := g.Meta["general.alignment"].(uint32); ok && a > 0 && a <= 1<<20 {
		align = int64(a)
	}
	start := (header + align - 1) / align * align
	for i := range g.Tensors {
		t := &g.Tensors[i]
		if t.Offset < 0 || t.Offset > math.MaxInt64-start-t.Size {
			return corrupt(g.Path, "tensor %q at offset %d", t.Name, t.Offset)
		}
		t.Offset += start
		if t.Offset+t.Size > size {
			return truncated(g.Path, "tensor %q ends at byte %d of %d", t.Name, t.Offset+t.Size, size)
		}
	}
	return nil
}

// ggufParser reads forward with a sticky error and never past the file.
type ggufParser struct {
	path string
	r    *bufio.Reader
	left int64
	err  error
}

func (p *ggufParser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = corrupt(p.path, format, args...)
	}
}

func (p *ggufParser) bytes(n int64) []byte {
	if p.err == nil && n > p.left {
		p.err = io.ErrUnexpectedEOF
	}
	if p.err != nil {
		return nil
	}
	b := make([]byte, n)
	if _, p.err = io.ReadFull(p.r, b); p.err != nil {
		return nil
	}
	p.left -= n
	return b
}

func (p *ggufParser) u32() uint32 {
	if b := p.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (p *ggufParser) u64() uint64 {
	if b := p.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (p *ggufParser) count(what string, most uint64) int {
	n := p.u64()
	if n > most {
		p.fail("%d %s, at most %d", n, what, most)
		return 0
	}
	return int(n)
}

func (p *ggufParser) string() string {
	return string(p.bytes(int64(p.count("bytes of text", maxGGUFString))))
}

func (p *ggufParser) file() *GGUF {
	g := &GGUF{Path: p.path, Meta: map[string]any{}}
	if magic := p.bytes(4); p.err == nil && string(magic) != "GGUF" {
		p.fail("starts with %q, not GGUF", magic)
	}
	if g.Version = p.u32(); p.err == nil && g.Version != 2 && g.Version != 3 {
		p.fail("GGUF version %d; 2 and 3 are understood", g.Version)
	}
	tensors, keys := p.count("tensors", maxGGUFCount), p.count("keys", maxGGUFCount)
	for range keys {
		if p.err != nil {
			return g
		}
		k := p.string()
		g.Meta[k] = p.value(p.u32(), true)
	}
	for range tensors {
		if p.err != nil {
			return g
		}
		g.Tensors = append(g.Tensors, p.tensor())
	}
	return g
}

func (p *ggufParser) tensor() GGUFTensor {
	t := GGUFTensor{Name: p.string()}
	nd := p.u32()
	if nd > maxDims {
		p.fail("tensor %q has %d dimensions", t.Name, nd)
		return t
	}
	shape := make([]int64, nd)
	for i := range shape {
		shape[len(shape)-1-i] = int64(p.u64())
	}
	t.Type, t.Offset = GGMLType(p.u32()), int64(p.u64())
	k, ok := ggmlTypes[t.Type]
	dims, n, fits := product(shape)
	switch {
	case p.err != nil:
	case !ok:
		p.fail("tensor %q: %v is not known", t.Name, t.Type)
	case !fits || n > math.MaxInt64/k.size || nd == 0 || shape[nd-1]%k.block != 0:
		p.fail("tensor %q: shape %v of %v", t.Name, shape, t.Type)
	default:
		t.Shape, t.Size = dims, n/k.block*k.size
	}
	return t
}
