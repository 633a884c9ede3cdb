package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ingot/models/index"
)

const (
	starter   = "../../.deps/starter/SmolLM2-135M-Instruct.Q4_1.gguf"
	reference = "../../.deps/ref/bin/python"
)

// The starter model, tensor for tensor, is what MLX's own GGUF reader makes
// of it.
func TestImportStarterAgreesWithMLX(t *testing.T) {
	dir := t.TempDir()
	ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
	if err := ImportGGUF(starter, ours); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(reference, "testdata/mksmol.py", starter, theirs).CombinedOutput(); err != nil {
		t.Fatalf("reference: %v\n%s", err, out)
	}
	sameTensors(t, filepath.Join(ours, "model.safetensors"), filepath.Join(theirs, "model.safetensors"))
	for _, name := range []string{"config.json", "generation_config.json", "tokenizer.json"} {
		if a, b := readAny(t, filepath.Join(ours, name)), readAny(t, filepath.Join(theirs, name)); !reflect.DeepEqual(a, b) {
			t.Errorf("%s differs from the reference", name)
		}
	}
	m, err := index.Inspect(ours, "llama")
	if err != nil || len(m.Missing) > 0 || m.Parameters != 134515008 {
		t.Errorf("inspect: %v, missing %v, %d parameters", err, m.Missing, m.Parameters)
	}
}

func readAny(t *testing.T, path string) any {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

func sameTensors(t *testing.T, a, b string) {
	t.Helper()
	ta, errA := index.ReadSafetensors(a)
	tb, errB := index.ReadSafetensors(b)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if len(ta) != len(tb) {
		t.Errorf("%d tensors, want %d", len(ta), len(tb))
	}
	for name, want := range tb {
		got, ok := ta[name]
		if !ok || got.Dtype != want.Dtype || !reflect.DeepEqual(got.Shape, want.Shape) {
			t.Errorf("%s: %s %v, want %s %v", name, got.Dtype, got.Shape, want.Dtype, want.Shape)
			continue
		}
		if !bytes.Equal(content(t, got), content(t, want)) {
			t.Errorf("%s: bytes differ", name)
		}
	}
}

func content(t *testing.T, x index.Tensor) []byte {
	t.Helper()
	f, err := os.Open(x.File)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, x.Size)
	if _, err := f.ReadAt(b, x.Offset); err != nil {
		t.Fatal(err)
	}
	return b
}

// ggufFile writes small GGUF files.
type ggufFile struct{ meta, table, data bytes.Buffer }

func (g *ggufFile) text(b *bytes.Buffer, s string) {
	_ = binary.Write(b, binary.LittleEndian, uint64(len(s)))
	b.WriteString(s)
}

func (g *ggufFile) put(b *bytes.Buffer, vs ...any) {
	for _, v := range vs {
		_ = binary.Write(b, binary.LittleEndian, v)
	}
}

func (g *ggufFile) tensor(name string, kind uint32, data []byte, dims ...uint64) {
	g.text(&g.table, name)
	g.put(&g.table, uint32(len(dims)), dims, kind, uint64(g.data.Len()))
	g.data.Write(data)
	g.data.Write(make([]byte, (32-g.data.Len()%32)%32))
}

func (g *ggufFile) write(t *testing.T, tensors int, meta ...any) string {
	t.Helper()
	for i := 0; i < len(meta); i += 2 {
		g.text(&g.meta, meta[i].(string))
		switch v := meta[i+1].(type) {
		case string:
			g.put(&g.meta, uint32(8))
			g.text(&g.meta, v)
		case uint32:
			g.put(&g.meta, uint32(4), v)
		case []string:
			g.put(&g.meta, uint32(9), uint32(8), uint64(len(v)))
			for _, s := range v {
				g.text(&g.meta, s)
			}
		}
	}
	var out bytes.Buffer
	out.WriteString("GGUF")
	g.put(&out, uint32(3), uint64(tensors), uint64(len(meta)/2))
	out.Write(g.meta.Bytes())
	out.Write(g.table.Bytes())
	out.Write(make([]byte, (32-out.Len()%32)%32))
	out.Write(g.data.Bytes())
	path := filepath.Join(t.TempDir(), "x.gguf")
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// tinyMeta is enough of a llama model for the importer.
func tinyMeta(change ...any) []any {
	m := []any{
		"general.architecture", "llama", "llama.embedding_length", uint32(32), "llama.feed_forward_length", uint32(32),
		"llama.block_count", uint32(1), "llama.attention.head_count", uint32(1), "llama.context_length", uint32(64),
		"tokenizer.ggml.model", "gpt2", "tokenizer.ggml.pre", "smollm", "tokenizer.ggml.tokens", []string{"a", "b", "ab"},
		"tokenizer.ggml.merges", []string{"a b"},
	}
	return append(m, change...)
}

func TestImportRefusesByName(t *testing.T) {
	for want, make := range map[string]func(g *ggufFile) []any{
		`architecture "gemma"`: func(*ggufFile) []any { return []any{"general.architecture", "gemma"} },
		"token_embd.weight: type Q6_K": func(g *ggufFile) []any {
			g.tensor("token_embd.weight", 14, bytes.Repeat([]byte{1}, 210), 256, 1)
			return tinyMeta()
		},
		"tensor blk.0.attn_sinks.weight": func(g *ggufFile) []any {
			g.tensor("blk.0.attn_sinks.weight", 0, bytes.Repeat([]byte{1}, 4), 1)
			return tinyMeta()
		},
		`tokenizer "llama"`:      func(*ggufFile) []any { return tinyMeta("tokenizer.ggml.model", "llama") },
		`pre-tokenizer "viking"`: func(*ggufFile) []any { return tinyMeta("tokenizer.ggml.pre", "viking") },
		`rope scaling "yarn"`:    func(*ggufFile) []any { return tinyMeta("llama.rope.scaling.type", "yarn") },
	} {
		g := &ggufFile{}
		metas := make(g)
		tensors := 0
		if g.table.Len() > 0 {
			tensors = 1
		}
		dst := filepath.Join(t.TempDir(), "out")
		err := ImportGGUF(g.write(t, tensors, metas...), dst)
		var u *UnsupportedError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q refused, got %v", want, err)
		}
		left, _ := os.ReadDir(filepath.Dir(dst))
		if len(left) != 0 {
			t.Errorf("%s: left %v behind", want, left)
		}
	}
}

func TestImportKeepsWhatIsThere(t *testing.T) {
	if err := ImportGGUF(starter, t.TempDir()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
}

// A head of four rows in GGUF's order 0 2 1 3 comes back as 0 1 2 3: rows
// that form a pair lie side by side there, in two halves here.
func TestRotaryRowsComeBackInHalves(t *testing.T) {
	s := &stored{GGUFTensor: index.GGUFTensor{Shape: []int{8, 1}, Size: 8}, heads: 2}
	var got []byte
	for h := range 2 {
		src := []byte{0, 2, 1, 3}
		for i := range src {
			src[i] += byte(4 * h)
		}
		got = append(got, s.pack(src, 4*h, 4, 1)[0]...)
	}
	if want := []byte{0, 1, 2, 3, 4, 5, 6, 7}; !bytes.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTimesPower(t *testing.T) {
	for _, c := range []struct {
		in   uint16
		n    int
		want uint16
	}{
		{0x3c00, 3, 0xc800}, // 1 -> -8
		{0xbc00, 7, 0x5800}, // -1 -> 128
		{0x0000, 3, 0x8000}, // 0 -> -0
		{0x7bff, 7, 0xfc00}, // overflow
		{0x7c00, 3, 0xfc00}, // infinity
		{0x0001, 3, 0x8008}, // subnormal stays one
		{0x0001, 7, 0x8080},
		{0x0200, 3, 0x8c00}, // 2^-15 -> 2^-12
		{0x03ff, 7, 0x9ffc + 2},
	} {
		if got := timesPower(c.in, c.n); got != c.want {
			t.Errorf("timesPower(%#04x, %d) = %#04x, want %#04x", c.in, c.n, got, c.want)
		}
	}
}
