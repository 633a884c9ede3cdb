package supervise

import (
	"errors"
	"fmt"
	"io"
	"time"

	"ingot/runtime/wire"
)

// Process is one running runner.
type Process struct {
	PID  int
	Conn *wire.Conn
	Kill func()      // SIGKILL; any number of times, before Wait returns
	Wait func() Exit // blocks until the process is reaped; once
}

// Exit is how a process ended.
type Exit struct {
	Code   int    // -1: by a signal
	Signal string // "" unless by one
	Last   string // the last line it wrote to standard error
}

func (e Exit) String() string {
	s := fmt.Sprintf("exit status %d", e.Code)
	if e.Signal != "" {
		s = "signal " + e.Signal
	}
	if e.Last != "" {
		s += ": " + e.Last
	}
	return s
}

// generation is one process from its start until it is reaped. The
// supervisor's goroutine owns the fields; read and write run beside it.
type generation struct {
	s    *Supervisor
	proc *Process
	out  *queue[wire.Message]

	stopping bool          // Stop was sent
	heard    time.Time     // the last sign of progress
	predict  time.Duration // of the step now running
	deadline time.Time     // when it is killed; zero: not
	why      string        // why it is killed
	killed   time.Time     // when SIGKILL went out
}

func newGeneration(s *Supervisor, p *Process) *generation {
	g := &generation{s: s, proc: p, out: newQueue[wire.Message](), heard: time.Now()}
	go g.write()
	go g.read()
	return g
}

func (g *generation) alive() { g.heard = time.Now() }

func (g *generation) send(m wire.Message) { g.out.put(m) }

// write sends what the supervisor queued; only this goroutine waits for a
// runner that does not read.
func (g *generation) write() {
	for range g.out.ready {
		ms, closed := g.out.take()
		if len(ms) > 0 {
			if err := g.proc.Conn.Send(ms...); err != nil {
				g.s.in.put(func() { g.broken(err) })
				return
			}
		}
		if closed {
			return
		}
	}
}

// read passes frames on until the stream ends, then reaps the process. All
// that the runner wrote before its death is handled before the death.
func (g *generation) read() {
	for {
		m, err := g.proc.Conn.Recv()
		if err != nil {
			g.s.in.put(func() { g.broken(err) })
			break
		}
		g.s.in.put(func() {
			if g.s.gen == g {
				g.s.frame(m)
			}
		})
	}
	exit := g.proc.Wait()
	g.out.close()
	g.proc.Conn.Close()
	g.s.in.put(func() { g.s.died(exit) })
}

// broken handles the end of the stream. A runner ends by itself then; one
// that does not, or that wrote rubbish, is killed.
func (g *generation) broken(err error) {
	if g.s.gen != g {
		return
	}
	if errors.Is(err, wire.ErrFrame) {
		g.kill(err.Error())
		return
	}
	why := "it closed its descriptor and went on"
	if !errors.Is(err, io.EOF) {
		why = err.Error()
	}
	g.killBy(time.Now().Add(2*time.Second), why)
}

// killBy sets the deadline, unless an earlier one stands.
func (g *generation) killBy(t time.Time, why string) {
	if g.deadline.IsZero() || t.Before(g.deadline) {
		g.deadline, g.why = t, why
	}
}

func (g *generation) kill(why string) {
	if !g.killed.IsZero() {
		return
	}
	g.killed, g.why = time.Now(), why
	g.s.opt.Log.Warn().Int("runner", g.proc.PID).Str("why", why).Msg("runner killed")
	g.proc.Kill()
}
