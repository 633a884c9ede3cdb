package models

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"ingot/models/index"
	"ingot/runtime/kv"
	"ingot/runtime/mlx"
)

func TestBatchIsChecked(t *testing.T) {
	a, b := kv.NewSequence(nil), kv.NewSequence(nil)
	good := func() *Batch {
		return &Batch{Tokens: []int32{1, 2, 3}, Segments: []Segment{{a, 2}, {b, 1}}, Want: []int{0, 2}}
	}
	if err := good().Validate(4); err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func(*Batch){
		"3 tokens, segments cover 2": func(b *Batch) { b.Segments = b.Segments[:1] },
		"segment 1: length 0":        func(b *Batch) { b.Segments[1].Len = 0 },
		"segment 0: length 2":        func(b *Batch) { b.Segments[0].Seq = nil },
		"there twice":                func(b *Batch) { b.Segments[1].Seq = a },
		"token 4 at row 1":           func(b *Batch) { b.Tokens[1] = 4 },
		"token -1 at row 0":          func(b *Batch) { b.Tokens[0] = -1 },
		"wanted row 3 of 3":          func(b *Batch) { b.Want = []int{3} },
		"wanted row 1 of 3":          func(b *Batch) { b.Want = []int{2, 1} },
		"0 tokens":                   func(b *Batch) { *b = Batch{} },
	} {
		x := good()
		spoil(x)
		if err := x.Validate(4); !errors.Is(err, ErrBatch) || !strings.Contains(err.Error(), what) {
			t.Errorf("want %q, got %v", what, err)
		}
	}
}

func TestRegistry(t *testing.T) {
	defer func(was map[string]Family) { families = was }(families)
	families = map[string]Family{}
	nothing := func(*mlx.Device, *index.Model, Options) (Model, error) { return nil, nil }
	Register(Family{Types: []string{"b", "a"}, Open: nothing})
	if !slices.Equal(Known(), []string{"a", "b"}) {
		t.Errorf("known %v", Known())
	}
	defer func() {
		if recover() == nil {
			t.Error("the same type twice went through")
		}
	}()
	Register(Family{Types: []string{"a"}, Open: nothing})
}

func TestOpenWithoutConfig(t *testing.T) {
	if _, err := Open(nil, t.TempDir(), Options{}); !errors.Is(err, index.ErrNoConfig) {
		t.Errorf("got %v", err)
	}
}
