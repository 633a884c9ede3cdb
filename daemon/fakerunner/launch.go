package fakerunner

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"ingot/daemon/supervise"
	"ingot/runtime/wire"
)

// Fleet launches fake runners in this process and can kill them.
type Fleet struct {
	Options Options // of every runner
	Deaf    bool    // SIGKILL does not end them, as in a stuck driver

	launched atomic.Int32
	mu       sync.Mutex
	last     *life
	alive    int
}

// life is one runner of a fleet.
type life struct {
	fleet *Fleet
	pid   int
	ours  net.Conn
	once  sync.Once
	exit  supervise.Exit
	done  chan struct{}
}

// Launch is a supervise.Launcher.
func (f *Fleet) Launch(zerolog.Logger) (*supervise.Process, error) {
	a, b := net.Pipe()
	l := &life{fleet: f, pid: int(f.launched.Add(1)), ours: b, done: make(chan struct{})}
	f.mu.Lock()
	f.last = l
	f.alive++
	f.mu.Unlock()
	opt := f.Options
	opt.Exit = func(code int) { l.end(supervise.Exit{Code: code}) }
	go func() { opt.Exit(Run(b, opt)) }()
	return &supervise.Process{
		PID: l.pid, Conn: wire.NewConn(a),
		Kill: func() {
			if !f.Deaf {
				l.kill()
			}
		},
		Wait: func() supervise.Exit { <-l.done; return l.exit },
	}, nil
}

func (l *life) kill() { l.end(supervise.Exit{Code: -1, Signal: "killed"}) }

func (l *life) end(e supervise.Exit) {
	l.once.Do(func() {
		l.exit = e
		l.fleet.mu.Lock()
		l.fleet.alive--
		l.fleet.mu.Unlock()
		l.ours.Close()
		close(l.done)
	})
}

// Kill ends the runner that was launched last, as kill -9 does.
func (f *Fleet) Kill() {
	f.mu.Lock()
	l := f.last
	f.mu.Unlock()
	if l != nil {
		l.kill()
	}
}

// Launched counts the runners so far, Alive those that have not ended.
func (f *Fleet) Launched() int { return int(f.launched.Load()) }

// Alive counts the runners that have not ended.
func (f *Fleet) Alive() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.alive
}
