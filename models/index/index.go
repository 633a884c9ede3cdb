// Package index tells what a model on disk is without loading it: it reads
// config.json, the headers of safetensors files and of GGUF files.
//
// It owns nothing that stays open. Any goroutine may call it; results are
// immutable. It never reads weights and never touches a device. What it reads
// comes from strangers: sizes are checked before anything is allocated.
package index

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
)

// Model is what a folder holds.
type Model struct {
	Folder       string
	Type         string          // config.json's model_type
	Architecture string          // its first architecture, "" if none
	Config       json.RawMessage // config.json
	Quant        Quantization
	Tensors      map[string]Tensor
	Missing      []string // files that should be there, by name
	Facts
}

// Facts are the numbers of a model, for people and for budgets.
type Facts struct {
	Parameters int64   `json:"parameters"` // of the weights, unpacked
	Bytes      int64   `json:"bytes"`      // of the weight tensors
	Layers     int     `json:"layers"`
	Hidden     int     `json:"hidden"`
	Heads      int     `json:"heads"`
	KVHeads    int     `json:"kv_heads"`
	HeadDim    int     `json:"head_dim"`
	Vocab      int     `json:"vocab"`
	Context    int     `json:"context"` // tokens
	Dtype      string  `json:"dtype"`   // of the most bytes that are not quantized: "F16", "BF16", "F32"
	EOS        []int32 `json:"eos"`     // tokens that end a turn
}

// Inspect reads what the model in folder is. With known model types given,
// any other is an *ArchitectureError. Files that are absent are listed in
// Missing; files that are there and broken are errors.
func Inspect(folder string, known ...string) (*Model, error) {
	m := &Model{Folder: folder}
	if err := m.readConfig(); err != nil {
		return nil, err
	}
	if len(known) > 0 && !slices.Contains(known, m.Type) {
		return nil, &ArchitectureError{Type: m.Type, Known: known}
	}
	if err := m.readTensors(); err != nil {
		return nil, err
	}
	if err := m.readGeneration(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(folder, "tokenizer.json")); err != nil {
		m.Missing = append(m.Missing, "tokenizer.json")
	}
	m.count()
	return m, nil
}

// WeightsComplete is an *IncompleteError if weight files are missing.
func (m *Model) WeightsComplete() error {
	var lacking []string
	for _, f := range m.Missing {
		if filepath.Ext(f) == ".safetensors" {
			lacking = append(lacking, f)
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return &IncompleteError{Folder: m.Folder, Files: lacking}
}

// Decode reads config.json into a family's struct; a value of the wrong type
// is a *FieldError that names it.
func (m *Model) Decode(into any) error {
	return decode(filepath.Join(m.Folder, "config.json"), m.Config, into)
}

// count fills in parameters, bytes and dtype from the tensor tables.
func (m *Model) count() {
	plain := map[string]int64{}
	for name, t := range m.Tensors {
		m.Bytes += t.Size
		module, leaf := cut(name)
		q, packed := m.quantOf(module)
		switch {
		case packed && leaf == "weight":
			m.Parameters += t.Count() * 32 / int64(q.Bits)
		case packed && (leaf == "scales" || leaf == "biases"):
		default:
			m.Parameters += t.Count()
			plain[t.Dtype] += t.Size
		}
	}
	var most int64
	for d, n := range plain {
		if n > most || n == most && d < m.Dtype {
			m.Dtype, most = d, n
		}
	}
}

// quantOf tells whether a module is stored quantized, and how.
func (m *Model) quantOf(module string) (Quant, bool) {
	if _, ok := m.Tensors[module+".scales"]; !ok {
		return Quant{}, false
	}
	q, ok := m.Quant.For(module)
	return q, ok && q.Bits > 0
}

// cut splits a tensor's name into the module's path and the last element.
func cut(name string) (module, leaf string) {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '.' {
			return name[:i], name[i+1:]
		}
	}
	return "", name
}
