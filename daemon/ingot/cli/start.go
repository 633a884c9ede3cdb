package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ingot/ipc/socket"
)

// startPatience bounds the wait for a new daemon's socket.
const startPatience = 20 * time.Second

// need returns once a daemon answers on the socket, starting one if none
// does. Of many that start at once, one does it and the others wait.
func (a *app) need() error {
	path, err := a.path()
	if err != nil {
		return err
	}
	if up, err := answers(a.ctx, path, 0); up || err != nil {
		return err
	}
	home, err := socket.Home()
	if err != nil {
		return err
	}
	lock, err := lockStart(home)
	if err != nil {
		return err
	}
	defer lock.Close()
	if up, err := answers(a.ctx, path, 0); up || err != nil {
		return err
	}
	return a.spawn(home, path)
}

// running fails with errNoDaemon when none answers.
func (a *app) running() error {
	path, err := a.path()
	if err != nil {
		return err
	}
	up, err := answers(a.ctx, path, 0)
	if err == nil && !up {
		return fmt.Errorf("%w on %s", errNoDaemon, path)
	}
	return err
}

func (a *app) path() (string, error) {
	if a.socket != "" {
		return filepath.Abs(a.socket)
	}
	return socket.Path()
}

// answers reports whether somebody listens on path, within patience.
func answers(ctx context.Context, path string, patience time.Duration) (bool, error) {
	c, err := socket.Dial(ctx, path, patience)
	if err == nil {
		c.Close()
		return true, nil
	}
	if errors.Is(err, socket.ErrAbsent) {
		return false, nil
	}
	return false, err
}

func lockStart(home string) (*os.File, error) {
	run := filepath.Join(home, "run")
	if err := os.MkdirAll(run, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(run, "start.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
}

// spawn starts the daemon in a session of its own and waits for its socket.
func (a *app) spawn(home, path string) error {
	program, err := daemonProgram()
	if err != nil {
		return err
	}
	out, err := openOutput(home)
	if err != nil {
		return err
	}
	defer out.Close()
	from, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	cmd := exec.Command(program)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Dir = home // not the caller's folder, which may want to be unmounted
	cmd.Env = append(os.Environ(), "INGOT_SOCKET="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	return a.awaitStart(cmd, path, func() string { return tail(out, from) })
}

// awaitStart waits until the socket answers or the daemon has ended; said is
// what it wrote.
func (a *app) awaitStart(cmd *exec.Cmd, path string, said func() string) error {
	alive, cancel := context.WithCancel(a.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); cancel() }()
	up, err := answers(alive, path, startPatience)
	if up {
		return a.onlyOne(cmd, ended)
	}
	select {
	case <-ended:
	default:
		if err != nil {
			return err
		}
		return fmt.Errorf("%s was started (pid %d) but its socket %s did not answer within %s: %s",
			cmd.Path, cmd.Process.Pid, path, startPatience, said())
	}
	if socket.Owned(path) { // somebody else's was quicker, and is not there quite yet
		if up, err := answers(a.ctx, path, startPatience); up || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s ended at once (%s): %s", cmd.Path, cmd.ProcessState, said())
}

// onlyOne makes sure that the daemon of cmd is the one that answers. When
// somebody else's was quicker, cmd's might come up only after that one has been
// stopped: it is ended now.
func (a *app) onlyOne(cmd *exec.Cmd, ended <-chan error) error {
	st, err := a.client.Status(a.ctx)
	if err != nil || st.PID == cmd.Process.Pid {
		return err
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	<-ended
	return nil
}

func openOutput(home string) (*os.File, error) {
	logs := filepath.Join(home, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(logs, "ingotd.out"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
}

// tail returns what was written to f since from, its last 2 KiB.
func tail(f *os.File, from int64) string {
	all, err := io.ReadAll(io.NewSectionReader(f, from, 1<<20))
	if err != nil {
		return err.Error()
	}
	all = bytes.TrimSpace(all)
	if len(all) > 2048 {
		all = all[len(all)-2048:]
	}
	if len(all) == 0 {
		return "it said nothing; see " + f.Name()
	}
	return string(all)
}

// daemonProgram finds ingotd beside this program, else on PATH.
func daemonProgram() (string, error) {
	if self, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		p := filepath.Join(filepath.Dir(self), "ingotd")
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
			return p, nil
		}
	}
	p, err := exec.LookPath("ingotd")
	if err != nil {
		return "", fmt.Errorf("find ingotd beside ingot or on PATH: %w", err)
	}
	return p, nil
}
