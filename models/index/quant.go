package index

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Quant is how one module's weight is packed (MLX's scheme).
type Quant struct {
	Group int    `json:"group_size"`
	Bits  int    `json:"bits"`
	Mode  string `json:"mode"` // "affine", "mxfp4", "mxfp8" or "nvfp4"; "" is affine
}

// Quantization is a whole model's: a default and exceptions by module path.
// The zero value means that nothing is quantized.
type Quantization struct {
	Default Quant
	Modules map[string]Quant // zero Bits: this module is not quantized
}

// Any reports whether anything may be quantized.
func (q *Quantization) Any() bool { return q.Default.Bits > 0 || len(q.Modules) > 0 }

// For returns how a module is packed if it is packed at all.
func (q *Quantization) For(module string) (Quant, bool) {
	if m, ok := q.Modules[module]; ok {
		return m, m.Bits > 0
	}
	return q.Default, q.Default.Bits > 0
}

func parseQuantization(file string, data json.RawMessage) (Quantization, error) {
	var q Quantization
	if len(data) == 0 || string(data) == "null" {
		return q, nil
	}
	var entries map[string]json.RawMessage
	if err := decode(file+": quantization", data, &entries); err != nil {
		return q, err
	}
	if err := decode(file+": quantization", data, &q.Default); err != nil {
		return q, err
	}
	if err := q.Default.check(file, "quantization"); err != nil {
		return q, err
	}
	for path, v := range entries {
		over, ok, err := q.override(file, path, v)
		if err != nil {
			return q, err
		}
		if ok {
			if q.Modules == nil {
				q.Modules = map[string]Quant{}
			}
			q.Modules[path] = over
		}
	}
	return q, nil
}

// override reads an entry that is an object (how to pack) or a boolean
// (false: not packed); everything else belongs to the default.
func (q *Quantization) override(file, path string, v json.RawMessage) (Quant, bool, error) {
	v = bytes.TrimSpace(v)
	switch {
	case string(v) == "false":
		return Quant{}, true, nil
	case string(v) == "true":
		return q.Default, true, nil
	case len(v) == 0 || v[0] != '{':
		return Quant{}, false, nil
	}
	over := Quant{Group: q.Default.Group, Bits: q.Default.Bits, Mode: q.Default.Mode}
	if err := decode(file+": quantization."+path, v, &over); err != nil {
		return over, false, err
	}
	return over, true, over.check(file, "quantization."+path)
}

func (q *Quant) check(file, field string) error {
	if q.Mode == "" {
		q.Mode = "affine"
	}
	if q.Bits == 0 && q.Group == 0 {
		return nil // exceptions only
	}
	bad := func(leaf, format string, args ...any) error {
		return &FieldError{File: file, Field: field + "." + leaf, Why: fmt.Sprintf(format, args...)}
	}
	switch q.Mode {
	case "affine":
		if q.Bits < 2 || q.Bits > 8 || q.Bits == 7 {
			return bad("bits", "%d; affine weights have 2, 3, 4, 5, 6 or 8", q.Bits)
		}
		if q.Group != 32 && q.Group != 64 && q.Group != 128 {
			return bad("group_size", "%d; want 32, 64 or 128", q.Group)
		}
	case "mxfp4", "mxfp8", "nvfp4":
		if q.Bits != 4 && q.Bits != 8 {
			return bad("bits", "%d; %s weights have 4 or 8", q.Bits, q.Mode)
		}
	default:
		return bad("mode", "%q is not known", q.Mode)
	}
	return nil
}
