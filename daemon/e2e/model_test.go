package e2e

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// tiny are the files of a model that an index takes for one; only the fake
// runner loads it.
func tiny() map[string][]byte {
	head, err := json.Marshal(map[string]any{"w": map[string]any{"dtype": "F32", "shape": []int{2}, "data_offsets": []int{0, 8}}})
	if err != nil {
		panic(err)
	}
	weights := binary.LittleEndian.AppendUint64(nil, uint64(len(head)))
	weights = append(append(weights, head...), make([]byte, 8)...)
	return map[string][]byte{
		"config.json": []byte(`{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1, "hidden_size": 8,
			"num_attention_heads": 1, "vocab_size": 256, "max_position_embeddings": 4096}`),
		"model.safetensors": weights,
		"tokenizer.json":    []byte("{}"),
	}
}

func cmdModel(ts *testscript.TestScript, _ bool, args []string) {
	name := args[0]
	if !strings.Contains(name, "/") {
		name = "local/" + name
	}
	folder := filepath.Join(ts.Getenv("INGOT_HOME"), "models", filepath.FromSlash(name))
	ts.Check(os.MkdirAll(folder, 0o700))
	files := tiny()
	for _, f := range args[1:] {
		if lacking, ok := strings.CutPrefix(f, "-"); ok {
			delete(files, lacking)
			continue
		}
		files[filepath.Base(f)] = []byte(ts.ReadFile(f))
	}
	for f, body := range files {
		ts.Check(os.WriteFile(filepath.Join(folder, f), body, 0o600))
	}
}

// cmdStarter puts the starter model into the catalogue, by a link.
func cmdStarter(ts *testscript.TestScript, _ bool, _ []string) {
	made, err := starterFolder()
	ts.Check(err)
	local := filepath.Join(ts.Getenv("INGOT_HOME"), "models", "local")
	ts.Check(os.MkdirAll(local, 0o700))
	ts.Check(os.Symlink(made, filepath.Join(local, starterName)))
}
