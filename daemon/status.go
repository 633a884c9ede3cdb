package daemon

import (
	"cmp"
	"context"
	"os"
	"slices"
	"time"

	"ingot/daemon/journal"
	"ingot/ipc"
	"ingot/ipc/server"
	"ingot/runtime/turn"
)

// recentTurns is how many finished turns daemon.status lists.
const recentTurns = 20

// Status is the whole state.
func (d *Daemon) Status(context.Context) (*ipc.Status, error) { return d.status(), nil }

// Watch returns the stream of state.
func (d *Daemon) Watch(context.Context) (server.Watch, error) { return d.bus.Watch(), nil }

func (d *Daemon) status() *ipc.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &ipc.Status{
		Version: Version, Protocol: ipc.Protocol, PID: os.Getpid(),
		UptimeS: time.Since(d.born).Seconds(), Socket: d.opt.Socket,
		Models: []ipc.ModelStatus{}, Recent: slices.Clone(d.recent), LastError: d.lastErr,
		Stopping: d.stopping, Faults: d.faults.Count(),
	}
	if s.Recent == nil {
		s.Recent = []ipc.TurnReport{}
	}
	for _, m := range d.listLocked() {
		v := d.viewLocked(m)
		s.Models = append(s.Models, v)
		s.Memory.Active += v.Memory.Active
		s.Memory.Peak += v.Memory.Peak
	}
	s.Memory.Limit = d.life.Budget()
	return s
}

// listLocked returns the models that status lists, by name: those in memory,
// failed or pinned, and the last used ones.
func (d *Daemon) listLocked() []*model {
	var out, cold []*model
	for _, m := range d.models {
		if m.status.State.Resident() || m.status.Err != nil || d.life.Pinned(m.folder) {
			out = append(out, m)
		} else {
			cold = append(cold, m)
		}
	}
	slices.SortFunc(cold, func(a, b *model) int { return b.used.Compare(a.used) })
	out = append(out, cold[:min(len(cold), listed)]...)
	slices.SortFunc(out, func(a, b *model) int { return cmp.Compare(a.name, b.name) })
	return out
}

// viewLocked is one model as clients see it.
func (d *Daemon) viewLocked(m *model) ipc.ModelStatus {
	st, g := &m.status, &m.status.Gauge
	v := ipc.ModelStatus{
		Name: m.name, State: ipc.State(st.State), PID: st.PID, Progress: st.Progress,
		Pinned: d.life.Pinned(m.folder), Restarts: st.Restarts,
		PrefillWidth: g.Width, PrefillWidthMax: g.WidthMax, Reason: g.Reason, TokS: g.TokS,
		Buffers: g.Buffers, Memory: g.Memory,
	}
	v.Queued = min(m.open, g.Queued+st.Open-st.Sent)
	v.Turns = m.open - v.Queued
	if !st.Ready.IsZero() {
		v.LoadedS = time.Since(st.Ready).Seconds()
		if v.Buffers.Limit == 0 { // no gauge yet
			v.Buffers = turn.BufferGauge{Live: st.Info.Buffers, Peak: st.Info.Buffers, Limit: st.Info.Limit}
			v.Memory = turn.MemoryGauge{Active: st.Info.Resident, Peak: st.Info.Resident, Limit: st.Info.Memory}
		}
	}
	if at, ok := d.life.Expires(m.folder); ok {
		left := max(0, time.Until(at).Seconds())
		v.ExpiresS = &left
	}
	if st.Err != nil {
		v.Error = st.Err.Message
	}
	return v
}

// report is what a finished turn leaves behind.
func report(s *journal.Summary) ipc.TurnReport {
	r := ipc.TurnReport{Turn: s.Turn, Model: s.Model, EndedAt: s.Born.Add(s.Took).Unix()}
	if d := s.Event.Done; d != nil {
		r.FinishReason, r.Usage, r.Report = d.FinishReason, d.Usage, d.Report
	}
	if s.Event.Done == nil {
		r.Usage, r.Report.Resumed, r.Report.Seed = s.Usage, s.Resumed, s.Seed
		r.Report.Decode.Tokens = s.Usage.CompletionTokens
	}
	if r.Report.Prefill.Steps == nil {
		r.Report.Prefill.Steps = []turn.PrefillStep{}
	}
	if f := s.Event.Failure; f != nil {
		e := ipc.FromWire(f.Code, f.Message, f.Data)
		r.Error = &ipc.Trouble{Name: e.Name, Message: e.Message, Model: s.Model, At: r.EndedAt}
	}
	return r
}

// troubleLocked records an error that no turn carries.
func (d *Daemon) troubleLocked(e *ipc.Error, model string) {
	t := ipc.Trouble{Name: e.Name, Message: e.Message, Model: model, At: time.Now().Unix()}
	d.lastErr = &t
	d.bus.Notice(t)
}
