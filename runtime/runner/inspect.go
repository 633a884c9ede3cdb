package runner

import (
	"encoding/json"
	"io"

	"ingot/models/index"
)

// Inspection is what --inspect prints: what the model in a folder is.
type Inspection struct {
	Type         string   `json:"type"` // config.json's model_type
	Architecture string   `json:"architecture,omitempty"`
	Supported    bool     `json:"supported"`            // this runner has the family
	Bits         int      `json:"bits,omitempty"`       // of quantized weights
	GroupSize    int      `json:"group_size,omitempty"` // of quantized weights
	Tensors      int      `json:"tensors"`
	Missing      []string `json:"missing,omitempty"` // files that should be there
	index.Facts
}

// Inspect prints what is in a folder, from headers alone. known are the
// model types that the runner can load.
func Inspect(out io.Writer, folder string, known []string) error {
	m, err := index.Inspect(folder)
	if err != nil {
		return err
	}
	in := Inspection{Type: m.Type, Architecture: m.Architecture, Tensors: len(m.Tensors), Missing: m.Missing, Facts: m.Facts}
	in.Bits, in.GroupSize = m.Quant.Default.Bits, m.Quant.Default.Group
	for _, k := range known {
		in.Supported = in.Supported || k == m.Type
	}
	return json.NewEncoder(out).Encode(in)
}
