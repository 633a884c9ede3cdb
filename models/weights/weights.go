// Package weights brings a checkpoint's tensors onto the device: names are
// mapped by rules that are data, parts that are used together are laid
// side by side in one buffer, and files are read in parallel straight into
// the buffers.
//
// A Loader belongs to the device thread; the reading goroutines it starts
// touch plain bytes only and have ended when Load returns. The arrays belong
// to whoever holds the Loader's Set. It never computes with weights, but for
// widening half floats where the device computes in f32.
package weights

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ingot/models/index"
	"ingot/runtime/mlx"
)

// Rule maps names of a checkpoint to a family's own, or skips them. Exactly
// one of Prefix and Suffix is set. The first rule of each that matches
// decides.
type Rule struct {
	Prefix, Suffix string
	To             string // what the prefix or the suffix becomes
	Skip           bool   // the tensor is of no use here
}

// Rename applies the first rule that matches the name's start, then the first
// that matches its end; ok is false where one of them skips.
func Rename(rules []Rule, name string) (renamed string, ok bool) {
	for i := range rules {
		if r := &rules[i]; r.Prefix != "" && strings.HasPrefix(name, r.Prefix) {
			if r.Skip {
				return "", false
			}
			name = r.To + name[len(r.Prefix):]
			break
		}
	}
	for i := range rules {
		if r := &rules[i]; r.Suffix != "" && strings.HasSuffix(name, r.Suffix) {
			return name[:len(name)-len(r.Suffix)] + r.To, !r.Skip
		}
	}
	return name, true
}

// Errors to be compared with errors.Is.
var (
	ErrMissing = errors.New("tensor is missing")
	ErrShape   = errors.New("tensor has the wrong shape")
	ErrDtype   = errors.New("tensor has an unsupported type")
	ErrUnused  = errors.New("tensors of no known use")
)

// TensorError says which tensor is wrong. Err is one of the sentinels.
type TensorError struct {
	Name string
	Why  string
	Err  error
}

func (e *TensorError) Error() string { return fmt.Sprintf("%s: %v: %s", e.Name, e.Err, e.Why) }
func (e *TensorError) Unwrap() error { return e.Err }

// RoomError is a load that the device has no room for. It tells what all
// buffers of the model need, those that fitted included.
type RoomError struct {
	Buffers int
	Bytes   int64
	Err     error // of the buffer that did not fit
}

func (e *RoomError) Error() string {
	return fmt.Sprintf("a model of %d buffers, %d bytes: %v", e.Buffers, e.Bytes, e.Err)
}
func (e *RoomError) Unwrap() error { return e.Err }

// Needs returns buffers and bytes.
func (e *RoomError) Needs() (buffers int, bytes int64) { return e.Buffers, e.Bytes }

// source is a tensor of the checkpoint under its family's name.
type source struct {
	index.Tensor
	name string // in the file
	used bool
}

// Loader collects what a family needs (Linear, Embedding, Vector, Raw) and
// then loads it in one go. Declarations never fail; Load does.
type Loader struct {
	dev     *mlx.Device
	model   *index.Model
	tensors map[string]*source
	jobs    []job
	errs    []error
	beside  []int64 // bytes of the buffers that Beside announced
	shifts  map[string]float32
}

// NewLoader prepares to load the weights of m.
func NewLoader(dev *mlx.Device, m *index.Model, rules []Rule) *Loader {
	l := &Loader{dev: dev, model: m, tensors: make(map[string]*source, len(m.Tensors))}
	for name, t := range m.Tensors {
		renamed, ok := Rename(rules, name)
		if !ok {
			continue
		}
		if prior, dup := l.tensors[renamed]; dup {
			l.fail(renamed, index.ErrCorrupt, "both %q and %q", prior.name, name)
		}
		l.tensors[renamed] = &source{Tensor: t, name: name}
	}
	return l
}

// Has reports whether the checkpoint has a tensor, by its family's name.
func (l *Loader) Has(name string) bool { return l.tensors[name] != nil }

// Dtype is what the model computes in: f32 on CPU, else the checkpoint's
// type.
func (l *Loader) Dtype() mlx.Dtype {
	if dt := l.dev.Compute(); dt != 0 {
		return dt
	}
	switch l.model.Dtype {
	case "BF16":
		return mlx.BFloat16
	case "F32":
		return mlx.Float32
	}
	return mlx.Float16
}

// Shift adds v to every vector whose name ends in one of the suffixes: some
// publishers keep a norm's weight less one. Call it before the declarations.
func (l *Loader) Shift(v float32, suffixes ...string) {
	l.shifts = map[string]float32{}
	for _, x := range suffixes {
		l.shifts[x] = v
	}
}

func (l *Loader) shift(name string) float32 {
	for suffix, v := range l.shifts {
		if strings.HasSuffix(name, suffix) {
			return v
		}
	}
	return 0
}

// Shape is a tensor's shape in the checkpoint, nil where there is none.
func (l *Loader) Shape(name string) []int {
	if t := l.tensors[name]; t != nil {
		return t.Shape
	}
	return nil
}

func (l *Loader) fail(name string, err error, format string, args ...any) {
	l.errs = append(l.errs, &TensorError{Name: name, Why: fmt.Sprintf(format, args...), Err: err})
}

// use marks a tensor as wanted; nil where there is none.
func (l *Loader) use(name string) *source {
	t := l.tensors[name]
	if t != nil {
		t.used = true
	}
	return t
}

// need is use of a tensor that must be there.
func (l *Loader) need(name string) *source {
	t := l.use(name)
	if t == nil {
		l.fail(name, ErrMissing, "the checkpoint has %d tensors", len(l.tensors))
	}
	return t
}

// unused complains of tensors that nobody asked for: a checkpoint that says
// more than its family understands would compute something else.
func (l *Loader) unused() error {
	var names []string
	for _, t := range l.tensors {
		if !t.used {
			names = append(names, t.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	more := ""
	if len(names) > 3 {
		more = fmt.Sprintf(" and %d more", len(names)-3)
	}
	return fmt.Errorf("%w: %s%s", ErrUnused, strings.Join(names[:min(3, len(names))], ", "), more)
}
