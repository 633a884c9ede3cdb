package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// gguf writes GGUF files piece by piece.
type ggufWriter struct{ bytes.Buffer }

func (w *ggufWriter) put(vs ...any) *ggufWriter {
	for _, v := range vs {
		if s, ok := v.(string); ok {
			w.put(uint64(len(s)))
			w.WriteString(s)
			continue
		}
		if err := binary.Write(w, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	return w
}

func sampleGGUF() []byte {
	w := &ggufWriter{}
	w.WriteString("GGUF")
	w.put(uint32(3), uint64(2), uint64(7))
	w.put("name", uint32(ggufString), "tiny", "count", uint32(ggufU32), uint32(9), "flag", uint32(ggufBool), true, "eps", uint32(ggufF32), float32(0.5))
	w.put("words", uint32(ggufArray), uint32(ggufString), uint64(2), "a", "bc")
	w.put("kinds", uint32(ggufArray), uint32(ggufI32), uint64(3), []int32{1, -2, 3})
	w.put("bytes", uint32(ggufArray), uint32(ggufU8), uint64(2), []uint8{4, 5})
	w.put("a", uint32(2), []uint64{32, 2}, uint32(GGMLQ4_0), uint64(0), "b", uint32(1), []uint64{3}, uint32(GGMLF32), uint64(64))
	w.Write(make([]byte, (32-w.Len()%32)%32))
	w.Write(make([]byte, 76))
	return w.Bytes()
}

func TestGGUF(t *testing.T) {
	b := sampleGGUF()
	g, err := ParseGGUF("x", bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	meta := map[string]any{
		"name": "tiny", "count": uint32(9), "flag": true, "eps": float32(0.5), "words": []string{"a", "bc"}, "kinds": []int32{1, -2, 3}, "bytes": []any{uint8(4), uint8(5)},
	}
	if !reflect.DeepEqual(g.Meta, meta) {
		t.Errorf("metadata %v, want %v", g.Meta, meta)
	}
	data := int64(len(b) - 76)
	want := []GGUFTensor{{"a", GGMLQ4_0, []int{2, 32}, data, 36}, {"b", GGMLF32, []int{3}, data + 64, 12}}
	if !reflect.DeepEqual(g.Tensors, want) {
		t.Errorf("tensors %v, want %v", g.Tensors, want)
	}
}

func TestGGUFEveryTruncationIsAnError(t *testing.T) {
	b := sampleGGUF()
	for n := range len(b) {
		if _, err := ParseGGUF("x", bytes.NewReader(b[:n]), int64(n)); !errors.Is(err, ErrTruncated) {
			t.Fatalf("%d of %d bytes: %v", n, len(b), err)
		}
	}
}

func TestBadGGUF(t *testing.T) {
	start := func(version uint32, tensors, keys uint64) *ggufWriter {
		w := &ggufWriter{}
		w.WriteString("GGUF")
		return w.put(version, tensors, keys)
	}
	for want, w := range map[string]*ggufWriter{
		"not GGUF":               {*bytes.NewBufferString("GGML0123456789")},
		"version 9":              start(9, 0, 0),
		"tensors, at":            start(3, 1<<40, 0),
		"bytes of text":          start(3, 0, 1).put(uint64(1 << 40)),
		"type 77":                start(3, 0, 1).put("k", uint32(77)),
		"array of arrays":        start(3, 0, 1).put("k", uint32(ggufArray), uint32(ggufArray), uint64(1), uint32(ggufArray), uint64(0)),
		"ends within the header": start(3, 0, 1).put("k", uint32(ggufArray), uint32(ggufF64), uint64(1000)),
		"dimensions":             start(3, 1, 0).put("t", uint32(9)),
		"is not known":           start(3, 1, 0).put("t", uint32(1), uint64(1), uint32(200), uint64(0)),
		"shape":                  start(3, 1, 0).put("t", uint32(1), uint64(31), uint32(GGMLQ4_0), uint64(0)),
		"at offset":              start(3, 1, 0).put("t", uint32(1), uint64(32), uint32(GGMLQ4_0), uint64(1<<63)),
	} {
		_, err := ParseGGUF("x", bytes.NewReader(w.Bytes()), int64(w.Len()))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if s := GGMLType(12).String() + " " + GGMLType(99).String(); s != "Q4_K type 99" {
		t.Error(s)
	}
}

func FuzzGGUF(f *testing.F) {
	f.Add(sampleGGUF())
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := ParseGGUF("x", bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		for _, x := range g.Tensors {
			if x.Offset < 0 || x.Size < 0 || x.Offset+x.Size > int64(len(b)) {
				t.Errorf("%q lies at %d+%d of %d", x.Name, x.Offset, x.Size, len(b))
			}
		}
	})
}
