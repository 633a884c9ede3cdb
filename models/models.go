// Package models is the door to the model families: the Model interface,
// the batch it takes, the registry of families and Open.
//
// It owns no arrays; a Model owns its weights. Everything that touches a
// Model is called on the device thread (runtime/mlx), but for Info, which is
// immutable. It never tokenizes, samples or schedules.
package models

import (
	"errors"
	"fmt"

	"ingot/runtime/kv"
	"ingot/runtime/mlx"
)

// Model is one loaded model. Only the device thread may call it, one call at
// a time.
type Model interface {
	// Info tells what the model is. It never changes.
	Info() Info
	// NewSequence returns empty caches, one per layer. It allocates nothing
	// on the device.
	NewSequence() *kv.Sequence
	// Forward builds one step: the logits [len(b.Want), Vocab] of the rows
	// wanted, f32 on CPU, not evaluated; nil where none are wanted. The
	// sequences of the batch have advanced but are not committed: evaluate
	// the logits and every sequence's States, then Commit each, or Rollback
	// each after an error, a returned one included.
	Forward(s *mlx.Scope, b *Batch) (*mlx.Array, error)
	// Close frees the weights.
	Close()
}

// Info is what a caller needs to know of a model.
type Info struct {
	Family  string    // config.json's model_type
	Layers  int       //
	Hidden  int       // width of the residual stream
	Vocab   int       // rows of the logits
	Context int       // tokens
	EOS     []int32   // tokens that end a turn, from config.json and generation_config.json
	Kinds   []kv.Kind // kind of cache, per layer
	Dtype   mlx.Dtype // what activations and caches are computed and kept in
	Weights int64     // bytes on the device
	Tensors int       // buffers of the weights on the device
}

// Batch is one step over the rows of one or many sequences, without padding.
type Batch struct {
	Tokens   []int32   // N, flattened in the order of Segments
	Segments []Segment // cover Tokens exactly
	Want     []int     // rows whose logits are needed, ascending; none: states only
	Depth    int       // layers between evaluations within the step; 0: none
}

// Segment is the part of a batch that continues one sequence.
type Segment struct {
	Seq *kv.Sequence
	Len int // tokens, at least 1
}

// ErrBatch is wrapped by every complaint about a batch.
var ErrBatch = errors.New("malformed batch")

// Validate checks the batch against a vocabulary.
func (b *Batch) Validate(vocab int) error {
	rows, seen := 0, make(map[*kv.Sequence]bool, len(b.Segments))
	for i, g := range b.Segments {
		if g.Seq == nil || g.Len < 1 {
			return fmt.Errorf("%w: segment %d: length %d", ErrBatch, i, g.Len)
		}
		if seen[g.Seq] {
			return fmt.Errorf("%w: segment %d: its sequence is there twice", ErrBatch, i)
		}
		seen[g.Seq] = true
		rows += g.Len
	}
	if rows != len(b.Tokens) || rows == 0 {
		return fmt.Errorf("%w: %d tokens, segments cover %d", ErrBatch, len(b.Tokens), rows)
	}
	for i, t := range b.Tokens {
		if t < 0 || int(t) >= vocab {
			return fmt.Errorf("%w: token %d at row %d is outside the vocabulary of %d", ErrBatch, t, i, vocab)
		}
	}
	return b.validateWant()
}

func (b *Batch) validateWant() error {
	last := -1
	for _, w := range b.Want {
		if w <= last || w >= len(b.Tokens) {
			return fmt.Errorf("%w: wanted row %d of %d", ErrBatch, w, len(b.Tokens))
		}
		last = w
	}
	return nil
}
