// Package engine is one loaded model on the device thread: sequences, steps
// and kept prefixes, as sched's Engine wants them.
//
// It owns the model, the caches of every open sequence and those kept as
// prefixes. One goroutine, the scheduler's, calls it; what touches the device
// runs on the device's own thread, through Device.Do. A step is all or
// nothing: it evaluates every state that it touched before anything counts,
// and after a failure every sequence is what it was and every buffer of the
// attempt is given back. It never decides how wide a step is, who is in it,
// or what is evicted: it is told.
package engine

import (
	"errors"
	"fmt"

	"ingot/models"
	"ingot/runtime/mlx"
	"ingot/runtime/step"
	"ingot/runtime/turn"
)

// Options of Open. Zero values are defaults.
type Options struct {
	CacheBytes   turn.Bytes   // kept prefixes; 0: a quarter of what is left by the weights, negative: none are kept
	CacheBuffers turn.Buffers // likewise
	CacheEntries int          // 0: 6
	Progress     func(float64)
}

// Engine is a loaded model.
type Engine struct {
	dev     *mlx.Device
	ledger  *mlx.Ledger
	model   models.Model
	info    step.Info
	opt     Options
	own     turn.Buffers // the device's own limit
	base    mlx.Counts   // after the load: the weights
	seqs    map[step.SeqID]*sequence
	last    step.SeqID
	prefix  prefixes
	stats   Stats
	settled bool
	pressed bool      // a step lacked room, and no sequence has ended since
	rows    []float32 // logits on the host, reused
}

// Stats counts what the engine did, for reports and tests.
type Stats struct {
	Lent   int // prefixes that went whole to a new sequence
	Copied int // prefixes that were copied, as their owner went on or was much longer
	Failed int // steps that failed
}

// RoomError reports limits below what the model needs to be loaded.
type RoomError struct {
	Buffers    bool  // else bytes
	Need, Have int64 // Need: of the weights alone
	Err        error
}

func (e *RoomError) Error() string {
	what := "bytes"
	if e.Buffers {
		what = "buffers"
	}
	return fmt.Sprintf("engine: weights need %d %s, the limit is %d: %v", e.Need, what, e.Have, e.Err)
}

func (e *RoomError) Unwrap() error { return e.Err }

// Open loads the model in folder. The limits in force are dev's ledger's.
// Any goroutine; Unload it before closing the device.
func Open(dev *mlx.Device, folder string, opt Options) (*Engine, error) {
	e := &Engine{dev: dev, ledger: dev.Ledger(), opt: opt, seqs: make(map[step.SeqID]*sequence)}
	e.own, _ = e.ledger.Limits()
	err := dev.Do(func() (err error) {
		e.model, err = models.Open(dev, folder, models.Options{Progress: opt.Progress})
		return err
	})
	if err != nil {
		return nil, e.noRoom(err)
	}
	if err := e.ledger.Settle(); err != nil {
		return nil, err
	}
	e.base = e.counts()
	e.settled = true
	e.describe()
	e.prefix.bounds(e.cacheBounds())
	return e, nil
}

// noRoom adds the numbers to a load that failed at a limit.
func (e *Engine) noRoom(err error) error {
	c := e.ledger.Read()
	re := &RoomError{Err: err, Have: int64(c.LimitBytes)}
	switch {
	case errors.Is(err, mlx.ErrResourceLimit):
		re.Buffers, re.Have = true, int64(c.LimitBuffers)
	case !errors.Is(err, mlx.ErrMemory):
		return err
	}
	var told interface{ Needs() (int, int64) }
	if errors.As(err, &told) {
		buffers, bytes := told.Needs()
		if re.Need = bytes; re.Buffers {
			re.Need = int64(buffers)
		}
	}
	re.Need = max(re.Need, re.Have+1)
	return re
}

func (e *Engine) describe() {
	m := e.model.Info()
	e.info = step.Info{Family: m.Family, Layers: m.Layers, Vocab: m.Vocab, Context: m.Context, Device: e.dev.Kind().String()}
	for _, t := range m.EOS {
		e.info.EOS = append(e.info.EOS, turn.TokenID(t))
	}
}

// Unload frees sequences, prefixes and weights. The engine is of no further
// use.
func (e *Engine) Unload() error {
	return e.dev.Do(func() error {
		for id := range e.seqs {
			e.seqs[id].free()
		}
		clear(e.seqs)
		e.prefix.evict(e.prefix.count())
		e.model.Close()
		return nil
	})
}

// Info tells what is loaded.
func (e *Engine) Info() step.Info { return e.info }

// Weights is what the weights hold for good.
func (e *Engine) Weights() (turn.Buffers, turn.Bytes) { return e.base.Buffers, e.base.Bytes }

// Stats tells what was done so far.
func (e *Engine) Stats() Stats { return e.stats }

// counts is the ledger's reading, or what can be had without a ledger.
func (e *Engine) counts() mlx.Counts {
	c := e.ledger.Read()
	if !e.ledger.Supported() {
		c.Bytes = turn.Bytes(mlx.ActiveMemory())
		c.PeakBytes = max(c.Bytes, turn.Bytes(mlx.PeakMemory()))
		c.Buffers, c.PeakBuffers, c.LimitBuffers, c.CachedUpper = 0, 0, 0, 0
	}
	if e.dev.Kind() == mlx.CPU {
		c.CachedUpper = 0 // MLX's CPU allocator keeps no buffers
	}
	return c
}

// Reading tells what is held between steps.
func (e *Engine) Reading() step.Reading {
	c := e.counts()
	return step.Reading{
		Live: c.Buffers, Cached: c.CachedUpper, Bytes: c.Bytes, CachedBytes: turn.Bytes(mlx.CacheMemory()),
		Unsettled: !e.settled && e.dev.Kind() == mlx.GPU,
		Resident:  e.base.Buffers, ResidentBytes: e.base.Bytes,
		Limit: c.LimitBuffers, LimitBytes: c.LimitBytes,
		Kept: e.prefix.kept(),
	}
}

// Relieve gives buffers or bytes back, as a plan's levers ask.
func (e *Engine) Relieve(r step.Relief) {
	if r.Evict > 0 {
		_ = e.dev.Do(func() error { e.prefix.evict(r.Evict); return nil })
	}
	if r.Evict > 0 {
		e.settled = false
	}
	if r.Settle || r.Evict > 0 {
		e.settle()
	}
	if r.Clear {
		_ = e.ledger.ClearCache()
	}
}

// settle waits for what the device is about to let go: on Metal what its
// completion handlers release, on the CPU what a stream's last task holds.
func (e *Engine) settle() {
	if !e.settled && e.ledger.Settle() == nil {
		e.settled = true
	}
}

// SetGrant changes the limits; 0: none but the device's own. What is held
// beyond them stays until levers are pulled.
func (e *Engine) SetGrant(buffers turn.Buffers, bytes turn.Bytes) {
	if buffers <= 0 || e.own > 0 && buffers > e.own {
		buffers = e.own
	}
	e.ledger.SetLimits(buffers, max(bytes, 0))
	_ = e.dev.Do(func() error { e.prefix.bounds(e.cacheBounds()); return nil })
}

// cacheBounds is how much kept prefixes may hold.
func (e *Engine) cacheBounds() (entries int, most step.Kept) {
	entries = e.opt.CacheEntries
	if entries == 0 {
		entries = defaultEntries
	}
	if e.opt.CacheBytes < 0 || e.opt.CacheBuffers < 0 || entries < 0 {
		return 0, step.Kept{}
	}
	c := e.ledger.Read()
	most = step.Kept{Buffers: e.opt.CacheBuffers, Bytes: e.opt.CacheBytes}
	if most.Buffers == 0 && c.LimitBuffers > 0 {
		most.Buffers = max(1, (c.LimitBuffers-e.base.Buffers)/4)
	}
	if most.Bytes == 0 && c.LimitBytes > 0 {
		most.Bytes = max(1, (c.LimitBytes-e.base.Bytes)/4)
	}
	return entries, most
}

// ClearPrefixes gives every kept prefix up.
func (e *Engine) ClearPrefixes() { e.Relieve(step.Relief{Evict: e.prefix.count()}) }
