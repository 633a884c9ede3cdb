package store

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"ingot/models/index"
)

// ggufGroup is the block length of the types that are packed here.
const ggufGroup = 32

// place is where a part of a tensor goes in the safetensors file.
type place struct {
	Dtype   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// writeSafetensors writes the planned tensors in order, rows by rows.
func writeSafetensors(path string, plan []*stored, src io.ReaderAt) error {
	places, names := map[string]any{"__metadata__": map[string]string{"format": "mlx"}}, map[*stored][]string{}
	end := int64(0)
	add := func(t *stored, name, dtype string, bytes int64, shape ...int) {
		n := bytes
		for _, d := range shape {
			n *= int64(d)
		}
		places[name] = place{dtype, shape, [2]int64{end, end + n}}
		names[t] = append(names[t], name)
		end += n
	}
	for _, t := range plan {
		t.parts(add)
	}
	head, err := json.Marshal(places)
	if err != nil {
		return err
	}
	head = append(head, strings.Repeat(" ", (8-len(head)%8)%8)...)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	lead := binary.LittleEndian.AppendUint64(nil, uint64(len(head)))
	if _, err := f.Write(append(lead, head...)); err != nil {
		return err
	}
	start := int64(len(lead) + len(head))
	for _, t := range plan {
		if err := t.copy(f, src, start, places, names[t]); err != nil {
			return fmt.Errorf("tensor %s: %w", t.Name, err)
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// parts declares the arrays that a tensor becomes.
func (s *stored) parts(add func(t *stored, name, dtype string, bytes int64, shape ...int)) {
	if s.bits == 0 {
		add(s, s.name, s.Type.String(), s.Size/max(count(s.Shape), 1), s.Shape...)
		return
	}
	module := strings.TrimSuffix(s.name, ".weight")
	rows, cols := s.Shape[0], s.Shape[1]
	add(s, s.name, "U32", 4, rows, cols*s.bits/32)
	add(s, module+".scales", "F16", 2, rows, cols/ggufGroup)
	add(s, module+".biases", "F16", 2, rows, cols/ggufGroup)
}

func count(shape []int) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= int64(d)
	}
	return n
}

// copy reads the tensor in bands of rows and writes its parts.
func (s *stored) copy(f io.WriterAt, src io.ReaderAt, start int64, places map[string]any, names []string) error {
	rows := s.Shape[0]
	if rows == 0 {
		return nil
	}
	wide := int(s.Size) / rows
	band := rows
	if s.heads > 0 {
		band = rows / s.heads // a head's rows change places among themselves
	}
	for band > 1 && s.heads == 0 && band*wide > 8<<20 {
		band = (band + 1) / 2
	}
	buf := make([]byte, band*wide)
	for r := 0; r < rows; r += band {
		n := min(band, rows-r)
		if _, err := src.ReadAt(buf[:n*wide], s.Offset+int64(r*wide)); err != nil {
			return err
		}
		for i, part := range s.pack(buf[:n*wide], r, n, wide) {
			p := places[names[i]].(place)
			each := (p.Offsets[1] - p.Offsets[0]) / int64(rows)
			if _, err := f.WriteAt(part, start+p.Offsets[0]+int64(r)*each); err != nil {
				return err
			}
		}
	}
	return nil
}

// pack turns n rows, the first of them row r of the tensor, into the parts.
func (s *stored) pack(src []byte, r, n, wide int) [][]byte {
	if s.heads > 0 {
		moved := make([]byte, len(src))
		for i := range n {
			from := s.row(r+i) - r
			copy(moved[i*wide:(i+1)*wide], src[from*wide:])
		}
		src = moved
	}
	if s.bits == 0 {
		return [][]byte{src}
	}
	p := &packer{}
	for size := blockSize(s.Type); len(src) > 0; src = src[size:] {
		p.block(s.Type, src[:size])
	}
	return [][]byte{p.w, p.scales, p.biases}
}

func blockSize(t index.GGMLType) int {
	return map[index.GGMLType]int{index.GGMLQ4_0: 18, index.GGMLQ4_1: 20, index.GGMLQ8_0: 34}[t]
}

// packer collects MLX's arrays: values from the low bits of 32-bit words
// upwards, w = scale*q + bias.
type packer struct{ w, scales, biases []byte }

// block packs one block of 32 weights.
func (p *packer) block(t index.GGMLType, b []byte) {
	scale := binary.LittleEndian.Uint16(b)
	p.scales = binary.LittleEndian.AppendUint16(p.scales, scale)
	switch t {
	case index.GGMLQ4_0: // d*(q-8)
		p.biases = binary.LittleEndian.AppendUint16(p.biases, timesPower(scale, 3))
		p.nibbles(b[2:])
	case index.GGMLQ4_1: // d*q + m
		p.biases = append(p.biases, b[2:4]...)
		p.nibbles(b[4:])
	case index.GGMLQ8_0: // d*q, signed: q+128 is unsigned
		p.biases = binary.LittleEndian.AppendUint16(p.biases, timesPower(scale, 7))
		for _, q := range b[2:] {
			p.w = append(p.w, q^0x80)
		}
	}
}

// nibbles takes 16 bytes: weights 0-15 in the low halves, 16-31 in the high.
func (p *packer) nibbles(b []byte) {
	for i := 0; i < 16; i += 2 {
		p.w = append(p.w, b[i]&15|b[i+1]<<4)
	}
	for i := 0; i < 16; i += 2 {
		p.w = append(p.w, b[i]>>4|b[i+1]&0xf0)
	}
}

// timesPower is -h * 2^n as a half float: exact unless it overflows, then
// infinite.
func timesPower(h uint16, n int) uint16 {
	sign, exp, frac := h&0x8000^0x8000, int(h>>10&31), int(h&0x3ff)
	switch {
	case exp == 31:
		return sign | h&0x7fff
	case exp == 0: // subnormal, or zero
		v := math.Ldexp(float64(frac), n)
		for exp = 1; v >= 2048; exp++ {
			v /= 2
		}
		if v < 1024 {
			return sign | uint16(v)
		}
		return sign | uint16(exp)<<10 | uint16(v)&0x3ff
	case exp+n >= 31:
		return sign | 31<<10
	}
	return sign | uint16(exp+n)<<10 | uint16(frac)
}
