package supervise

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/rs/zerolog"

	"ingot/runtime/wire"
)

// Launcher starts one runner process. Its standard error goes to log.
type Launcher func(log zerolog.Logger) (*Process, error)

// Exec returns a Launcher that runs argv with one end of a socketpair as
// descriptor 3. The environment is the daemon's, less what belongs to the
// daemon alone.
func Exec(argv ...string) Launcher {
	return func(log zerolog.Logger) (*Process, error) { return launch(argv, log) }
}

func launch(argv []string, log zerolog.Logger) (*Process, error) {
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	defer theirs.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = scrub(os.Environ())
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = attributes()
	tail := &lastLine{log: log}
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		ours.Close()
		return nil, err
	}
	drained := make(chan struct{})
	go func() { defer close(drained); tail.copy(stderr) }()
	return &Process{
		PID:  cmd.Process.Pid,
		Conn: wire.NewConn(ours),
		Kill: func() { _ = cmd.Process.Kill() }, // fails only if it is gone already
		Wait: func() Exit {
			<-drained
			_ = cmd.Wait() // its state says more
			return exitOf(cmd.ProcessState, tail.text())
		},
	}, nil
}

// socketpair returns both ends; ours is a net.Conn so that Close wakes a
// blocked read.
func socketpair() (net.Conn, *os.File, error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fds[0]), "runner")
	defer f.Close() // FileConn has its own copy
	theirs := os.NewFile(uintptr(fds[1]), "fd3")
	ours, err := net.FileConn(f)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// private are the variables that must not reach a runner: socket activation
// and service notification are addressed to the daemon, and the faults come
// by frame.
var private = []string{"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "INGOT_FAULTS", "INGOT_TOKEN"}

func scrub(env []string) []string {
	var kept []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.Contains(private, name) {
			kept = append(kept, kv)
		}
	}
	return kept
}

// attributes puts the runner in a process group of its own, so that Ctrl-C in
// the daemon's terminal does not reach it. It ends on EOF of descriptor 3.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func exitOf(st *os.ProcessState, last string) Exit {
	e := Exit{Code: st.ExitCode(), Last: last}
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Signal = ws.Signal().String()
	}
	return e
}

// lastLine logs what a runner writes to standard error and remembers the last
// line that tells of trouble.
type lastLine struct {
	log zerolog.Logger

	mu   sync.Mutex
	line string
}

func (l *lastLine) copy(r io.Reader) {
	in := bufio.NewReaderSize(r, 8<<10)
	for {
		line, long, err := in.ReadLine()
		if err != nil {
			return
		}
		if s := strings.TrimSpace(string(line)); s != "" && !long {
			l.take(s)
		}
	}
}

// take logs one line: what the runner logged by itself at its own level,
// anything else (a library's last words) as a warning.
func (l *lastLine) take(line string) {
	var own struct{ Level, Message, Error string }
	level := zerolog.WarnLevel
	if json.Unmarshal([]byte(line), &own) == nil && own.Message != "" {
		level, _ = zerolog.ParseLevel(own.Level)
		line = own.Message
		if own.Error != "" {
			line += ": " + own.Error
		}
	}
	l.log.WithLevel(level).Str("says", line).Msg("runner speaks")
	if level >= zerolog.WarnLevel {
		l.mu.Lock()
		l.line = line
		l.mu.Unlock()
	}
}

func (l *lastLine) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.line
}
