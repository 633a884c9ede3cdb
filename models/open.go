package models

import (
	"fmt"
	"slices"

	"ingot/models/index"
	"ingot/runtime/mlx"
)

// Options say how to open a model.
type Options struct {
	Progress func(float64) // called from time to time with 0 to 1, on the device thread; may be nil
}

// Family is one way of computing.
type Family struct {
	Types []string // values of config.json's model_type that it serves
	Open  func(dev *mlx.Device, m *index.Model, opt Options) (Model, error)
}

var families = map[string]Family{}

// Register adds a family. It is called from init and panics where a type is
// served twice.
func Register(f Family) {
	for _, t := range f.Types {
		if _, dup := families[t]; dup {
			panic(fmt.Sprintf("models: two families serve %q", t))
		}
		families[t] = f
	}
}

// Known lists the model types that can be opened, sorted.
func Known() []string {
	var names []string
	for t := range families {
		names = append(names, t)
	}
	slices.Sort(names)
	return names
}

// Inspect tells what the model in a folder is, without loading it, and
// whether it can be opened here.
func Inspect(folder string) (*index.Model, error) { return index.Inspect(folder, Known()...) }

// Open loads the model in a folder. It must run on the device thread.
func Open(dev *mlx.Device, folder string, opt Options) (Model, error) {
	m, err := Inspect(folder)
	if err != nil {
		return nil, err
	}
	f := families[m.Type]
	if opt.Progress == nil {
		opt.Progress = func(float64) {}
	}
	model, err := f.Open(dev, m, opt)
	if err != nil {
		return nil, fmt.Errorf("open %s model in %s: %w", m.Type, folder, err)
	}
	return model, nil
}
