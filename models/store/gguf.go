package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"ingot/models/index"
)

// UnsupportedError says what in a GGUF file can't be imported.
type UnsupportedError struct {
	Path string
	What string // "tensor token_embd.weight: type Q6_K"
}

func (e *UnsupportedError) Error() string { return fmt.Sprintf("%s: unsupported %s", e.Path, e.What) }

// ImportGGUF writes the llama model in the GGUF file src as a folder in
// MLX's layout: config.json, model.safetensors, tokenizer.json,
// tokenizer_config.json, generation_config.json. Blocks of 4 and 8 bits
// become MLX's groups of 32 bit by bit. The folder appears whole or not at
// all; one that is there already is an error (fs.ErrExist).
func ImportGGUF(src, folder string) error {
	if _, err := os.Lstat(folder); err == nil {
		return fmt.Errorf("import %s: %s: %w", filepath.Base(src), folder, fs.ErrExist)
	}
	f, err := os.Open(src)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	g, err := index.ParseGGUF(src, f, st.Size())
	if err != nil {
		return err
	}
	im := &ggufImport{GGUF: g, file: f}
	return publish(folder, im.write)
}

// publish lets write fill a folder that nobody sees, then gives it its name.
func publish(folder string, write func(tmp string) error) error {
	parent := filepath.Dir(folder)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(parent, ".import-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // gone already after the rename
	if err := write(tmp); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	return os.Rename(tmp, folder)
}

// ggufImport is one import under way.
type ggufImport struct {
	*index.GGUF
	file *os.File
}

func (g *ggufImport) unsupported(format string, args ...any) error {
	return &UnsupportedError{Path: g.Path, What: fmt.Sprintf(format, args...)}
}

// write fills folder. Everything that can be refused is, before the weights.
func (g *ggufImport) write(folder string) error {
	c, err := g.config()
	if err != nil {
		return err
	}
	plan, err := g.plan(c)
	if err != nil {
		return err
	}
	tok, err := g.tokenizer()
	if err != nil {
		return err
	}
	c.setQuantization(plan)
	for name, v := range map[string]any{
		"config.json":            c.json,
		"tokenizer.json":         tok,
		"tokenizer_config.json":  g.tokenizerConfig(c),
		"generation_config.json": c.generation(),
	} {
		if err := writeJSON(filepath.Join(folder, name), v); err != nil {
			return err
		}
	}
	return writeSafetensors(filepath.Join(folder, "model.safetensors"), plan, g.file)
}

// meta is a metadata value of the type T.
func meta[T any](g *index.GGUF, key string) (T, bool) {
	v, ok := g.Meta[key].(T)
	return v, ok
}

// number is a metadata value of any integer type; false where there is none.
func number(g *index.GGUF, key string) (int, bool) {
	switch v := g.Meta[key].(type) {
	case uint8:
		return int(v), true
	case uint16:
		return int(v), true
	case uint32:
		return int(v), true
	case int32:
		return int(v), true
	case uint64:
		return int(v), v < 1<<31
	case int64:
		return int(v), v >= 0 && v < 1<<31
	}
	return 0, false
}

var errNoKey = errors.New("metadata lacks a key")

// must is number of a key that has to be there and positive.
func (g *ggufImport) must(key string) (int, error) {
	n, ok := number(g.GGUF, key)
	if !ok || n < 1 || n > 1<<30 {
		return 0, fmt.Errorf("%s: %w: %s", g.Path, errNoKey, key)
	}
	return n, nil
}
