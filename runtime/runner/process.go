package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"ingot/runtime/runner/faults"
	"ingot/runtime/sched"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// Options of a process. Zero values are those of the real one.
type Options struct {
	Log  zerolog.Logger
	Exit func(code int) // ends the process at once; nil: os.Exit
	Kill func()         // as SIGKILL does; nil: SIGKILL to ourselves

	TextOnly bool // load no weights, whatever Hello says
}

// process is a runner between its first frame and its end.
type process struct {
	opt    Options
	conn   *wire.Conn
	hello  *wire.Hello
	limit  turn.Buffers // INGOT_RSRC_LIMIT; 0: none
	faults *faults.Set
	words  Words

	turns   turns
	work    sync.WaitGroup // turns and asks
	granted atomic.Pointer[wire.Grant]

	ready    chan struct{} // closed once sched is set, or never
	sched    *sched.Scheduler
	model    *Model
	defaults Defaults

	stop     context.CancelFunc
	stopping context.Context
}

// Run serves fd 3's other end until it says Stop or is gone, and returns the
// exit code. The end of the stream, however, ends the process from within:
// Run may be waiting for the device, and need not return.
func Run(rw io.ReadWriteCloser, l Loader, o Options) int {
	if o.Exit == nil {
		o.Exit = os.Exit
	}
	if o.Kill == nil {
		o.Kill = killSelf
	}
	p := &process{opt: o, conn: wire.NewConn(rw), ready: make(chan struct{})}
	p.stopping, p.stop = context.WithCancel(context.Background())
	defer p.stop()
	m, err := p.conn.Recv()
	if err != nil {
		return p.lost(err)
	}
	hello, ok := m.(*wire.Hello)
	if !ok || hello.Version != wire.Version {
		o.Log.Error().Type("frame", m).Msg("first frame is not the Hello of this version")
		return wire.ExitWire
	}
	if o.TextOnly {
		hello.Mode = wire.ModeText
	}
	p.hello = hello
	return p.serve(l)
}

// serve loads what the mode needs, then works until Stop.
func (p *process) serve(l Loader) int {
	if err := p.prepare(); err != nil {
		return p.failed(err)
	}
	var err error
	if p.words, err = l.Words(p.hello.Folder); err != nil {
		return p.failed(err)
	}
	defer p.words.Close()
	go p.read()
	if p.hello.Mode == wire.ModeText {
		p.send(&wire.Ready{Version: wire.Version})
		<-p.stopping.Done()
		p.work.Wait()
		return wire.ExitOK
	}
	if err := p.load(l); err != nil {
		return p.failed(err)
	}
	defer p.model.Close()
	return p.run()
}

// prepare reads what may be nonsense before anything is loaded.
func (p *process) prepare() (err error) {
	if p.limit, err = limitFromEnv(); err != nil {
		return err
	}
	p.hello.Grant.Buffers = below(p.hello.Grant.Buffers, p.limit)
	p.faults, err = faults.Parse(p.hello.Faults, p.fired)
	return err
}

// load brings the model up.
func (p *process) load(l Loader) error {
	if err := p.faults.Load(p.hello.Nth); err != nil {
		return err
	}
	var err error
	if p.defaults, err = ReadDefaults(os.DirFS(p.hello.Folder)); err != nil {
		return err
	}
	from := time.Now()
	if p.model, err = l.Model(p.hello, p.progress()); err != nil {
		return err
	}
	p.model.Info.LoadMS = float64(time.Since(from)) / float64(time.Millisecond)
	return nil
}

// progress returns a function that tells the daemon of a load's progress: a
// few times a second, and of its end.
func (p *process) progress() func(float64) {
	const pause = 200 * time.Millisecond
	var mu sync.Mutex
	var next time.Time
	return func(f float64) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); f >= 1 || !now.Before(next) {
			next = now.Add(pause)
			p.send(&wire.Loading{Progress: f})
		}
	}
}

// run schedules turns until Stop or a device error.
func (p *process) run() int {
	g := newGauges(p.send)
	cfg := schedConfig(p.hello.Policy, p.words)
	cfg.Watch = g.watch
	engine := p.faults.Wrap(p.model.Engine, p.model.Alloc, p.opt.Kill)
	p.sched = sched.New(engine, p.model.Planner, cfg)
	close(p.ready)
	p.send(&wire.Ready{Version: wire.Version, Info: p.model.Info})
	p.opt.Log.Info().Str("model", p.hello.Model).Str("family", p.model.Info.Family).Float64("load_ms", p.model.Info.LoadMS).Msg("ready")

	gone := make(chan struct{})
	var gauge sync.WaitGroup
	gauge.Go(func() { g.run(gone) })
	err := p.sched.Run(p.stopping)
	p.work.Wait() // every turn has its end by now; its frames go out
	close(gone)
	gauge.Wait()
	if err != nil {
		p.opt.Log.Error().Err(err).Msg("device lost")
		return wire.ExitDevice
	}
	return wire.ExitOK
}

func schedConfig(p wire.Policy, w Words) sched.Config {
	return sched.Config{MaxTurns: p.MaxTurns, MaxQueue: p.MaxQueue, Context: p.Context, Grid: p.PrefillStep, EOS: w.StopIDs()}
}

// read handles frames as they come. It waits for nothing but the next one.
func (p *process) read() {
	for {
		m, err := p.conn.Recv()
		if err != nil {
			p.opt.Exit(p.lost(err))
			p.stop() // in tests, where Exit returns
			return
		}
		p.frame(m)
	}
}

// lost is the exit code for the end of the stream.
func (p *process) lost(err error) int {
	if errors.Is(err, wire.ErrFrame) {
		p.opt.Log.Error().Err(err).Msg("unreadable frame")
		return wire.ExitWire
	}
	return wire.ExitOK
}

func (p *process) frame(m wire.Message) {
	switch m := m.(type) {
	case *wire.Submit:
		if p.turns.add(m.Turn) {
			p.spawn(func() { p.serveTurn(m) })
		}
	case *wire.Cancel:
		p.turns.cancel(m.Turn)
	case *wire.Flow:
		p.turns.flow(m)
	case *wire.Ask:
		p.spawn(func() { p.send(answer(p.words, m)) })
	case *wire.Grant:
		p.granted.Store(m)
		p.spawn(p.grant)
	case *wire.Stop:
		p.stop()
	default:
		p.opt.Log.Warn().Type("frame", m).Msg("frame that no daemon sends")
	}
}

// spawn runs f beside the reader; Stop waits for it.
func (p *process) spawn(f func()) { p.work.Go(f) }

// grant passes the newest limits on, once there is something to limit.
func (p *process) grant() {
	if p.awaitReady() {
		g := p.granted.Load()
		p.sched.SetGrant(below(g.Buffers, p.limit), g.Bytes)
	}
}

// awaitReady reports false if the process stops instead.
func (p *process) awaitReady() bool {
	select {
	case <-p.ready:
		return true
	case <-p.stopping.Done():
		return false
	}
}

// send writes a frame. A daemon that is gone is the reader's business.
func (p *process) send(m wire.Message) {
	if err := p.conn.Send(m); err != nil {
		p.opt.Log.Debug().Err(err).Type("frame", m).Msg("frame not sent")
	}
}

// fired tells the daemon of a fault before it does its harm.
func (p *process) fired(name string, left int) {
	p.send(&wire.Fault{Name: name, Left: left})
}

// failed tells why nothing was loaded.
func (p *process) failed(err error) int {
	p.opt.Log.Error().Err(err).Str("folder", p.hello.Folder).Msg("load failed")
	p.send(&wire.Failed{Error: loadFailed(err)})
	return wire.ExitLoad
}

// serveTurn takes one turn from its submission to its last frame.
func (p *process) serveTurn(m *wire.Submit) {
	defer p.turns.remove(m.Turn)
	if err := p.speak(m); err != nil {
		p.send(&wire.End{Turn: m.Turn, Error: named(err)})
	}
}

// speak runs a turn. An error is the turn's end and has not been told.
func (p *process) speak(m *wire.Submit) error {
	ids, err := prompt(p.words, m)
	if err != nil {
		return err
	}
	if !p.awaitReady() {
		return sched.ErrClosed
	}
	params := m.Params
	if m.Resume == nil {
		p.defaults.Fill(&params, m.Given)
	}
	params.N = max(params.N, 1)
	params.Deterministic = params.Deterministic || p.hello.Policy.Deterministic
	if err := errors.Join(params.Validate(), checkIDs(ids, &params, p.model.Info.Vocab)); err != nil {
		return err
	}
	if m.Resume == nil {
		p.send(&wire.Prompt{Turn: m.Turn, Tokens: ids, Params: params})
	}
	return p.follow(m, sched.Request{ID: m.Turn, Prompt: ids, Params: params, Resume: resumeOf(m.Resume)})
}

// follow submits a turn and passes its updates on.
func (p *process) follow(m *wire.Submit, r sched.Request) error {
	h, err := p.sched.Submit(r)
	if err != nil {
		return err
	}
	p.turns.started(m.Turn, h)
	s, err := newSpeaker(p.words, m, r.Prompt, &r.Params, func(c int) { h.Finish(c, turn.FinishStop) })
	if err != nil {
		return drop(h, err)
	}
	defer s.close()
	if f := s.catchUp(); f != nil {
		p.send(f)
	}
	for u, ok := h.Next(); ok; u, ok = h.Next() {
		f, err := s.frame(u)
		if err != nil {
			return drop(h, err)
		}
		if f != nil {
			p.send(f)
		}
		if u.End != nil {
			if e := s.end(u.End); e != nil {
				p.send(e)
			}
		}
	}
	return nil
}

// drop cancels a turn that can't be told, and waits for its end.
func drop(h *sched.Handle, err error) error {
	h.Cancel()
	for _, ok := h.Next(); ok; _, ok = h.Next() {
	}
	return fmt.Errorf("runner: %w", err)
}

func resumeOf(r *wire.Resume) *sched.Resume {
	if r == nil {
		return nil
	}
	out := &sched.Resume{Cached: r.Cached}
	for _, d := range r.Choices {
		out.Choices = append(out.Choices, sched.Delivered(d))
	}
	return out
}
