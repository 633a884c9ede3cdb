package index

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxJSON bounds config files; real ones have a few kilobytes, but
// tensor indices of large models some megabytes.
const maxJSON = 64 << 20

// header is what every family's config.json has, under these or older names.
type header struct {
	Type          string          `json:"model_type"`
	Architectures []string        `json:"architectures"`
	Text          json.RawMessage `json:"text_config"`
	Quant         json.RawMessage `json:"quantization"`
	QuantConfig   json.RawMessage `json:"quantization_config"`
	EOS           Tokens          `json:"eos_token_id"`
	Layers        int             `json:"num_hidden_layers"`
	Hidden        int             `json:"hidden_size"`
	Heads         int             `json:"num_attention_heads"`
	KVHeads       int             `json:"num_key_value_heads"`
	HeadDim       int             `json:"head_dim"`
	Vocab         int             `json:"vocab_size"`
	Context       int             `json:"max_position_embeddings"`
}

// Tokens is a token id or a list of them, as eos_token_id is written.
type Tokens []int32

// UnmarshalJSON takes a number, an array of numbers or null.
func (t *Tokens) UnmarshalJSON(b []byte) error {
	var one int32
	if json.Unmarshal(b, &one) == nil && string(b) != "null" {
		*t = Tokens{one}
		return nil
	}
	return json.Unmarshal(b, (*[]int32)(t))
}

func (m *Model) readConfig() error {
	path := filepath.Join(m.Folder, "config.json")
	data, err := readJSON(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", m.Folder, ErrNoConfig)
	}
	if err != nil {
		return err
	}
	var h header
	if err := decode(path, data, &h); err != nil {
		return err
	}
	if h.Type == "" {
		return &FieldError{File: path, Field: "model_type", Why: "is missing"}
	}
	if len(h.Text) > 0 { // the text part of a model that also sees or hears
		outer := h
		if err := decode(path+": text_config", h.Text, &h); err != nil {
			return err
		}
		h.Type, h.Architectures = outer.Type, outer.Architectures
	}
	m.Config, m.Type = data, h.Type
	if len(h.Architectures) > 0 {
		m.Architecture = h.Architectures[0]
	}
	m.facts(&h)
	if len(h.Quant) > 0 {
		m.Quant, err = parseQuantization(path, h.Quant)
		return err
	}
	if err := foreign(path, h.QuantConfig); err != nil {
		return err
	}
	m.Quant, err = parseQuantization(path, h.QuantConfig)
	return err
}

// foreign refuses weights that another toolkit has packed: MLX's own
// quantization_config names no method.
func foreign(path string, config json.RawMessage) error {
	var q struct {
		Method string `json:"quant_method"`
	}
	if len(config) == 0 {
		return nil
	}
	if err := decode(path+": quantization_config", config, &q); err != nil {
		return err
	}
	if q.Method != "" {
		return &FieldError{File: path, Field: "quantization_config.quant_method", Why: fmt.Sprintf("%q weights are not supported; convert them to MLX's format", q.Method)}
	}
	return nil
}

func (m *Model) facts(h *header) {
	m.Layers, m.Hidden, m.Heads, m.Vocab, m.Context = h.Layers, h.Hidden, h.Heads, h.Vocab, h.Context
	m.KVHeads, m.HeadDim, m.EOS = h.KVHeads, h.HeadDim, h.EOS
	if m.KVHeads == 0 {
		m.KVHeads = h.Heads
	}
	if m.HeadDim == 0 && h.Heads > 0 {
		m.HeadDim = h.Hidden / h.Heads
	}
}

// readGeneration takes the end tokens of generation_config.json, which win
// over config.json's.
func (m *Model) readGeneration() error {
	path := filepath.Join(m.Folder, "generation_config.json")
	data, err := readJSON(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var g struct {
		EOS Tokens `json:"eos_token_id"`
	}
	if err := decode(path, data, &g); err != nil {
		return err
	}
	if len(g.EOS) > 0 {
		m.EOS = g.EOS
	}
	return nil
}

func readJSON(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.Size() > maxJSON {
		return nil, corrupt(path, "%d bytes of JSON, at most %d", st.Size(), maxJSON)
	}
	return os.ReadFile(path)
}
