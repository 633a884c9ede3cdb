package index

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxHeader is the safetensors specification's bound on the JSON header.
const maxHeader = 100_000_000

// maxDims bounds a tensor's rank.
const maxDims = 8

// Tensor is where a tensor lies.
type Tensor struct {
	File   string // path
	Dtype  string // safetensors' name: "F32", "F16", "BF16", "U32", ...
	Shape  []int
	Offset int64 // in the file
	Size   int64 // bytes
}

// Count is the number of elements.
func (t Tensor) Count() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}

var dtypeBits = map[string]int64{
	"BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8,
	"U16": 16, "I16": 16, "F16": 16, "BF16": 16,
	"U32": 32, "I32": 32, "F32": 32,
	"U64": 64, "I64": 64, "F64": 64,
}

// readTensors fills Tensors from the shards that model.safetensors.index.json
// names, else from every safetensors file of the folder.
func (m *Model) readTensors() error {
	files, err := m.shards()
	if err != nil {
		return err
	}
	m.Tensors = map[string]Tensor{}
	for _, name := range files {
		path := filepath.Join(m.Folder, name)
		ts, err := ReadSafetensors(path)
		if errors.Is(err, fs.ErrNotExist) {
			m.Missing = append(m.Missing, name)
			continue
		}
		if err != nil {
			return err
		}
		for k, t := range ts {
			if first, dup := m.Tensors[k]; dup {
				return corrupt(path, "tensor %q is also in %s", k, filepath.Base(first.File))
			}
			m.Tensors[k] = t
		}
	}
	return nil
}

func (m *Model) shards() ([]string, error) {
	path := filepath.Join(m.Folder, "model.safetensors.index.json")
	data, err := readJSON(path)
	if err == nil {
		return parseShards(path, data)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	found, err := filepath.Glob(filepath.Join(globQuote(m.Folder), "model*.safetensors"))
	if err != nil || len(found) == 0 {
		return []string{"model.safetensors"}, nil // absent, and said so by its name
	}
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	return found, nil
}

func parseShards(path string, data []byte) ([]string, error) {
	var idx struct {
		Map map[string]string `json:"weight_map"`
	}
	if err := decode(path, data, &idx); err != nil {
		return nil, err
	}
	var files []string
	for tensor, f := range idx.Map {
		if f != filepath.Base(f) || f == "." || f == ".." {
			return nil, &FieldError{File: path, Field: "weight_map." + tensor, Why: "names a file outside the folder"}
		}
		if !slices.Contains(files, f) {
			files = append(files, f)
		}
	}
	slices.Sort(files)
	return files, nil
}

// globQuote makes a path match itself.
func globQuote(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}

// ReadSafetensors reads the table of one safetensors file and checks that
// the file holds all of it.
func ReadSafetensors(path string) (map[string]Tensor, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, corrupt(path, "is not a regular file")
	}
	return ParseSafetensors(path, f, st.Size())
}

// ParseSafetensors reads the table of a safetensors file of the given size
// (https://huggingface.co/docs/safetensors: 8 bytes of header length, the
// header in JSON, the data). The path goes into errors and into the tensors.
func ParseSafetensors(path string, r io.ReaderAt, size int64) (map[string]Tensor, error) {
	var lead [8]byte
	if size < int64(len(lead)) {
		return nil, truncated(path, "%d bytes, no room for a header", size)
	}
	if _, err := r.ReadAt(lead[:], 0); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(lead[:])
	if n > maxHeader {
		return nil, corrupt(path, "header of %d bytes, at most %d", n, maxHeader)
	}
	start := int64(len(lead)) + int64(n)
	if start > size {
		return nil, truncated(path, "header ends at byte %d of %d", start, size)
	}
	head := make([]byte, n)
	if _, err := r.ReadAt(head, int64(len(lead))); err != nil {
		return nil, err
	}
	return parseTable(path, head, start, size)
}

// entry is a tensor in the header.
type entry struct {
	Dtype   string  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int64 `json:"data_offsets"` // begin and end, from the end of the header
}

func parseTable(path string, head []byte, start, size int64) (map[string]Tensor, error) {
	var raw map[string]rawEntry
	if err := decode(path, head, &raw); err != nil {
		return nil, corrupt(path, "header: %v", err)
	}
	out := make(map[string]Tensor, len(raw))
	for name, e := range raw {
		if name == "__metadata__" {
			continue
		}
		t, err := e.tensor(path, name, start, size)
		if err != nil {
			return nil, err
		}
		out[name] = t
	}
	return out, overlaps(path, out)
}

// rawEntry puts off decoding: __metadata__ has another shape.
type rawEntry []byte

func (r *rawEntry) UnmarshalJSON(b []byte) error { *r = append((*r)[:0], b...); return nil }

func (r rawEntry) tensor(path, name string, start, size int64) (Tensor, error) {
	var e entry
	if err := decode(path, r, &e); err != nil {
		return Tensor{}, corrupt(path, "tensor %q: %v", name, err)
	}
	bits, ok := dtypeBits[e.Dtype]
	if !ok {
		return Tensor{}, corrupt(path, "tensor %q: dtype %q is not known", name, e.Dtype)
	}
	if len(e.Offsets) != 2 || e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0] || e.Offsets[1] > math.MaxInt64-start {
		return Tensor{}, corrupt(path, "tensor %q: data_offsets %v", name, e.Offsets)
	}
	shape, count, ok := product(e.Shape)
	if !ok || count > math.MaxInt64/bits || count*bits/8 != e.Offsets[1]-e.Offsets[0] {
		return Tensor{}, corrupt(path, "tensor %q: shape %v of %s in %d bytes", name, e.Shape, e.Dtype, e.Offsets[1]-e.Offsets[0])
	}
	if end := start + e.Offsets[1]; end > size {
		return Tensor{}, truncated(path, "tensor %q ends at byte %d of %d", name, end, size)
	}
	return Tensor{File: path, Dtype: e.Dtype, Shape: shape, Offset: start + e.Offsets[0], Size: e.Offsets[1] - e.Offsets[0]}, nil
}

// product is the number of elements of a shape, false where it is absurd.
func product(shape []int64) ([]int, int64, bool) {
	if len(shape) > maxDims {
		return nil, 0, false
	}
	out, n := make([]int, len(shape)), int64(1)
	for i, d := range shape {
		if d < 0 || d > math.MaxInt32 || d > 0 && n > math.MaxInt64/d {
			return nil, 0, false
		}
		out[i], n = int(d), n*d
	}
	return out, n, true
}

// overlaps refuses tensors that share bytes: no writer makes them.
func overlaps(path string, ts map[string]Tensor) error {
	names := make([]string, 0, len(ts))
	for n := range ts {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := ts[a].Offset - ts[b].Offset; d != 0 {
			return int(max(-1, min(1, d)))
		}
		return strings.Compare(a, b)
	})
	end := int64(0)
	for i, n := range names {
		if t := ts[n]; t.Offset < end && t.Size > 0 {
			return corrupt(path, "tensor %q overlaps %q", n, names[i-1])
		} else if t.Size > 0 {
			end = t.Offset + t.Size
		}
	}
	return nil
}
