package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ingot/ipc"
	"ingot/ipc/client"
	"ingot/ipc/socket"
)

// patience bounds everything that a script waits for.
const patience = 60 * time.Second

// stage is what one script carries along.
type stage struct {
	bin    string
	daemon *running
	conn   net.Conn
	in     *bufio.Reader
}

type stageKey struct{}

func stageOf(ts *testscript.TestScript) *stage { return ts.Value(stageKey{}).(*stage) }

// running is a daemon that a script started.
type running struct {
	cmd  *exec.Cmd
	errs bytes.Buffer
	once sync.Once
	err  error
}

// stop sends SIGTERM once and waits.
func (r *running) stop() error {
	r.once.Do(func() {
		_ = r.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		r.err = r.cmd.Wait()
	})
	return r.err
}

func cmdDaemon(ts *testscript.TestScript, neg bool, args []string) {
	st := stageOf(ts)
	if st.daemon != nil && !neg {
		_ = st.daemon.stop()
	}
	cmd := exec.Command(filepath.Join(st.bin, "ingotd"), args...)
	cmd.Dir, cmd.Env = ts.Getenv("WORK"), environ(ts)
	r := &running{cmd: cmd}
	cmd.Stderr = &r.errs
	ts.Check(cmd.Start())
	if neg {
		if err := cmd.Wait(); err == nil {
			ts.Fatalf("the daemon ran and ended well")
		}
		_, _ = ts.Stderr().Write(r.errs.Bytes())
		return
	}
	ts.Defer(func() { _ = r.stop() })
	st.daemon = r
	c, err := socket.Dial(context.Background(), ts.Getenv("INGOT_SOCKET"), patience)
	if err != nil {
		ts.Fatalf("the daemon does not answer: %v\n%s", err, r.errs.Bytes())
	}
	c.Close()
}

// environ is the script's environment for a process.
func environ(ts *testscript.TestScript) []string {
	env := os.Environ()
	for _, name := range []string{"PATH", "HOME", "INGOT_HOME", "INGOT_SOCKET", "INGOT_RSRC_LIMIT", "INGOT_FAULTS", "FAKE_LOAD", "FAKE_FAIL", "FAKE_STUBBORN"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func cmdSigterm(ts *testscript.TestScript, neg bool, _ []string) {
	r := stageOf(ts).daemon
	if r == nil {
		ts.Fatalf("no daemon was started")
	}
	from := time.Now()
	if err := r.stop(); (err != nil) != neg {
		ts.Fatalf("the daemon ended with %v\n%s", err, r.errs.Bytes())
	}
	ts.Logf("ended after %v", time.Since(from).Round(10*time.Millisecond))
	_, _ = ts.Stderr().Write(r.errs.Bytes())
}

// cmdRPC prints every line of a fresh connection until the response, and of a
// stream the final event.
func cmdRPC(ts *testscript.TestScript, neg bool, args []string) {
	c := dial(ts)
	defer c.Close()
	line := request(ts, args)
	_, err := c.Write(append(line, '\n'))
	ts.Check(err)
	in := bufio.NewReader(c)
	for {
		got, err := in.ReadBytes('\n')
		_, _ = ts.Stdout().Write(got)
		if err != nil {
			ts.Fatalf("%s: %v", line, err)
		}
		if last, failed := ends(got); last {
			if failed != neg {
				ts.Fatalf("%s: failed is %v", line, failed)
			}
			return
		}
	}
}

// ends reports whether a line is the last of its call, and tells a failure.
func ends(line []byte) (last, failed bool) {
	var m struct {
		Method string
		Error  *json.RawMessage
		Result struct{ Turn string }
		Params struct{ Type string }
	}
	_ = json.Unmarshal(line, &m) // what is no JSON ends nothing
	switch {
	case m.Method == "":
		return m.Result.Turn == "", m.Error != nil
	case m.Method == ipc.NoteTurn:
		return m.Params.Type == "done" || m.Params.Type == "error", m.Params.Type == "error"
	}
	return false, false
}

// request is the one argument, or the content of the file it names with @.
func request(ts *testscript.TestScript, args []string) []byte {
	if len(args) != 1 {
		ts.Fatalf("want one argument, a request or @FILE")
	}
	if name, ok := strings.CutPrefix(args[0], "@"); ok {
		return bytes.TrimSpace([]byte(ts.ReadFile(name)))
	}
	return []byte(args[0])
}

func dial(ts *testscript.TestScript) net.Conn {
	c, err := socket.Dial(context.Background(), ts.Getenv("INGOT_SOCKET"), patience)
	ts.Check(err)
	ts.Check(c.SetDeadline(time.Now().Add(patience)))
	return c
}

func cmdSend(ts *testscript.TestScript, _ bool, args []string) {
	st := stageOf(ts)
	if st.conn == nil {
		c := dial(ts)
		ts.Defer(func() { c.Close() })
		st.conn, st.in = c, bufio.NewReader(c)
	}
	_, err := st.conn.Write(append(request(ts, args), '\n'))
	ts.Check(err)
}

// cmdHangup closes the connection that stays.
func cmdHangup(ts *testscript.TestScript, _ bool, _ []string) {
	st := stageOf(ts)
	ts.Check(st.conn.Close())
	st.conn = nil
}

func cmdExpect(ts *testscript.TestScript, neg bool, args []string) {
	st := stageOf(ts)
	if st.conn == nil || neg || len(args) != 1 {
		ts.Fatalf("usage: expect REGEXP, after send")
	}
	want := regexp.MustCompile(args[0])
	for {
		line, err := st.in.ReadBytes('\n')
		_, _ = ts.Stdout().Write(line)
		if want.Match(line) {
			return
		}
		if err != nil {
			ts.Fatalf("no line matches %s: %v", want, err)
		}
	}
}

// cmdCapture takes the first group of a regular expression out of a file, or
// of stdout, into a variable.
func cmdCapture(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: capture VAR FILE REGEXP")
	}
	m := regexp.MustCompile(args[2]).FindStringSubmatch(ts.ReadFile(args[1]))
	if len(m) != 2 {
		ts.Fatalf("%s has no %s", args[1], args[2])
	}
	ts.Setenv(args[0], m[1])
}

// status asks the daemon for one model.
func status(ts *testscript.TestScript, model string) *ipc.ModelStatus {
	st, err := (&client.Client{Socket: ts.Getenv("INGOT_SOCKET")}).Status(context.Background())
	ts.Check(err)
	for i := range st.Models {
		if st.Models[i].Name == model {
			return &st.Models[i]
		}
	}
	return &ipc.ModelStatus{State: ipc.StateCold}
}

func cmdKillRunner(ts *testscript.TestScript, _ bool, args []string) {
	pid := status(ts, args[0]).PID
	if pid == 0 {
		ts.Fatalf("%s has no process", args[0])
	}
	ts.Check(syscall.Kill(pid, syscall.SIGKILL))
}

func cmdState(ts *testscript.TestScript, _ bool, args []string) {
	until := time.Now().Add(patience)
	var st *ipc.ModelStatus
	for time.Now().Before(until) {
		if st = status(ts, args[0]); string(st.State) == args[1] {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	ts.Fatalf("%s is %s, not %s", args[0], st.State, args[1])
}
