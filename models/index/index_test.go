package index

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// header is safetensors' header as a test writes it.
type tensors map[string]any

func blob(t testing.TB, head tensors, data int) []byte {
	t.Helper()
	h, err := json.Marshal(head)
	if err != nil {
		t.Fatal(err)
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(h)))
	return append(append(b, h...), make([]byte, data)...)
}

func entryOf(dtype string, begin, end int, shape ...int) object {
	if shape == nil {
		shape = []int{}
	}
	return object{"dtype": dtype, "shape": shape, "data_offsets": []int{begin, end}}
}

type object = map[string]any

// folder writes files into a fresh folder.
func folder(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const llama = `{"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,
"num_hidden_layers":2,"vocab_size":100,"max_position_embeddings":2048,"eos_token_id":[2,3],
"quantization":{"group_size":32,"bits":4,"mode":"affine","model.embed":{"group_size":64,"bits":8},"lm_head":false}}`

func TestInspect(t *testing.T) {
	dir := folder(t, map[string][]byte{
		"config.json":            []byte(llama),
		"generation_config.json": []byte(`{"eos_token_id":7}`),
		"tokenizer.json":         []byte(`{}`),
		"model.safetensors": blob(t, tensors{
			"__metadata__": object{"format": "mlx"},
			"a.weight":     entryOf("U32", 0, 64, 2, 8), "a.scales": entryOf("F16", 64, 72, 2, 2), "a.biases": entryOf("F16", 72, 80, 2, 2),
			"model.embed.weight": entryOf("U32", 80, 144, 1, 16), "model.embed.scales": entryOf("F16", 144, 146, 1, 1), "norm.weight": entryOf("BF16", 146, 154, 4),
		}, 154),
	})
	m, err := Inspect(dir, "qwen3", "llama")
	if err != nil {
		t.Fatal(err)
	}
	want := Facts{Parameters: 2*64 + 64 + 4, Bytes: 154, Layers: 2, Hidden: 64, Heads: 4, KVHeads: 2, HeadDim: 16, Vocab: 100, Context: 2048, Dtype: "BF16", EOS: []int32{7}}
	if !reflect.DeepEqual(m.Facts, want) {
		t.Errorf("facts\n%+v, want\n%+v", m.Facts, want)
	}
	if m.Type != "llama" || m.Architecture != "LlamaForCausalLM" || len(m.Missing) != 0 {
		t.Errorf("type %q, architecture %q, missing %v", m.Type, m.Architecture, m.Missing)
	}
	if err := m.WeightsComplete(); err != nil {
		t.Error(err)
	}
	if q, ok := m.Quant.For("anything"); !ok || q != (Quant{32, 4, "affine"}) {
		t.Errorf("default packing %v", q)
	}
	if q, ok := m.Quant.For("model.embed"); !ok || q != (Quant{64, 8, "affine"}) {
		t.Errorf("exception %v", q)
	}
	if _, ok := m.Quant.For("lm_head"); ok {
		t.Error("lm_head is not packed")
	}
}

func TestInspectTextPart(t *testing.T) {
	dir := folder(t, map[string][]byte{"config.json": []byte(`{"model_type":"qwen3_5","text_config":{"model_type":"qwen3_5_text","num_hidden_layers":7,"vocab_size":9}}`)})
	m, err := Inspect(dir)
	if err != nil || m.Type != "qwen3_5" || m.Layers != 7 || m.Vocab != 9 {
		t.Fatalf("%v: %+v", err, m)
	}
	if want := []string{"model.safetensors", "tokenizer.json"}; !reflect.DeepEqual(m.Missing, want) {
		t.Errorf("missing %v, want %v", m.Missing, want)
	}
	var inc *IncompleteError
	if err := m.WeightsComplete(); !errors.As(err, &inc) || !strings.Contains(err.Error(), "model.safetensors") {
		t.Errorf("got %v", err)
	}
}

func TestShards(t *testing.T) {
	files := map[string][]byte{
		"config.json":                  []byte(llama),
		"model.safetensors.index.json": []byte(`{"weight_map":{"a":"one.safetensors","b":"two.safetensors","c":"three.safetensors"}}`),
		"one.safetensors":              blob(t, tensors{"a": entryOf("F32", 0, 4, 1)}, 4),
		"two.safetensors":              blob(t, tensors{"b": entryOf("F32", 0, 4, 1)}, 4),
		"stray.safetensors":            []byte("not looked at"),
	}
	m, err := Inspect(folder(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Tensors) != 2 || !reflect.DeepEqual(m.Missing, []string{"three.safetensors", "tokenizer.json"}) {
		t.Errorf("%d tensors, missing %v", len(m.Tensors), m.Missing)
	}
	files["two.safetensors"] = files["one.safetensors"]
	if _, err := Inspect(folder(t, files)); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), `"a" is also in`) {
		t.Errorf("a tensor twice: %v", err)
	}
}

func TestBadFolders(t *testing.T) {
	good := blob(t, tensors{"a": entryOf("F32", 0, 400, 100)}, 400)
	for want, files := range map[string]map[string][]byte{
		"no config.json": {},
		`unknown architecture "gpt9" (known: llama, qwen3)`: {"config.json": []byte(`{"model_type":"gpt9"}`)},
		"model_type: is missing":                            {"config.json": []byte(`{}`)},
		"malformed JSON at line 2":                          {"config.json": []byte("{\"model_type\":\n oops}")},
		"unexpected end of JSON":                            {"config.json": []byte(`{"model_type":"llama"`)},
		"vocab_size: is a string":                           {"config.json": []byte(`{"model_type":"llama","vocab_size":"many"}`)},
		"quantization.bits: 7":                              {"config.json": []byte(`{"model_type":"llama","quantization":{"bits":7,"group_size":64}}`)},
		"quantization.group_size: 48":                       {"config.json": []byte(`{"model_type":"llama","quantization":{"bits":4,"group_size":48}}`)},
		"quantization.x.mode":                               {"config.json": []byte(`{"model_type":"llama","quantization":{"bits":4,"group_size":64,"x":{"mode":"q9"}}}`)},
		`quantization_config.quant_method: "gptq"`:          {"config.json": []byte(`{"model_type":"llama","quantization_config":{"quant_method":"gptq","bits":4,"group_size":128}}`)},
		"model.safetensors: file is truncated":              {"config.json": []byte(llama), "model.safetensors": good[:len(good)-1]},
		"header ends at byte":                               {"config.json": []byte(llama), "model.safetensors": good[:20]},
		"names a file outside":                              {"config.json": []byte(llama), "model.safetensors.index.json": []byte(`{"weight_map":{"a":"../x.safetensors"}}`)},
		"eos_token_id":                                      {"config.json": []byte(llama), "generation_config.json": []byte(`{"eos_token_id":"end"}`)},
	} {
		_, err := Inspect(folder(t, files), "llama", "qwen3")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestBadHeaders(t *testing.T) {
	for want, b := range map[string][]byte{
		"no room for a header": {1, 2},
		"at most":              {0, 0, 0, 0, 0, 0, 0, 1},
		"header:":              append([]byte{2, 0, 0, 0, 0, 0, 0, 0}, "[]"...),
		"dtype":                blob(t, tensors{"a": entryOf("F128", 0, 4, 1)}, 4),
		"data_offsets":         blob(t, tensors{"a": entryOf("F32", 8, 4, 1)}, 8),
		"shape":                blob(t, tensors{"a": entryOf("F32", 0, 4, 2)}, 4),
		"-1":                   blob(t, tensors{"a": entryOf("F32", 0, 4, -1)}, 4),
		"1099511627776":        blob(t, tensors{"a": entryOf("F32", 0, 0, 1<<40, 1<<40)}, 4),
		"overlaps":             blob(t, tensors{"a": entryOf("F32", 0, 8, 2), "b": entryOf("F32", 4, 8, 1)}, 8),
		"ends at byte":         blob(t, tensors{"a": entryOf("F32", 0, 8, 2)}, 4),
	} {
		_, err := ParseSafetensors("x", strings.NewReader(string(b)), int64(len(b)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func FuzzSafetensors(f *testing.F) {
	f.Add(blob(f, tensors{"a": entryOf("F32", 0, 8, 2), "__metadata__": object{"k": "v"}}, 8))
	f.Add(blob(f, tensors{"a": entryOf("F32", 0, 0), "b": entryOf("U8", 0, 3, 3)}, 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		ts, err := ParseSafetensors("x", strings.NewReader(string(b)), int64(len(b)))
		if err != nil {
			return
		}
		for name, x := range ts {
			if x.Offset < 8 || x.Size < 0 || x.Offset+x.Size > int64(len(b)) || x.Count() < 0 {
				t.Errorf("%q lies at %d+%d of %d", name, x.Offset, x.Size, len(b))
			}
		}
	})
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(llama))
	f.Add([]byte(`{"model_type":"x","text_config":{},"quantization_config":{"a":{}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.json"), b, 0o644); err != nil {
			t.Fatal(err)
		}
		if m, err := Inspect(dir, "llama"); err == nil && m.Type != "llama" {
			t.Errorf("accepted %q", m.Type)
		}
	})
}
