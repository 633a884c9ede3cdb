package store

import "strings"

// ggml's kinds of tokens.
const (
	ggmlControl = 3 // never text
	ggmlUser    = 4 // text that is one token
)

// Splitters before byte-pair encoding, as regular expressions of the
// tokenizers crate, by GGUF's name of them. "" is byte level's own.
var preTokenizers = map[string]string{
	"":          "",
	"default":   "",
	"gpt-2":     "",
	"smollm":    "digits",
	"llama-bpe": `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	"qwen2":     `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
}

type object = map[string]any

// tokenizer is tokenizer.json of a byte-level byte-pair encoder.
func (g *ggufImport) tokenizer() (object, error) {
	if kind, _ := meta[string](g.GGUF, "tokenizer.ggml.model"); kind != "gpt2" {
		return nil, g.unsupported("tokenizer %q (known: gpt2)", kind)
	}
	pre, _ := meta[string](g.GGUF, "tokenizer.ggml.pre")
	split, ok := preTokenizers[pre]
	if !ok {
		return nil, g.unsupported("pre-tokenizer %q", pre)
	}
	toks, _ := meta[[]string](g.GGUF, "tokenizer.ggml.tokens")
	if len(toks) == 0 {
		return nil, g.unsupported("file without tokenizer.ggml.tokens")
	}
	merges, err := g.merges()
	if err != nil {
		return nil, err
	}
	vocab := make(map[string]int, len(toks))
	for i, t := range toks {
		vocab[t] = i
	}
	return object{
		"version": "1.0", "truncation": nil, "padding": nil, "normalizer": nil, "post_processor": nil,
		"added_tokens":  g.addedTokens(toks),
		"pre_tokenizer": object{"type": "Sequence", "pretokenizers": preTokenizer(split)},
		"decoder":       object{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
		"model": object{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": merges,
		},
	}, nil
}

// preTokenizer splits, then maps bytes to printable characters.
func preTokenizer(split string) []object {
	bytes := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	switch split {
	case "":
		return []object{bytes}
	case "digits":
		return []object{{"type": "Digits", "individual_digits": true}, bytes}
	}
	bytes["use_regex"] = false
	return []object{{"type": "Split", "pattern": object{"Regex": split}, "behavior": "Isolated", "invert": false}, bytes}
}

func (g *ggufImport) merges() ([][2]string, error) {
	lines, _ := meta[[]string](g.GGUF, "tokenizer.ggml.merges")
	out := make([][2]string, len(lines))
	for i, l := range lines {
		a, b, ok := strings.Cut(l, " ")
		if !ok || strings.Contains(b, " ") {
			return nil, g.unsupported("merge %d: %q", i, l)
		}
		out[i] = [2]string{a, b}
	}
	return out, nil
}

func (g *ggufImport) addedTokens(toks []string) []object {
	kinds, _ := meta[[]int32](g.GGUF, "tokenizer.ggml.token_type")
	out := []object{}
	for i, k := range kinds {
		if i < len(toks) && (k == ggmlControl || k == ggmlUser) {
			out = append(out, object{
				"id": i, "content": toks[i], "special": k == ggmlControl,
				"single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
			})
		}
	}
	return out
}

// tokenizerConfig names the special tokens and carries the chat template.
func (g *ggufImport) tokenizerConfig(c *ggufConfig) object {
	toks, _ := meta[[]string](g.GGUF, "tokenizer.ggml.tokens")
	out := object{"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": c.json["max_position_embeddings"]}
	unk, ok := number(g.GGUF, "tokenizer.ggml.unknown_token_id")
	if !ok || unk >= len(toks) {
		unk = -1
	}
	for field, id := range map[string]int{"bos_token": c.bos, "eos_token": c.eos, "pad_token": c.pad, "unk_token": unk} {
		if id >= 0 {
			out[field] = toks[id]
		}
	}
	if t, ok := meta[string](g.GGUF, "tokenizer.chat_template"); ok {
		out["chat_template"] = t
	}
	if add, ok := meta[bool](g.GGUF, "tokenizer.ggml.add_bos_token"); ok {
		out["add_bos_token"] = add
	}
	return out
}
