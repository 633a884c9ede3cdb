package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingot/ipc"
	"ingot/ipc/client"
	"ingot/ipc/socket"
)

// Bounds on the idle daemon. The best of a few starts is held to the first: a
// machine that is busy elsewhere makes single ones slow.
const (
	mostStart = 100 * time.Millisecond
	mostIdle  = 40 << 10 // kB resident
	starts    = 7
)

func TestTheDaemonIsThereAtOnceAndSmall(t *testing.T) {
	var best time.Duration = time.Hour
	for range starts {
		home := t.TempDir()
		sock := filepath.Join(home, "s")
		cmd := exec.Command(filepath.Join(realBin, "ingotd"))
		cmd.Env = append(os.Environ(), "INGOT_HOME="+home, "INGOT_SOCKET="+sock)
		from := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		c := &client.Client{Socket: sock, Patience: patience}
		if _, err := c.Status(context.Background()); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(from))
		if kb := rss(t, cmd.Process.Pid); kb > mostIdle {
			t.Errorf("idle, the daemon holds %d kB, at most %d", kb, mostIdle)
		}
		if err := c.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("from start to the first answer: %v", best)
	if best > mostStart {
		t.Errorf("from start to the first answer %v, at most %v", best, mostStart)
	}
}

// TestSocketActivation: the system holds the socket and hands it over; the
// runner does not inherit what was meant for the daemon.
func TestSocketActivation(t *testing.T) {
	starter, err := starterFolder()
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "ingot-home-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	sock := filepath.Join(home, "given")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: sock, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	// The shell becomes the daemon, so that LISTEN_PID can be its own number.
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$0"`, filepath.Join(fakeBin, "ingotd"))
	cmd.Env = append(os.Environ(), "INGOT_HOME="+home, "INGOT_SOCKET="+filepath.Join(home, "unused"))
	cmd.ExtraFiles = []*os.File{file}
	c := &client.Client{Socket: sock}
	if conn, err := socket.Dial(context.Background(), sock, time.Second); err != nil { // before the daemon is there
		t.Fatal(err)
	} else {
		defer conn.Close()
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m, err := c.Load(context.Background(), ipc.LoadParams{Model: starter})
	if err != nil {
		t.Fatal(err)
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", m.PID))
	if err != nil || strings.Contains(string(env), "LISTEN_") {
		t.Errorf("the runner's environment: %v, %q", err, env)
	}
	if err := c.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(sock); err != nil {
		t.Errorf("the system's socket is gone: %v", err)
	}
}
