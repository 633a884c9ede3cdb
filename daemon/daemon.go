// Package daemon is the wiring of the control plane: it answers what the
// socket's server asks (ipc/server.Backend) with the journal, the
// supervisors, the lifecycle, the bus and the catalogue.
//
// It owns the models that are or were in use and the record of recent turns.
// Any goroutine may call. It computes nothing itself: no MLX and no cgo are
// in its address space, and a model that dies takes down its own process
// alone.
package daemon

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"ingot/daemon/bus"
	"ingot/daemon/config"
	"ingot/daemon/journal"
	"ingot/daemon/lifecycle"
	"ingot/daemon/supervise"
	"ingot/ipc"
	"ingot/ipc/server"
	"ingot/models/store"
	"ingot/runtime/turn"
)

// Version of the build. The linker may set it.
var Version = "0.1.0"

// Options of a daemon.
type Options struct {
	Home     string             // INGOT_HOME, absolute
	Socket   string             // path of the socket
	Runner   []string           // argv of the runner; empty: ingot-runner beside this program
	Launch   supervise.Launcher // starts runners; nil: as processes of Runner
	Faults   string             // INGOT_FAULTS
	Verbose  bool               // log to standard error too
	Config   *config.Config
	Pressure func() lifecycle.Level // how short of memory the system is; nil: asks it
	Log      io.WriteCloser         // takes the log; nil: a file in Home that is rotated
}

// Daemon answers the server.
type Daemon struct {
	opt     Options
	cfg     *config.Config
	log     zerolog.Logger
	logs    *logFile
	store   *store.Store
	journal *journal.Journal
	bus     *bus.Bus
	faults  *supervise.Faults
	born    time.Time
	inspect inspections

	quitOnce sync.Once
	quit     chan struct{} // closed by Stop
	done     chan struct{} // closed by Close
	ticking  sync.WaitGroup

	mu       sync.Mutex
	life     *lifecycle.Manager
	models   map[string]*model  // by folder
	turns    map[turn.ID]*model // live ones
	recent   []ipc.TurnReport   // the last 20, oldest first
	lastErr  *ipc.Trouble
	pressure lifecycle.Level
	stopping bool
}

var _ server.Backend = (*Daemon)(nil)

// New returns a daemon that serves nobody yet. Close ends it.
func New(opt Options) (*Daemon, error) {
	if opt.Config == nil {
		opt.Config = config.Default()
	}
	if len(opt.Runner) == 0 {
		runner, err := beside("ingot-runner")
		if err != nil {
			return nil, err
		}
		opt.Runner = []string{runner}
	}
	if opt.Launch == nil {
		opt.Launch = supervise.Exec(opt.Runner...)
	}
	if opt.Pressure == nil {
		opt.Pressure = systemPressure
	}
	logs, err := openLog(opt.Home, opt.Config.LogLevel, opt.Verbose, opt.Log)
	if err != nil {
		return nil, err
	}
	d := &Daemon{
		opt: opt, cfg: opt.Config, logs: logs, log: logs.log, born: time.Now(),
		store:  store.Open(filepath.Join(opt.Home, "models")),
		faults: supervise.NewFaults(opt.Faults),
		quit:   make(chan struct{}), done: make(chan struct{}),
		life:   lifecycle.New(opt.Config.MemoryBudget.Of(physicalMemory()), opt.Config.BufferLimit),
		models: map[string]*model{}, turns: map[turn.ID]*model{},
	}
	d.bus = bus.New(d.status)
	d.journal = journal.New(journal.Options{Linger: max(d.cfg.Linger, 1), Flow: d.flow, Gone: d.gone, Ended: d.finished})
	d.ticking.Go(d.tick)
	return d, nil
}

// beside returns the path of a program in the folder of this one.
func beside(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	return filepath.Join(filepath.Dir(self), name), nil
}

// tick drives everything that time alone moves.
func (d *Daemon) tick() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-d.done:
			return
		}
		d.journal.Sweep()
		d.mu.Lock()
		actions := append(d.life.Tick(time.Now()), d.pressLocked(time.Now())...)
		d.restTextLocked(time.Now())
		d.mu.Unlock()
		d.act(actions)
	}
}

// Stop begins the daemon's end; Quit tells.
func (d *Daemon) Stop(context.Context) error {
	d.quitOnce.Do(func() { close(d.quit) })
	return nil
}

// Quit is closed once somebody has asked the daemon to stop.
func (d *Daemon) Quit() <-chan struct{} { return d.quit }

// Drain refuses new turns, lets the live ones go on for as long as the
// configuration says, and ends the rest with shutting_down.
func (d *Daemon) Drain(ctx context.Context) {
	d.mu.Lock()
	d.stopping = true
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Drain)
	defer cancel()
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for len(d.journal.Live()) > 0 {
		select {
		case <-t.C:
			continue
		case <-ctx.Done():
		}
		break
	}
	for _, id := range d.journal.Live() {
		d.fail(id, errStopping())
	}
}

func errStopping() *ipc.Error {
	return ipc.Errorf(ipc.ShuttingDown, "the daemon is stopping").With("retry_after_s", 2)
}

// Close ends every runner, by force once ctx ends, and what else the daemon
// holds.
func (d *Daemon) Close(ctx context.Context) {
	d.mu.Lock()
	d.stopping = true
	var all []*supervise.Supervisor
	for _, m := range d.models {
		all = append(all, m.sup)
		if m.text != nil {
			all = append(all, m.text)
		}
	}
	d.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(func() { s.Close(ctx, toWire(errStopping())) })
	}
	wg.Wait()
	close(d.done)
	d.ticking.Wait()
	d.bus.Close()
	d.logs.Close()
}
