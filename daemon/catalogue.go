package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"ingot/daemon/config"
	"ingot/daemon/lifecycle"
	"ingot/ipc"
	"ingot/models/store"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// look returns the catalogue's entry of a model; the empty name is the
// default model's.
func (d *Daemon) look(name string) (*store.Entry, error) {
	if name == "" {
		if name = d.cfg.Default; name == "" {
			return nil, ipc.Invalid("model", "is missing, and the configuration names no default model")
		}
	}
	e, err := d.store.Find(name)
	if err != nil {
		return nil, storeError(name, err)
	}
	return &e, nil
}

// find is look for a model that is about to be used.
func (d *Daemon) find(name string) (*store.Entry, error) {
	e, err := d.look(name)
	if err == nil && e.Problem != nil {
		return nil, ipc.Errorf(ipc.ModelFailed, "%s can't be loaded: %v", e.Name, e.Problem).With("model", e.Name)
	}
	return e, err
}

// storeError gives the catalogue's errors their names.
func storeError(name string, err error) error {
	var missing *store.NotFoundError
	var many *store.AmbiguousError
	var odd *store.NameError
	switch {
	case errors.As(err, &missing):
		return ipc.Errorf(ipc.ModelNotFound, "%s", err).With("model", name)
	case errors.As(err, &many):
		return ipc.Errorf(ipc.ModelNotFound, "%s", err).With("model", name).With("could", many.Could)
	case errors.As(err, &odd):
		return ipc.Invalid("model", "%s", err)
	}
	return err
}

// List returns the catalogue, and the models outside of it that are loaded.
func (d *Daemon) List(context.Context) (*ipc.ModelList, error) {
	all, err := d.store.List()
	if err != nil {
		return nil, err
	}
	out := &ipc.ModelList{Models: []ipc.Model{}}
	d.mu.Lock()
	defer d.mu.Unlock()
	known := map[string]bool{}
	for i := range all {
		known[all[i].Folder] = true
		out.Models = append(out.Models, d.entryLocked(&all[i]))
	}
	for _, m := range d.listLocked() {
		if known[m.folder] || !m.status.State.Resident() {
			continue
		}
		if e, err := d.store.Find(m.folder); err == nil {
			out.Models = append(out.Models, d.entryLocked(&e))
		}
	}
	return out, nil
}

func (d *Daemon) entryLocked(e *store.Entry) ipc.Model {
	v := ipc.Model{
		Name: e.Name, Aliases: e.Aliases, Folder: e.Folder, Bytes: turn.Bytes(e.Size), State: ipc.StateCold,
		Pinned: d.life.Pinned(e.Folder), Default: d.cfg.Default != "" && d.isDefault(e),
	}
	if m := e.Model; m != nil {
		v.Family, v.Architecture, v.Parameters, v.Context = m.Type, m.Architecture, m.Parameters, m.Context
		v.Quantization = quantization(e)
	}
	if e.Problem != nil {
		v.Problem = e.Problem.Error()
	}
	if m := d.models[e.Folder]; m != nil {
		v.State = ipc.State(m.status.State)
		if m.status.Err != nil {
			v.Problem = m.status.Err.Message
		}
	}
	return v
}

func (d *Daemon) isDefault(e *store.Entry) bool {
	o, err := d.store.Find(d.cfg.Default)
	return err == nil && o.Folder == e.Folder
}

// quantization says it in a word: "4-bit", or the type of the weights.
func quantization(e *store.Entry) string {
	if q := e.Model.Quant.Default; q.Bits > 0 {
		return fmt.Sprintf("%d-bit", q.Bits)
	}
	return strings.ToLower(e.Model.Dtype)
}

// Show tells all of one model.
func (d *Daemon) Show(ctx context.Context, name string) (*ipc.ModelDetail, error) {
	e, err := d.look(name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	out := &ipc.ModelDetail{Model: d.entryLocked(e)}
	if m := d.models[e.Folder]; m != nil && m.status.State.Resident() {
		v := d.viewLocked(m)
		out.Status = &v
	}
	d.mu.Unlock()
	out.Inspect, err = d.inspectModel(ctx, e)
	if err != nil && out.Problem == "" {
		out.Problem = err.Error()
	}
	return out, nil
}

// Alias makes or removes an alias.
func (d *Daemon) Alias(_ context.Context, p ipc.AliasParams) error {
	model := ""
	if p.Model != nil {
		if model = *p.Model; model == "" {
			return ipc.Invalid("model", "is empty; null removes the alias")
		}
	}
	var odd *store.NameError
	err := d.store.Alias(p.Alias, model)
	if errors.As(err, &odd) && odd.Name == p.Alias {
		return ipc.Invalid("alias", "%s", err)
	}
	if err != nil {
		return storeError(model, err)
	}
	return nil
}

// Remove deletes a model that is not in use.
func (d *Daemon) Remove(ctx context.Context, name string) error {
	e, err := d.look(name)
	if err != nil {
		return err
	}
	if err := d.unload(ctx, e); err != nil {
		return err
	}
	if err := d.store.Remove(e.Folder); err != nil {
		return storeError(name, err)
	}
	return nil
}

// Load loads a model and returns when it is ready.
func (d *Daemon) Load(ctx context.Context, p ipc.LoadParams) (*ipc.ModelStatus, error) {
	e, err := d.find(p.Model)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	if d.stopping {
		d.mu.Unlock()
		return nil, errStopping()
	}
	m := d.modelLocked(e)
	keep := m.conf.KeepAlive
	d.mu.Unlock()
	if p.KeepAlive != "" && !config.KeepAlive(p.KeepAlive, &keep) {
		return nil, ipc.Invalid("keep_alive", `%q is not a time ("5m", "0s" to "8760h"), nor "-1" for ever`, p.KeepAlive)
	}
	loaded := m.sup.Loaded()
	d.mu.Lock()
	m.conf.KeepAlive = keep
	actions := d.life.Want(m.folder, turn.Bytes(e.Size), keep, m.open, time.Now())
	d.mu.Unlock()
	d.act(actions)
	select {
	case err := <-loaded:
		if err != nil {
			return nil, anyError(err)
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.viewLocked(m)
	return &v, nil
}

// anyError is an error of the wire as one of the contract.
func anyError(err error) error {
	var w *wire.Error
	if errors.As(err, &w) {
		return fromWire(w)
	}
	return err
}

// Unload ends a model's process.
func (d *Daemon) Unload(ctx context.Context, name string) error {
	e, err := d.look(name)
	if err != nil {
		return err
	}
	return d.unload(ctx, e)
}

// unload cancels nothing: a model with open turns stays.
func (d *Daemon) unload(ctx context.Context, e *store.Entry) error {
	d.mu.Lock()
	m := d.models[e.Folder]
	if m == nil || m.status.State == lifecycle.Cold {
		d.mu.Unlock()
		return nil
	}
	if n := m.open; n > 0 {
		d.mu.Unlock()
		return ipc.Invalid("model", "%s has %d open turns: cancel them or wait", m.name, n)
	}
	d.life.Drop(m.folder)
	m.sup.Abandon(toWire(ipc.Errorf(ipc.ModelFailed, "%s was unloaded while it was loading", m.name)))
	gone := m.sup.Halt()
	d.mu.Unlock()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Pin keeps a model in memory.
func (d *Daemon) Pin(_ context.Context, p ipc.PinParams) error {
	e, err := d.look(p.Model)
	if err != nil {
		return err
	}
	if p.Pinned && e.Problem != nil {
		return ipc.Errorf(ipc.ModelFailed, "%s can't be loaded: %v", e.Name, e.Problem).With("model", e.Name)
	}
	d.mu.Lock()
	m := d.modelLocked(e)
	d.life.Pin(m.folder, p.Pinned, time.Now())
	var actions []lifecycle.Action
	if p.Pinned && !d.stopping {
		actions = d.life.Want(m.folder, turn.Bytes(e.Size), m.conf.KeepAlive, m.open, time.Now())
	}
	d.bus.Model(d.viewLocked(m), true)
	d.mu.Unlock()
	d.act(actions)
	return nil
}

// Pull makes a model of a local GGUF file. Other names are not here, and
// nothing is fetched.
func (d *Daemon) Pull(ctx context.Context, p ipc.PullParams, progress func(ipc.PullProgress)) (*ipc.PullResult, error) {
	if !strings.EqualFold(filepath.Ext(p.Model), ".gguf") || !filepath.IsAbs(p.Model) {
		if e, err := d.store.Find(p.Model); err == nil {
			return &ipc.PullResult{Model: e.Name, Bytes: turn.Bytes(e.Size)}, nil
		}
		return nil, ipc.Errorf(ipc.ModelNotFound, "no model %q here, and downloads are not supported yet: give the absolute path of a .gguf file", p.Model).
			With("model", p.Model)
	}
	name := p.As
	if name == "" {
		name = strings.ToLower(strings.TrimSuffix(filepath.Base(p.Model), filepath.Ext(p.Model)))
	}
	e, err := d.store.Add(name, func(folder string) error { return importGGUF(ctx, p.Model, folder, progress) })
	var odd *store.NameError
	switch {
	case errors.As(err, &odd):
		return nil, ipc.Invalid("as", "%s", err)
	case err != nil:
		return nil, ipc.Errorf(ipc.ModelFailed, "import %s: %v", p.Model, err).With("model", name)
	}
	return &ipc.PullResult{Model: e.Name, Bytes: turn.Bytes(e.Size)}, nil
}
