package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"ingot/runtime/turn"
)

// Defaults are a model's own sampling parameters, from its
// generation_config.json; nil fields are not set there.
type Defaults struct {
	Sample            *bool    `json:"do_sample"` // false: greedy, unless a temperature is asked for
	Temperature       *float64 `json:"temperature"`
	TopP              *float64 `json:"top_p"`
	TopK              *int     `json:"top_k"`
	MinP              *float64 `json:"min_p"`
	RepetitionPenalty *float64 `json:"repetition_penalty"`
}

// ReadDefaults reads a model's folder. A file that is missing sets nothing;
// one that would make every request invalid is an error.
func ReadDefaults(folder fs.FS) (Defaults, error) {
	var d Defaults
	b, err := fs.ReadFile(folder, "generation_config.json")
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &d)
	}
	if err != nil {
		return Defaults{}, fmt.Errorf("generation_config.json: %w", err)
	}
	p := turn.Neutral()
	d.Fill(&p, nil)
	if err := p.Validate(); err != nil {
		return Defaults{}, fmt.Errorf("generation_config.json: %w", err)
	}
	return d, nil
}

// Fill sets what neither request nor config has given.
func (d Defaults) Fill(p *turn.Params, given []string) {
	if d.Sample != nil && !*d.Sample && !slices.Contains(given, "temperature") {
		p.Temperature = 0
	} else {
		fill(&p.Temperature, d.Temperature, given, "temperature")
	}
	fill(&p.TopP, d.TopP, given, "top_p")
	fill(&p.TopK, d.TopK, given, "top_k")
	fill(&p.MinP, d.MinP, given, "min_p")
	fill(&p.RepetitionPenalty, d.RepetitionPenalty, given, "repetition_penalty")
}

func fill[T any](to *T, from *T, given []string, name string) {
	if from != nil && !slices.Contains(given, name) {
		*to = *from
	}
}
