package servertest

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"ingot/ipc"
	"ingot/ipc/server"
	"ingot/runtime/turn"
)

// Status implements server.Daemon.
func (f *Fake) Status(context.Context) (*ipc.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.statusLocked(), nil
}

func (f *Fake) statusLocked() *ipc.Status {
	if f.State != nil {
		return f.State
	}
	s := &ipc.Status{Version: "test", Protocol: ipc.Protocol, PID: 1, Models: []ipc.ModelStatus{}, Recent: []ipc.TurnReport{}}
	for name := range f.loaded {
		s.Models = append(s.Models, ipc.ModelStatus{Name: name, State: ipc.StateReady})
	}
	slices.SortFunc(s.Models, func(a, b ipc.ModelStatus) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// Publish sends an event to every watcher.
func (f *Fake) Publish(e ipc.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watchers {
		w.events <- &e
	}
}

// Watchers returns how many there are.
func (f *Fake) Watchers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.watchers)
}

// Watch implements server.Daemon.
func (f *Fake) Watch(context.Context) (server.Watch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &watch{f: f, events: make(chan *ipc.Event, 100_000)}
	w.events <- &ipc.Event{Type: ipc.EventState, State: f.statusLocked()}
	f.watchers[w] = true
	return w, nil
}

type watch struct {
	f      *Fake
	events chan *ipc.Event
}

func (w *watch) Next(ctx context.Context) (*ipc.Event, error) {
	select {
	case e, ok := <-w.events:
		if !ok {
			return nil, io.EOF
		}
		return e, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *watch) Close() {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	delete(w.f.watchers, w)
}

// Stop implements server.Daemon.
func (f *Fake) Stop(context.Context) error {
	if f.Stopped != nil {
		f.Stopped()
	}
	return nil
}

// Logs implements server.Daemon.
func (f *Fake) Logs(_ context.Context, p ipc.LogsParams) (*ipc.LogsResult, error) {
	return &ipc.LogsResult{Lines: []string{"one", "two"}}, nil
}

// List implements server.Catalogue.
func (f *Fake) List(context.Context) (*ipc.ModelList, error) {
	if f.Catalogue != nil {
		return f.Catalogue, nil
	}
	return &ipc.ModelList{Models: []ipc.Model{{Name: "echo", Family: "fake", Bytes: 12 << 20, Context: 100}}}, nil
}

// Show implements server.Catalogue.
func (f *Fake) Show(_ context.Context, model string) (*ipc.ModelDetail, error) {
	if model == Missing {
		return nil, ipc.Errorf(ipc.ModelNotFound, "no model %q", model)
	}
	return &ipc.ModelDetail{Model: ipc.Model{Name: model, Family: "fake"}}, nil
}

// Alias implements server.Catalogue.
func (f *Fake) Alias(context.Context, ipc.AliasParams) error { return nil }

// Remove implements server.Catalogue.
func (f *Fake) Remove(_ context.Context, model string) error {
	if model == Missing {
		return ipc.Errorf(ipc.ModelNotFound, "no model %q", model)
	}
	return nil
}

// Pull implements server.Catalogue.
func (f *Fake) Pull(_ context.Context, p ipc.PullParams, progress func(ipc.PullProgress)) (*ipc.PullResult, error) {
	for i := range f.PullSteps {
		progress(ipc.PullProgress{File: "model", Done: turn.Bytes(i + 1), Total: turn.Bytes(f.PullSteps)})
	}
	if p.Model == Missing {
		return nil, ipc.Errorf(ipc.DownloadFailed, "no such file")
	}
	name := p.As
	if name == "" {
		name = p.Model
	}
	return &ipc.PullResult{Model: name, Bytes: 1}, nil
}

// Load implements server.Lifecycle. Model Slow takes until ctx ends.
func (f *Fake) Load(ctx context.Context, p ipc.LoadParams) (*ipc.ModelStatus, error) {
	if p.Model == Slow {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if p.Model == Missing {
		return nil, ipc.Errorf(ipc.ModelNotFound, "no model %q", p.Model)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loaded[p.Model] = true
	return &ipc.ModelStatus{Name: p.Model, State: ipc.StateReady, PID: 7}, nil
}

// Unload implements server.Lifecycle.
func (f *Fake) Unload(_ context.Context, model string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.loaded, model)
	return nil
}

// Pin implements server.Lifecycle.
func (f *Fake) Pin(context.Context, ipc.PinParams) error { return nil }

// Encode implements server.Tokens: a token a byte.
func (f *Fake) Encode(_ context.Context, p ipc.EncodeParams) (*ipc.EncodeResult, error) {
	r := &ipc.EncodeResult{Tokens: []turn.TokenID{}}
	for _, b := range []byte(p.Text) {
		r.Tokens = append(r.Tokens, turn.TokenID(b))
	}
	return r, nil
}

// Decode implements server.Tokens.
func (f *Fake) Decode(_ context.Context, p ipc.DecodeParams) (*ipc.DecodeResult, error) {
	var b strings.Builder
	for _, id := range p.Tokens {
		b.WriteByte(byte(id))
	}
	return &ipc.DecodeResult{Text: b.String()}, nil
}

// Count implements server.Tokens.
func (f *Fake) Count(_ context.Context, p ipc.CountRequest) (*ipc.CountResult, error) {
	if p.Text != nil {
		return &ipc.CountResult{Tokens: len(*p.Text)}, nil
	}
	return &ipc.CountResult{Tokens: len(p.Chat)}, nil
}

// Eventually waits, up to a minute, until ok holds; it reports whether it did.
func Eventually(ok func() bool) bool {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if ok() {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}
