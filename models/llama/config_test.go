package llama_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/models"
	"ingot/models/modeltest"
)

// edited copies a checkpoint with other values in its config; nil removes a
// key.
func edited(t *testing.T, folder string, change map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	data, err := os.ReadFile(filepath.Join(folder, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	for k, v := range change {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	if data, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	weights, err := filepath.Abs(filepath.Join(folder, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(weights, filepath.Join(dir, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, folder string) (models.Info, error) {
	t.Helper()
	dev := modeltest.Device()
	handles := dev.Handles()
	var info models.Info
	err := dev.Do(func() error {
		m, err := models.Open(dev, folder, models.Options{})
		if err == nil {
			info = m.Info()
			m.Close()
		}
		return err
	})
	if dev.Handles() != handles {
		t.Errorf("left %d handles", dev.Handles()-handles)
	}
	return info, err
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	tiny := modeltest.Tiny(t, "llama", "--seed", "1")
	for want, change := range map[string]map[string]any{
		"hidden_size: 0":                       {"hidden_size": nil},
		"hidden_size: is a string":             {"hidden_size": "wide"},
		"num_key_value_heads: 3 does not":      {"num_key_value_heads": 3},
		"layer_types: 1 entries for 4":         {"layer_types": []string{"full_attention"}},
		`layer_types[1]: "odd"`:                {"layer_types": []string{"full_attention", "odd", "full_attention", "full_attention"}},
		"sliding_window: 0":                    {"layer_types": []string{"sliding_attention", "full_attention", "full_attention", "full_attention"}},
		`rope_scaling: type "dynamic"`:         {"rope_scaling": map[string]any{"type": "dynamic", "factor": 2}},
		"vocab_size: 0":                        {"vocab_size": nil},
		"embed_tokens.weight: tensor has":      {"vocab_size": 513},
		"model.layers.4":                       {"num_hidden_layers": 5},
		"tensors of no known use: model.layer": {"num_hidden_layers": 3},
	} {
		if _, err := open(t, edited(t, tiny, change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	tiny := modeltest.Tiny(t, "llama", "--seed", "1")
	info, err := open(t, edited(t, tiny, map[string]any{"rope_theta": nil, "rope_parameters": map[string]any{"rope_theta": 5e5, "rope_type": "default"}, "eos_token_id": []int{2, 3}}))
	if err != nil {
		t.Fatal(err)
	}
	if info.Layers != 4 || info.Vocab != 512 || len(info.EOS) != 2 || len(info.Kinds) != 4 || info.Kinds[0].String() != "append" || info.Weights == 0 {
		t.Errorf("%+v", info)
	}
	// A tied file may repeat the embedding as lm_head: it is left out.
	if _, err := open(t, edited(t, tiny, map[string]any{"tie_word_embeddings": true})); err != nil {
		t.Error(err)
	}
	// Every layer of the first Mistral slides, without layer_types.
	info, err = open(t, edited(t, tiny, map[string]any{"model_type": "mistral", "sliding_window": 64}))
	if err != nil || info.Kinds[3].String() != "windowed" {
		t.Errorf("%v %v", info.Kinds, err)
	}
}
