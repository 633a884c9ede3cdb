package daemon

import (
	"time"

	"ingot/daemon/config"
	"ingot/daemon/lifecycle"
	"ingot/daemon/supervise"
	"ingot/ipc"
	"ingot/models/store"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// listed is how many models that were used and are cold daemon.status still
// lists.
const listed = 20

// textIdle is how long a text-only runner stays without a question.
const textIdle = time.Minute

// model is one model that is or was in use.
type model struct {
	name   string
	folder string
	conf   config.Model
	sup    *supervise.Supervisor

	// Guarded by Daemon.mu.
	text     *supervise.Supervisor // text-only; nil until it is needed
	textUsed time.Time
	textBusy int
	status   supervise.Status
	open     int // turns not ended
	used     time.Time
}

// modelLocked returns the record of a model, making it at its first use.
func (d *Daemon) modelLocked(e *store.Entry) *model {
	m := d.models[e.Folder]
	if m == nil {
		m = &model{name: e.Name, folder: e.Folder, conf: d.cfg.For(e.Name, e.Full), status: supervise.Status{State: lifecycle.Cold}}
		m.sup = d.supervisor(m, wire.ModeFull, func(st supervise.Status) { d.changed(m, st) })
		d.models[e.Folder] = m
		d.pruneLocked()
	}
	m.used = time.Now()
	return m
}

func (d *Daemon) supervisor(m *model, mode wire.Mode, changed func(supervise.Status)) *supervise.Supervisor {
	faults := d.faults
	if mode == wire.ModeText {
		faults = nil // they are about devices and loads
	}
	return supervise.New(supervise.Options{
		Model: m.name, Folder: m.folder, Mode: mode,
		Policy: wire.Policy{
			PrefillStep: m.conf.PrefillStep, MaxStepMS: milliseconds(m.conf.MaxStep), RideStepMS: milliseconds(m.conf.RideStep),
			Deterministic: m.conf.Deterministic, MaxTurns: m.conf.MaxTurns, MaxQueue: m.conf.MaxQueue, Context: m.conf.Context,
		},
		Launch:   d.opt.Launch,
		Turns:    turns{d},
		Faults:   faults,
		Log:      d.log.With().Str("model", m.name).Logger(),
		Changed:  changed,
		Watchdog: m.conf.Watchdog,
	})
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// pruneLocked forgets the models that were cold for longest.
func (d *Daemon) pruneLocked() {
	for len(d.models) > 2*listed {
		var old *model
		for _, m := range d.models {
			idle := m.open == 0 && !m.status.State.Resident() && m.text == nil && !d.life.Pinned(m.folder)
			if idle && !m.used.IsZero() && (old == nil || m.used.Before(old.used)) {
				old = m
			}
		}
		if old == nil {
			return
		}
		delete(d.models, old.folder)
		old.sup.Retire()
		d.bus.Removed(old.name)
	}
}

// changed takes a supervisor's word: it is called from its goroutine.
func (d *Daemon) changed(m *model, st supervise.Status) {
	d.mu.Lock()
	was := m.status
	m.status = st
	notable := was.State != st.State || was.PID != st.PID || was.Restarts != st.Restarts || was.Open != st.Open
	actions := d.life.Report(m.folder, st.State, m.open, st.Open, time.Now())
	if st.Err != nil && was.Err != st.Err {
		d.troubleLocked(fromWire(st.Err), m.name)
	}
	d.bus.Model(d.viewLocked(m), notable) // within the lock: no older view after a newer one
	d.mu.Unlock()
	d.act(actions)
}

// act carries out what the lifecycle decided. Nothing here waits.
func (d *Daemon) act(actions []lifecycle.Action) {
	for _, a := range actions {
		d.mu.Lock()
		m := d.models[a.Model]
		d.mu.Unlock()
		if m == nil {
			continue
		}
		switch a.Do {
		case lifecycle.Start:
			m.sup.Start(a.Grant)
		case lifecycle.Stop:
			m.sup.Halt()
		case lifecycle.Regrant:
			m.sup.Grant(a.Grant)
		case lifecycle.Refuse:
			m.sup.Refuse(toWire(ipc.Errorf(ipc.NoRoom, "%s does not fit beside the pinned models: unpin one, or raise memory_budget", m.name).
				With("need", a.Need).With("have", a.Have).With("retry_after_s", 30)))
		}
	}
}

// textLocked returns the supervisor of the model's text-only runner.
func (d *Daemon) textLocked(m *model) *supervise.Supervisor {
	if m.text == nil {
		m.text = d.supervisor(m, wire.ModeText, nil)
	}
	m.textUsed = time.Now()
	return m.text
}

// restTextLocked ends text-only runners that nobody asks any more.
func (d *Daemon) restTextLocked(now time.Time) {
	for _, m := range d.models {
		if m.text != nil && m.textBusy == 0 && now.Sub(m.textUsed) > textIdle {
			m.text.Retire()
			m.text = nil
		}
	}
}

// flow parks a turn in its runner, or lets it go on.
func (d *Daemon) flow(id turn.ID, parked bool) {
	if m := d.modelOf(id); m != nil {
		m.sup.Flow(id, parked)
	}
}

// gone ends a turn whose client will not come back.
func (d *Daemon) gone(id turn.ID) {
	if m := d.modelOf(id); m != nil {
		m.sup.Cancel(id)
	}
}

func (d *Daemon) modelOf(id turn.ID) *model {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.turns[id]
}
