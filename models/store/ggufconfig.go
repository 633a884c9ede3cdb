package store

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
)

// ggufConfig is config.json in the making.
type ggufConfig struct {
	json             map[string]any
	heads, kv, vocab int
	bos, eos, pad    int // -1: none
}

// config translates the metadata of a llama model.
func (g *ggufImport) config() (*ggufConfig, error) {
	if arch, _ := meta[string](g.GGUF, "general.architecture"); arch != "llama" {
		return nil, g.unsupported("architecture %q (known: llama)", arch)
	}
	c := &ggufConfig{json: map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "torch_dtype": "float16",
		"tie_word_embeddings": !g.has("output.weight"),
	}}
	for field, key := range map[string]string{
		"hidden_size": "llama.embedding_length", "intermediate_size": "llama.feed_forward_length", "num_hidden_layers": "llama.block_count",
		"num_attention_heads": "llama.attention.head_count", "max_position_embeddings": "llama.context_length",
	} {
		n, err := g.must(key)
		if err != nil {
			return nil, err
		}
		c.json[field] = n
	}
	c.heads = c.json["num_attention_heads"].(int)
	c.kv = c.heads
	if n, ok := number(g.GGUF, "llama.attention.head_count_kv"); ok {
		c.kv = n
	}
	if n, ok := number(g.GGUF, "llama.attention.key_length"); ok {
		c.json["head_dim"] = n
	}
	toks, _ := meta[[]string](g.GGUF, "tokenizer.ggml.tokens")
	c.vocab = len(toks)
	c.json["num_key_value_heads"], c.json["vocab_size"] = c.kv, c.vocab
	c.json["rms_norm_eps"] = shortest(g, "llama.attention.layer_norm_rms_epsilon", 1e-5)
	c.json["rope_theta"] = shortest(g, "llama.rope.freq_base", 10000)
	c.specials(g)
	return c, c.scaling(g)
}

// scaling refuses what would silently compute something else.
func (c *ggufConfig) scaling(g *ggufImport) error {
	if g.has("rope_freqs.weight") {
		return g.unsupported("tensor rope_freqs.weight: rotary frequency factors")
	}
	switch kind, _ := meta[string](g.GGUF, "llama.rope.scaling.type"); kind {
	case "", "none":
		return nil
	case "linear":
		c.json["rope_scaling"] = map[string]any{"rope_type": "linear", "factor": shortest(g, "llama.rope.scaling.factor", 1)}
		return nil
	default:
		return g.unsupported("rope scaling %q", kind)
	}
}

func (c *ggufConfig) specials(g *ggufImport) {
	id := func(field, key string) int {
		n, ok := number(g.GGUF, key)
		if !ok || n >= c.vocab {
			return -1
		}
		c.json[field] = n
		return n
	}
	c.bos = id("bos_token_id", "tokenizer.ggml.bos_token_id")
	c.eos = id("eos_token_id", "tokenizer.ggml.eos_token_id")
	c.pad = id("pad_token_id", "tokenizer.ggml.padding_token_id")
}

func (c *ggufConfig) generation() map[string]any {
	out := map[string]any{}
	for _, k := range []string{"bos_token_id", "eos_token_id"} {
		if v, ok := c.json[k]; ok {
			out[k] = v
		}
	}
	return out
}

// setQuantization writes the commonest packing as the default and every
// other by the module's name.
func (c *ggufConfig) setQuantization(plan []*stored) {
	count := map[int]int{}
	for _, t := range plan {
		if t.bits > 0 {
			count[t.bits]++
		}
	}
	if len(count) == 0 {
		return
	}
	bits := 4
	if count[8] > count[4] {
		bits = 8
	}
	q := map[string]any{"group_size": 32, "bits": bits}
	for _, t := range plan {
		if t.bits > 0 && t.bits != bits {
			q[strings.TrimSuffix(t.name, ".weight")] = map[string]any{"group_size": 32, "bits": t.bits}
		}
	}
	c.json["quantization"] = q
}

// shortest is a float32 of the metadata in its fewest digits: 1e-05, not
// 9.999999747378752e-06.
func shortest(g *ggufImport, key string, def float64) float64 {
	v, ok := meta[float32](g.GGUF, key)
	if !ok {
		return def
	}
	f, err := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', -1, 32), 64)
	if err != nil {
		return def
	}
	return f
}

func (g *ggufImport) has(tensor string) bool {
	for i := range g.Tensors {
		if g.Tensors[i].Name == tensor {
			return true
		}
	}
	return false
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
