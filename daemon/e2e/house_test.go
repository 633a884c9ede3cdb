package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ingot/ipc"
	"ingot/ipc/client"
	"ingot/ipc/socket"
	"ingot/models/store"
	"ingot/runtime/turn"
)

const starterName = "smollm2-135m"

// starterFolder imports the starter model once for all tests.
var starterFolder = sync.OnceValues(func() (string, error) {
	found, err := filepath.Glob("../../.deps/starter/*.gguf")
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("no GGUF file in .deps/starter: run make deps first (%v)", err)
	}
	folder := filepath.Join(realBin, "..", starterName)
	if err := store.ImportGGUF(found[0], folder); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return folder, nil
})

// house is a daemon with a home of its own, for tests in Go.
type house struct {
	t      *testing.T
	home   string
	socket string
	cmd    *exec.Cmd
	client *client.Client
}

// openHouse starts the daemon of a folder of programs; the starter model is
// in its catalogue.
func openHouse(t *testing.T, bin, config string, env ...string) *house {
	t.Helper()
	home, err := os.MkdirTemp("", "ingot-home-") // short: sockets have short names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	h := &house{t: t, home: home, socket: filepath.Join(home, "s")}
	h.client = &client.Client{Socket: h.socket}
	starter, err := starterFolder()
	if err != nil {
		t.Fatal(err)
	}
	local := filepath.Join(home, "models", "local")
	if err := errors.Join(os.MkdirAll(local, 0o700), os.Symlink(starter, filepath.Join(local, starterName)),
		os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600)); err != nil {
		t.Fatal(err)
	}
	h.cmd = exec.Command(filepath.Join(bin, "ingotd"))
	h.cmd.Env = append(os.Environ(), "INGOT_HOME="+home, "INGOT_SOCKET="+h.socket)
	h.cmd.Env = append(h.cmd.Env, env...)
	var errs bytes.Buffer
	h.cmd.Stderr = &errs
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = h.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
		if err := h.cmd.Wait(); err != nil {
			t.Errorf("the daemon ended with %v\n%s", err, errs.String())
		}
		if t.Failed() {
			t.Logf("log:\n%s", h.log())
		}
	})
	h.dial().Close()
	return h
}

func (h *house) log() string {
	body, _ := os.ReadFile(filepath.Join(h.home, "logs", "ingotd.log"))
	lines := strings.Split(string(body), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

func (h *house) dial() net.Conn {
	h.t.Helper()
	c, err := socket.Dial(context.Background(), h.socket, patience)
	if err != nil {
		h.t.Fatalf("%v\n%s", err, h.log())
	}
	return c
}

// run runs the command line and returns its standard output.
func (h *house) run(args ...string) string {
	h.t.Helper()
	cmd := exec.Command(filepath.Join(filepath.Dir(h.cmd.Path), "ingot"), args...)
	cmd.Env = h.cmd.Env
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("ingot %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// modelNamed is a model's status.
func (h *house) modelNamed(name string) ipc.ModelStatus {
	h.t.Helper()
	st, err := h.client.Status(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	for _, m := range st.Models {
		if m.Name == name {
			return m
		}
	}
	return ipc.ModelStatus{State: ipc.StateCold}
}

// said is one answer as its events told it.
type said struct {
	text  string
	ids   []turn.TokenID
	probs []turn.Logprob
	done  *turn.Done
	fail  *turn.Failure
	when  []time.Time  // of each event with text
	live  turn.Buffers // after the last step of the prompt
	hook  func()       // called for each of them
}

// hear adds an event, and holds the stream to its rules.
func (s *said) hear(ev *turn.Event, seq int64) error {
	switch {
	case ev.Seq != seq:
		return fmt.Errorf("seq %d, want %d", ev.Seq, seq)
	case s.done != nil || s.fail != nil:
		return fmt.Errorf("a %s event after the end", ev.Type)
	case ev.Prefill != nil:
		s.live = ev.Prefill.Live
	case ev.Text != nil:
		s.text += ev.Text.Delta
		s.ids = append(s.ids, ev.Text.TokenIDs...)
		s.probs = append(s.probs, ev.Text.Logprobs...)
		s.when = append(s.when, time.Now())
		if s.hook != nil {
			s.hook()
		}
	}
	s.done, s.fail = ev.Done, ev.Failure
	return nil
}

// stream asks over newline JSON-RPC, streamed, on a connection of its own.
func (h *house) stream(method, params string) (*said, error) {
	return h.streamWith(method, params, nil)
}

// streamWith calls hook at each piece of text.
func (h *house) streamWith(method, params string, hook func()) (*said, error) {
	c := h.dial()
	defer c.Close()
	if _, err := fmt.Fprintf(c, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`+"\n", method, params); err != nil {
		return nil, err
	}
	in := bufio.NewReader(c)
	return listen(func() ([]byte, error) { return in.ReadBytes('\n') }, hook)
}

// listen reads a response and the events after it.
func listen(next func() ([]byte, error), hook func()) (*said, error) {
	s := &said{hook: hook}
	for seq := int64(-1); s.done == nil && s.fail == nil; seq++ {
		line, err := next()
		if err != nil {
			return s, err
		}
		var m struct {
			Method string
			Params turn.Event
			Result *struct{ Turn turn.ID }
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return s, err
		}
		switch {
		case m.Error != nil:
			return s, errors.New(m.Error.Message)
		case seq == -1 && (m.Result == nil || m.Result.Turn == ""):
			return s, fmt.Errorf("the first line is no response: %s", line)
		case seq >= 0:
			if err := s.hear(&m.Params, seq); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

// whole asks over newline JSON-RPC without a stream and returns the result.
func (h *house) whole(method, params string) (json.RawMessage, error) {
	c := h.dial()
	defer c.Close()
	if _, err := fmt.Fprintf(c, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`+"\n", method, params); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(c).ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	return result(line)
}

// result is what a response carries.
func result(line []byte) (json.RawMessage, error) {
	var m struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, err
	}
	if m.Error != nil {
		return nil, errors.New(m.Error.Message)
	}
	return m.Result, nil
}
