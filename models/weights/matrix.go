package weights

import (
	"ingot/models/index"
	"ingot/runtime/mlx"
)

// Matrix is a weight that rows are multiplied with, packed or plain. Parts
// that were laid side by side are rows [0, Split[0]), [Split[0], ...) of it.
type Matrix struct {
	W      *mlx.Array // [Out, In], or packed u32 [Out, In*bits/32]; experts lead: [E, Out, ...]
	Scales *mlx.Array // [Out, In/group]; nil: W is plain
	Biases *mlx.Array // like Scales; nil in modes that have none
	Bias   *mlx.Array // [Out]; nil: none
	Quant  index.Quant
	Out    int
	In     int
	Split  []int // Out of each part
}

// Packed reports whether the weight is quantized.
func (m *Matrix) Packed() bool { return m.Scales != nil }

// Part names a module of a checkpoint and the rows that are wanted of it:
// all of them, or, of each of Groups equal groups, some consecutive ones.
type Part struct {
	Name   string // of the module: ".weight" and the like are added
	Out    int    // rows wanted
	Groups int    // 0: the module has Out rows
	Width  int    // rows of a group
	At     int    // the first row wanted of each group
}

// rows is how many rows the module has in the file.
func (p *Part) rows() int {
	if p.Groups == 0 {
		return p.Out
	}
	return p.Groups * p.Width
}

// lay places the wanted rows, cols wide, of one matrix or of a stack of
// experts; the buffer has rows of its own, the part's begin at row at.
func (p *Part) lay(t *source, experts, cols, at, rows int) piece {
	switch {
	case p.Groups > 0:
		each := p.Out / p.Groups * cols
		return piece{src: t, blocks: p.Groups, block: each, from: p.At * cols, skip: p.Width * cols, at: at * cols, stride: each}
	case experts > 0:
		return piece{src: t, blocks: experts, block: p.Out * cols, skip: p.Out * cols, at: at * cols, stride: rows * cols}
	}
	return whole(t, at*cols, p.Out*cols)
}

// Linear declares a matrix of one or more parts over the same In features.
// Parts with different packing cannot lie in one buffer: see Alike.
func (l *Loader) Linear(in int, parts ...Part) *Matrix { return l.matrix(0, in, parts) }

// Experts declares a stack of matrices [experts, Out, In].
func (l *Loader) Experts(experts, in int, parts ...Part) *Matrix {
	return l.matrix(experts, in, parts)
}

// Stacked declares a stack of experts whose matrices are tensors of their
// own, not packed: parts names those of one expert.
func (l *Loader) Stacked(experts, in int, parts func(expert int) []Part) *Matrix {
	m := &Matrix{In: in}
	for _, p := range parts(0) {
		m.Out += p.Out
		m.Split = append(m.Split, p.Out)
	}
	j := job{dtype: l.Dtype(), into: new(mlx.Array), shape: []int{experts, m.Out, in}}
	at := 0
	for e := range experts {
		for _, p := range parts(e) {
			if t := l.checked(p.Name+".weight", []int{p.Out, in}); t != nil {
				j.pieces = append(j.pieces, whole(t, at*in, p.Out*in))
			}
			at += p.Out
		}
	}
	l.jobs = append(l.jobs, j)
	m.W = j.into
	return m
}

// Alike reports whether modules are packed in the same way, so that Linear
// may join them.
func (l *Loader) Alike(names ...string) bool {
	first, packed := l.quant(names[0])
	for _, n := range names[1:] {
		if q, p := l.quant(n); p != packed || q != first || l.scalesType(n) != l.scalesType(names[0]) {
			return false
		}
	}
	return true
}

func (l *Loader) scalesType(module string) string {
	if t := l.tensors[module+".scales"]; t != nil {
		return t.Dtype
	}
	return ""
}

// quant tells how a module is packed. The config may name it as the file
// does or as the family does.
func (l *Loader) quant(module string) (index.Quant, bool) {
	if l.tensors[module+".scales"] == nil {
		return index.Quant{}, false
	}
	if w := l.tensors[module+".weight"]; w != nil {
		file := w.name[:max(0, len(w.name)-len(".weight"))]
		if q, ok := l.model.Quant.Modules[file]; ok {
			return q, q.Bits > 0
		}
	}
	return l.model.Quant.For(module)
}

func (l *Loader) matrix(experts, in int, parts []Part) *Matrix {
	m := &Matrix{In: in}
	for _, p := range parts {
		m.Out += p.Out
		m.Split = append(m.Split, p.Out)
	}
	q, packed := l.quant(parts[0].Name)
	if !packed {
		m.W = l.rows(experts, in, parts, ".weight", l.Dtype())
	} else {
		l.packed(m, q, experts, parts)
	}
	m.Bias = l.bias(experts, parts)
	return m
}

func (l *Loader) packed(m *Matrix, q index.Quant, experts int, parts []Part) {
	m.Quant = q
	if m.In%q.Group != 0 || m.In*q.Bits%32 != 0 {
		l.fail(parts[0].Name, ErrShape, "%d features in groups of %d", m.In, q.Group)
		return
	}
	m.W = l.rows(experts, m.In*q.Bits/32, parts, ".weight", mlx.Uint32)
	if q.Mode != "affine" {
		m.Scales = l.rows(experts, m.In/q.Group, parts, ".scales", mlx.Uint8)
		return
	}
	dt := l.kept(parts[0].Name + ".scales")
	m.Scales = l.rows(experts, m.In/q.Group, parts, ".scales", dt)
	m.Biases = l.rows(experts, m.In/q.Group, parts, ".biases", dt)
}

// kept is the type in which a tensor lies in the file, as the device has it.
func (l *Loader) kept(name string) mlx.Dtype {
	if t := l.tensors[name]; t != nil {
		if dt, ok := dtypes[t.Dtype]; ok {
			return dt
		}
	}
	return mlx.Float32
}

// rows declares a buffer [experts?, sum of Out, cols] of the parts' tensors.
func (l *Loader) rows(experts, cols int, parts []Part, leaf string, dt mlx.Dtype) *mlx.Array {
	total := 0
	for _, p := range parts {
		total += p.Out
	}
	j := job{dtype: dt, into: new(mlx.Array), shape: stackShape(experts, total, cols)}
	at := 0
	for _, p := range parts {
		if t := l.checked(p.Name+leaf, stackShape(experts, p.rows(), cols)); t != nil {
			j.pieces = append(j.pieces, p.lay(t, experts, cols, at, total))
		}
		at += p.Out
	}
	l.jobs = append(l.jobs, j)
	return j.into
}

func stackShape(experts int, dims ...int) []int {
	if experts > 0 {
		return append([]int{experts}, dims...)
	}
	return dims
}

// bias declares the parts' biases; nil where no part has one. A part without
// one adds nothing.
func (l *Loader) bias(experts int, parts []Part) *mlx.Array {
	any, total := false, 0
	for _, p := range parts {
		any = any || l.Has(p.Name+".bias")
		total += p.Out
	}
	if !any {
		return nil
	}
	j := job{dtype: l.Dtype(), into: new(mlx.Array), shape: stackShape(experts, total)}
	at := 0
	for _, p := range parts {
		if l.Has(p.Name + ".bias") {
			if t := l.checked(p.Name+".bias", stackShape(experts, p.rows())); t != nil {
				j.pieces = append(j.pieces, p.lay(t, experts, 1, at, total))
			}
		}
		at += p.Out
	}
	l.jobs = append(l.jobs, j)
	return j.into
}

// checked is need with a look at the shape.
func (l *Loader) checked(name string, want []int) *source {
	t := l.need(name)
	if t == nil {
		return nil
	}
	if !sameShape(t.Shape, want) {
		l.fail(name, ErrShape, "%v, want %v", t.Shape, want)
		return nil
	}
	return t
}

func sameShape(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Vector declares a small float tensor of the shape, in the type that the
// model computes in.
func (l *Loader) Vector(name string, shape ...int) *mlx.Array {
	return l.Typed(name, l.Dtype(), shape...)
}

// Typed is Vector in a type of the caller's choice.
func (l *Loader) Typed(name string, dt mlx.Dtype, shape ...int) *mlx.Array {
	j := job{dtype: dt, shape: shape, into: new(mlx.Array)}
	if t := l.checked(name, shape); t != nil {
		j.pieces = []piece{whole(t, 0, int(t.Count()))}
		j.shift = l.shift(name)
	}
	l.jobs = append(l.jobs, j)
	return j.into
}

// Flat is Typed for a tensor that may lie under several shapes of the same
// elements in the same order; the array has the first.
func (l *Loader) Flat(name string, dt mlx.Dtype, shape []int, also ...[]int) *mlx.Array {
	if t := l.tensors[name]; t != nil {
		for _, a := range also {
			if sameShape(t.Shape, a) {
				t.Shape = shape
			}
		}
	}
	return l.Typed(name, dt, shape...)
}
