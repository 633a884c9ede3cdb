package weights

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingot/models/index"
	"ingot/runtime/mlx"
)

var dev *mlx.Device

func TestMain(m *testing.M) {
	var err error
	if dev, err = mlx.Open(mlx.Options{Kind: mlx.CPU}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := dev.Close(); err != nil {
		code = 1
	}
	os.Exit(code)
}

// on runs f on the device thread and checks that it leaves nothing.
func on(t *testing.T, f func() error) {
	t.Helper()
	handles := dev.Handles()
	if err := dev.Do(f); err != nil {
		t.Fatal(err)
	}
	if dev.Handles() != handles {
		t.Errorf("left %d handles", dev.Handles()-handles)
	}
}

// file is a safetensors file in the making; elements are float32 numbers
// counting from the tensor's first.
type file struct {
	head map[string]any
	data []byte
}

func (f *file) put(name, dtype string, first int, shape ...int) {
	if f.head == nil {
		f.head = map[string]any{}
	}
	begin, n := len(f.data), 1
	for _, d := range shape {
		n *= d
	}
	for i := range n {
		bits := math.Float32bits(float32(first + i))
		switch dtype {
		case "F32":
			f.data = binary.LittleEndian.AppendUint32(f.data, bits)
		case "F16":
			f.data = binary.LittleEndian.AppendUint16(f.data, toHalf(bits))
		case "BF16":
			f.data = binary.LittleEndian.AppendUint16(f.data, toBrain(bits))
		case "U32":
			f.data = binary.LittleEndian.AppendUint32(f.data, uint32(first+i))
		case "F64":
			f.data = binary.LittleEndian.AppendUint64(f.data, math.Float64bits(float64(first+i)))
		}
	}
	f.head[name] = map[string]any{"dtype": dtype, "shape": shape, "data_offsets": []int{begin, len(f.data)}}
}

// model writes the file as a model of one shard.
func (f *file) model(t *testing.T, config string) *index.Model {
	t.Helper()
	dir := t.TempDir()
	head, err := json.Marshal(f.head)
	if err != nil {
		t.Fatal(err)
	}
	b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...)
	for name, body := range map[string][]byte{"model.safetensors": append(b, f.data...), "config.json": []byte(config)} {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, err := index.Inspect(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const plain = `{"model_type":"x"}`

// floats reads an array back.
func floats(t *testing.T, a *mlx.Array) []float32 {
	t.Helper()
	v := make([]float32, a.Size())
	if err := a.Float32s(v); err != nil {
		t.Fatal(err)
	}
	return v
}

func upTo(from, n int) (out []float32) {
	for i := range n {
		out = append(out, float32(from+i))
	}
	return out
}

func TestPartsLieSideBySide(t *testing.T) {
	f := &file{}
	f.put("q.weight", "F16", 0, 2, 3)
	f.put("k.weight", "BF16", 100, 1, 3)
	f.put("k.bias", "F32", 50, 1)
	f.put("norm", "F32", 7, 4)
	m := f.model(t, plain)
	on(t, func() error {
		l := NewLoader(dev, m, nil)
		qk := l.Linear(3, Part{Name: "q", Out: 2}, Part{Name: "k", Out: 1})
		norm := l.Vector("norm", 4)
		var heard []float64
		set, err := l.Load(func(p float64) { heard = append(heard, p) })
		if err != nil {
			return err
		}
		defer set.Close()
		if got := floats(t, qk.W); !slices.Equal(got, append(upTo(0, 6), upTo(100, 3)...)) || qk.Packed() || qk.Out != 3 {
			t.Errorf("weight %v", got)
		}
		if got := floats(t, qk.Bias); !slices.Equal(got, []float32{0, 0, 50}) {
			t.Errorf("bias %v", got)
		}
		if got := floats(t, norm); !slices.Equal(got, upTo(7, 4)) {
			t.Errorf("norm %v", got)
		}
		if set.Tensors() != 3 || set.Bytes != 4*(9+3+4) {
			t.Errorf("%d tensors, %d bytes", set.Tensors(), set.Bytes)
		}
		if len(heard) == 0 || heard[len(heard)-1] != 1 || !slices.IsSorted(heard) {
			t.Errorf("progress %v", heard)
		}
		return nil
	})
}

func TestGroupsAreTakenApart(t *testing.T) {
	f := &file{}
	f.put("in.weight", "F32", 0, 6, 2) // two groups of [a, b, b]
	m := f.model(t, plain)
	on(t, func() error {
		l := NewLoader(dev, m, nil)
		w := l.Linear(2, Part{Name: "in", Out: 2, Groups: 2, Width: 3}, Part{Name: "in", Out: 4, Groups: 2, Width: 3, At: 1})
		set, err := l.Load(func(float64) {})
		if err != nil {
			return err
		}
		defer set.Close()
		if got := floats(t, w.W); !slices.Equal(got, []float32{0, 1, 6, 7, 2, 3, 4, 5, 8, 9, 10, 11}) {
			t.Errorf("weight %v", got)
		}
		return nil
	})
}

func TestExpertsAreJoinedOneByOne(t *testing.T) {
	f := &file{}
	f.put("gate.weight", "F32", 0, 2, 1, 2)
	f.put("up.weight", "F32", 100, 2, 2, 2)
	m := f.model(t, plain)
	on(t, func() error {
		l := NewLoader(dev, m, nil)
		w := l.Experts(2, 2, Part{Name: "gate", Out: 1}, Part{Name: "up", Out: 2})
		set, err := l.Load(func(float64) {})
		if err != nil {
			return err
		}
		defer set.Close()
		want := []float32{0, 1, 100, 101, 102, 103, 2, 3, 104, 105, 106, 107}
		if got := floats(t, w.W); !slices.Equal(got, want) || !slices.Equal(w.W.Shape(), []int{2, 3, 2}) {
			t.Errorf("weight %v %v", w.W.Shape(), got)
		}
		return nil
	})
}

func TestExpertsThatLieApart(t *testing.T) {
	f := &file{}
	for e := range 2 {
		f.put(fmt.Sprintf("%d.gate.weight", e), "F32", 10*e, 1, 2)
		f.put(fmt.Sprintf("%d.up.weight", e), "F16", 100+10*e, 1, 2)
	}
	m := f.model(t, plain)
	on(t, func() error {
		l := NewLoader(dev, m, nil)
		w := l.Stacked(2, 2, func(e int) []Part {
			return []Part{{Name: fmt.Sprintf("%d.gate", e), Out: 1}, {Name: fmt.Sprintf("%d.up", e), Out: 1}}
		})
		set, err := l.Load(func(float64) {})
		if err != nil {
			return err
		}
		defer set.Close()
		if got := floats(t, w.W); !slices.Equal(got, []float32{0, 1, 100, 101, 10, 11, 110, 111}) {
			t.Errorf("weight %v", got)
		}
		return nil
	})
}

func TestPackedKeepsTheFilesScales(t *testing.T) {
	f := &file{}
	for _, n := range []string{"a", "b"} {
		f.put(n+".weight", "U32", 1, 2, 8)
		f.put(n+".scales", "BF16", 1, 2, 2)
		f.put(n+".biases", "BF16", 1, 2, 2)
	}
	m := f.model(t, `{"model_type":"x","quantization":{"group_size":32,"bits":4,"file.b":{"group_size":32,"bits":4},"b":{"group_size":64,"bits":2}}}`)
	on(t, func() error {
		l := NewLoader(dev, m, nil)
		a := l.Linear(64, Part{Name: "a", Out: 2})
		b := l.Linear(128, Part{Name: "b", Out: 2})
		if l.Alike("a", "b") || !l.Alike("a", "a") {
			t.Error("a and b are packed differently")
		}
		set, err := l.Load(func(float64) {})
		if err != nil {
			return err
		}
		defer set.Close()
		if !a.Packed() || a.W.Dtype() != mlx.Uint32 || a.Scales.Dtype() != mlx.BFloat16 || a.Biases.Dtype() != mlx.BFloat16 {
			t.Errorf("%v %v %v", a.W, a.Scales, a.Biases)
		}
		if b.Quant.Bits != 2 || b.Quant.Group != 64 {
			t.Errorf("exception %+v", b.Quant)
		}
		return nil
	})
}

func TestRename(t *testing.T) {
	rules := []Rule{{Prefix: "vision.", Skip: true}, {Suffix: ".inv_freq", Skip: true}, {Prefix: "model.text.", To: "text."}, {Suffix: ".gate_up", To: ".joined.weight"}}
	for in, want := range map[string]string{
		"vision.a": "", "x.inv_freq": "", "model.text.inv_freq": "", "model.text.b": "text.b", "other": "other", "model.text.gate_up": "text.joined.weight",
	} {
		got, ok := Rename(rules, in)
		if ok && got != want || ok != (want != "") {
			t.Errorf("%s became %q, %v", in, got, ok)
		}
	}
}

func TestRulesAndShift(t *testing.T) {
	f := &file{}
	f.put("old.norm", "F32", 1, 3)
	f.put("old.conv", "F32", 1, 2, 1, 2)
	f.put("vision.w", "F64", 1, 3)
	m := f.model(t, plain)
	on(t, func() error {
		l := NewLoader(dev, m, []Rule{{Prefix: "vision.", Skip: true}, {Prefix: "old.", To: "new."}})
		l.Shift(1, ".norm")
		norm := l.Vector("new.norm", 3)
		conv := l.Flat("new.conv", mlx.Float32, []int{2, 2}, []int{2, 2, 1}, []int{2, 1, 2})
		if got := l.Shape("new.conv"); !slices.Equal(got, []int{2, 2}) || l.Shape("none") != nil {
			t.Errorf("shape %v", got)
		}
		set, err := l.Load(func(float64) {})
		if err != nil {
			return err
		}
		defer set.Close()
		if got := floats(t, norm); !slices.Equal(got, upTo(2, 3)) {
			t.Errorf("norm %v", got)
		}
		if got := floats(t, conv); !slices.Equal(got, upTo(1, 4)) {
			t.Errorf("conv %v", got)
		}
		return nil
	})
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	for _, c := range []struct {
		name string
		want error
		text string
		ask  func(l *Loader)
	}{
		{"missing", ErrMissing, "gone.weight", func(l *Loader) { l.Linear(3, Part{Name: "gone", Out: 2}) }},
		{"shape", ErrShape, "a.weight: tensor has the wrong shape: [2 3], want [2 4]", func(l *Loader) { l.Linear(4, Part{Name: "a", Out: 2}) }},
		{"type", ErrDtype, "wide", func(l *Loader) { l.Linear(3, Part{Name: "a", Out: 2}); l.Vector("wide", 1) }},
		{"unused", ErrUnused, "wide", func(l *Loader) { l.Linear(3, Part{Name: "a", Out: 2}) }},
		{"integers", ErrDtype, "a.weight", func(l *Loader) { l.Typed("a.weight", mlx.Uint32, 2, 3); l.Vector("wide", 1) }},
	} {
		f := &file{}
		f.put("a.weight", "F32", 0, 2, 3)
		f.put("wide", "F64", 0, 1)
		m := f.model(t, plain)
		on(t, func() error {
			l := NewLoader(dev, m, nil)
			c.ask(l)
			_, err := l.Load(func(float64) {})
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: %v", c.name, err)
			}
			return nil
		})
	}
}

func TestFilesThatChangeUnderneath(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"truncated": func(p string) error { return os.Truncate(p, 100) },
		"removed":   os.Remove,
	} {
		f := &file{}
		f.put("a", "F32", 0, 1000)
		m := f.model(t, plain)
		if err := spoil(filepath.Join(m.Folder, "model.safetensors")); err != nil {
			t.Fatal(err)
		}
		on(t, func() error {
			l := NewLoader(dev, m, nil)
			l.Vector("a", 1000)
			if _, err := l.Load(func(float64) {}); err == nil || !strings.Contains(err.Error(), "model.safetensors") {
				t.Errorf("%s: %v", name, err)
			}
			return nil
		})
	}
}

func TestReadFailsMidway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(path, make([]byte, 10), 0o644); err != nil {
		t.Fatal(err)
	}
	var reads []read
	for i := range 100 {
		reads = append(reads, read{file: path, offset: int64(i), n: 4, dst: make([]byte, 4)})
	}
	if err := run(reads, func(float64) {}); err == nil || !strings.Contains(err.Error(), "short at") {
		t.Errorf("got %v", err)
	}
}

func TestAllocationFails(t *testing.T) {
	f := &file{}
	f.put("a", "F32", 0, 10)
	f.put("b", "F32", 0, 10)
	m := f.model(t, plain)
	on(t, func() error {
		l := NewLoader(dev, m, nil)
		l.Vector("a", 10)
		l.Vector("b", 10)
		l.Beside(mlx.Float16, 3)
		dev.Ledger().FailAt(2)
		defer dev.Ledger().FailAt(0)
		_, err := l.Load(func(float64) {})
		var room *RoomError
		if !errors.Is(err, mlx.ErrResourceLimit) || !errors.As(err, &room) {
			t.Fatalf("got %v", err)
		}
		if buffers, bytes := room.Needs(); buffers != 3 || bytes != 86 {
			t.Errorf("needs %d buffers, %d bytes", buffers, bytes)
		}
		return nil
	})
}

// A tensor of many reads comes out whole, widened or not.
func TestManyReads(t *testing.T) {
	const n = maxRead/2 + 1237
	f := &file{}
	f.put("wide", "F32", 0, n)
	f.put("half", "BF16", 0, n)
	m := f.model(t, plain)
	on(t, func() error {
		l := NewLoader(dev, m, nil)
		wide, half := l.Vector("wide", n), l.Vector("half", n)
		set, err := l.Load(func(float64) {})
		if err != nil {
			return err
		}
		defer set.Close()
		w, h := floats(t, wide), floats(t, half)
		for i := range n {
			if want := float32(i); w[i] != want || h[i] != math.Float32frombits(uint32(toBrain(math.Float32bits(want)))<<16) {
				t.Fatalf("element %d is %v and %v", i, w[i], h[i])
			}
		}
		return nil
	})
}
