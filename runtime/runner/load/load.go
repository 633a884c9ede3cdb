// Package load is runner's Loader on the real thing: MLX's device thread, an
// engine, and the Rust tokenizer.
//
// It owns what it opens until Close. Any goroutine may call it. It is the
// only part of the runner that needs cgo.
package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"ingot/models"
	_ "ingot/models/all" // the families
	"ingot/runtime/engine"
	"ingot/runtime/governor"
	"ingot/runtime/mlx"
	"ingot/runtime/runner"
	"ingot/runtime/text"
	"ingot/runtime/textkit"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// Loader implements runner.Loader.
type Loader struct{}

// Known lists the model types that can be loaded.
func Known() []string { return models.Known() }

// Words implements runner.Loader.
func (Loader) Words(folder string) (runner.Words, error) {
	cfg, err := text.ReadConfig(os.DirFS(folder))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	tok, err := textkit.OpenTokenizer(cfg.TokenizerJSON)
	if err != nil {
		return nil, fmt.Errorf("%s: tokenizer.json: %w", folder, err)
	}
	p := text.NewPrompter(tok, cfg, func(source string) (text.Template, error) { return textkit.CompileTemplate(source) })
	return &words{Tokenizer: tok, prompter: p, stops: cfg.Stops(tok.TokenID)}, nil
}

// words is a tokenizer with its templates.
type words struct {
	*textkit.Tokenizer
	prompter *text.Prompter
	stops    []turn.TokenID
}

func (w *words) Chat(body json.RawMessage, now time.Time) (text.Prompt, error) {
	return w.prompter.Chat(body, now)
}

func (w *words) Encode(s string, addSpecial, parseSpecial bool) ([]turn.TokenID, error) {
	return w.Tokenizer.Encode(s, textkit.EncodeOptions{AddSpecial: addSpecial, ParseSpecial: parseSpecial})
}

func (w *words) Stream() text.Stream { return w.NewStream(true) }

func (w *words) StopIDs() []turn.TokenID { return w.stops }

func (w *words) Close() {
	w.prompter.Close()
	w.Tokenizer.Close()
}

// Model implements runner.Loader.
func (Loader) Model(h *wire.Hello, progress func(float64)) (*runner.Model, error) {
	dev, err := mlx.Open(mlx.Options{BufferLimit: h.Grant.Buffers, ByteLimit: h.Grant.Bytes})
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	keepResident(dev, h.Grant.Wired)
	e, err := engine.Open(dev, h.Folder, engine.Options{CacheBytes: h.Policy.CacheBytes, Progress: progress})
	if err != nil {
		return nil, errors.Join(need(err), dev.Close())
	}
	buffers, bytes := e.Weights()
	limits := e.Reading()
	info := e.Info()
	return &runner.Model{
		Engine:  e,
		Planner: governor.New(policy(h.Policy, info.Layers)),
		Alloc:   ledger{dev.Ledger()},
		Info: wire.Info{
			Family: info.Family, Context: info.Context, Vocab: info.Vocab, Layers: info.Layers,
			Resident: bytes, Buffers: buffers, Limit: limits.Limit, Memory: limits.LimitBytes, Device: info.Device,
		},
		Close: func() { _ = errors.Join(e.Unload(), dev.Close()) }, // the process ends; nobody could act on it
	}, nil
}

// keepResident has Metal keep so much of the weights wired, where it can
// (macOS 15): elsewhere they may be paged, which is slower and no failure.
func keepResident(dev *mlx.Device, wired turn.Bytes) {
	if wired > 0 && dev.Kind() == mlx.GPU && runtime.GOOS == "darwin" {
		_, _ = dev.SetWiredLimit(uint64(wired))
	}
}

// need names a limit below the weights in the runner's words.
func need(err error) error {
	var room *engine.RoomError
	if !errors.As(err, &room) {
		return err
	}
	out := &runner.NeedError{Resource: "bytes", Need: room.Need, Have: room.Have}
	if room.Buffers {
		out.Resource = "buffers"
	}
	return out
}

func policy(p wire.Policy, layers int) governor.Config {
	return governor.Config{
		Layers: layers, Width: p.PrefillStep, Cap: p.WidthCap,
		MaxStep: duration(p.MaxStepMS), RideStep: duration(p.RideStepMS),
	}
}

func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// ledger counts allocations for faults.
type ledger struct{ *mlx.Ledger }

func (l ledger) Allocated() int64 {
	n, _ := l.Total()
	return int64(n)
}

var _ runner.Loader = Loader{}
