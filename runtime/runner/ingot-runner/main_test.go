package main

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingot/models/modeltest"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// asRunner makes this test binary be the program.
const asRunner = "INGOT_TEST_AS_RUNNER"

func TestMain(m *testing.M) {
	if os.Getenv(asRunner) != "" {
		main()
	}
	os.Exit(m.Run())
}

// child is a running runner and the daemon's end of its socketpair.
type child struct {
	t    *testing.T
	cmd  *exec.Cmd
	conn *wire.Conn
}

func launch(t *testing.T, hello wire.Hello, env ...string) *child {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer theirs.Close()
	syscall.CloseOnExec(fds[0])
	c := &child{t: t, cmd: exec.Command(os.Args[0])}
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	ours.Close()
	c.conn = wire.NewConn(conn)
	c.cmd.Env = append(append(os.Environ(), asRunner+"=1"), env...)
	c.cmd.ExtraFiles = []*os.File{theirs}
	c.cmd.Stderr = os.Stderr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.conn.Close(); _ = c.cmd.Process.Kill(); _ = c.cmd.Wait() })
	hello.Version, hello.Model, hello.Nth = wire.Version, "smollm2-135m", max(1, hello.Nth)
	if hello.Mode == "" {
		hello.Mode = wire.ModeFull
	}
	hello.Folder = modeltest.Starter(t)
	c.send(&hello)
	return c
}

func (c *child) send(m wire.Message) {
	c.t.Helper()
	if err := c.conn.Send(m); err != nil {
		c.t.Fatalf("send %T: %v", m, err)
	}
}

// until receives frames up to the first M that fits, which it returns last.
func until[M wire.Message](c *child, fits func(M) bool) (before []wire.Message, found M) {
	c.t.Helper()
	for {
		m, err := c.conn.Recv()
		if err != nil {
			c.t.Fatalf("waiting for a %T: %v", found, err)
		}
		if f, ok := m.(M); ok && fits(f) {
			return before, f
		}
		before = append(before, m)
	}
}

func first[M wire.Message](M) bool { return true }

func (c *child) exit() int {
	c.t.Helper()
	err := c.cmd.Wait()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		c.t.Fatal(err)
	}
	return c.cmd.ProcessState.ExitCode()
}

func question(id turn.ID) *wire.Submit {
	p := turn.Neutral()
	p.MaxTokens, p.Temperature = 64, 0
	chat := json.RawMessage(`{"messages":[{"role":"user","content":"What is the capital of France?"}]}`)
	return &wire.Submit{Turn: id, Chat: chat, Params: p, Given: []string{"temperature"}, IDs: true}
}

// told joins what frames say of a turn.
func told(ms []wire.Message, id turn.ID) (text string, tokens []turn.TokenID) {
	for _, m := range ms {
		s, ok := m.(*wire.Step)
		if !ok || s.Turn != id {
			continue
		}
		for _, c := range s.Choices {
			tokens = append(tokens, c.Tokens...)
		}
		for _, e := range s.Events {
			if e.Type == turn.EventText {
				text += e.Text.Delta
			}
		}
	}
	return text, tokens
}

const paris = "The capital of France is Paris."

func TestTheCapitalOfFrance(t *testing.T) {
	c := launch(t, wire.Hello{})
	_, ready := until(c, first[*wire.Ready])
	if i := ready.Info; i.Family != "llama" || i.Layers != 30 || i.Buffers == 0 || i.Resident == 0 || i.Limit == 0 {
		t.Errorf("info %+v", i)
	}
	c.send(question("a"))
	frames, end := until(c, func(e *wire.End) bool { return e.Turn == "a" })
	text, tokens := told(frames, "a")
	if text != paris {
		t.Errorf("answer %q", text)
	}
	d := end.Done
	if d == nil || d.FinishReason != turn.FinishStop || d.Usage.CompletionTokens != len(tokens) {
		t.Fatalf("end %+v", end)
	}
	t.Logf("prefill %.0f tok/s, decode %.1f tok/s, buffers %+v", d.Report.Prefill.TokS, d.Report.Decode.TokS, d.Report.Buffers)

	// Again, warm and beside itself: the same words.
	c.send(question("b"))
	c.send(question("c"))
	frames, _ = until(c, first[*wire.End])
	more, _ := until(c, first[*wire.End])
	for _, id := range []turn.ID{"b", "c"} {
		if text, _ := told(append(frames, more...), id); text != paris {
			t.Errorf("%s: answer %q", id, text)
		}
	}
	c.send(&wire.Stop{})
	if code := c.exit(); code != wire.ExitOK {
		t.Errorf("exit %d", code)
	}
}

func TestKilledAndResumed(t *testing.T) {
	c := launch(t, wire.Hello{Faults: "kill token 5"})
	c.send(question("a"))
	var frames []wire.Message
	var prompt *wire.Prompt
	for {
		m, err := c.conn.Recv()
		if err != nil {
			break
		}
		if p, ok := m.(*wire.Prompt); ok {
			prompt = p
		}
		frames = append(frames, m)
	}
	if c.exit() != -1 || prompt == nil {
		t.Fatalf("not killed: %v", c.cmd.ProcessState)
	}
	text, tokens := told(frames, "a")
	if len(tokens) != 4 {
		t.Fatalf("%d tokens delivered before the fifth killed", len(tokens))
	}
	c = launch(t, wire.Hello{Nth: 2})
	m := question("a")
	m.Chat, m.Tokens, m.Params = nil, prompt.Tokens, prompt.Params
	m.Resume = &wire.Resume{Choices: []wire.Delivered{{Tokens: tokens}}, Resumed: 1}
	c.send(m)
	more, end := until(c, first[*wire.End])
	rest, _ := told(more, "a")
	if text+rest != paris || end.Done.Report.Resumed != 1 {
		t.Errorf("%q + %q, end %+v", text, rest, end)
	}
}

func TestThrownMallocsCostNobodyAnything(t *testing.T) {
	c := launch(t, wire.Hello{Faults: "throw malloc 400; throw eval 4; throw malloc 1500"})
	c.send(question("a"))
	frames, end := until(c, first[*wire.End])
	if text, _ := told(frames, "a"); text != paris || end.Done == nil {
		t.Errorf("answer %q, end %+v", text, end.Error)
	}
	fired := map[string]int{}
	for _, m := range frames {
		if f, ok := m.(*wire.Fault); ok {
			fired[f.Name]++
		}
	}
	if fired["throw malloc 400"] != 1 || fired["throw eval 4"] != 1 || fired["throw malloc 1500"] != 1 {
		t.Errorf("fired %v", fired)
	}
}

func TestLimitBelowTheWeightsIsNamed(t *testing.T) {
	c := launch(t, wire.Hello{}, "INGOT_RSRC_LIMIT=20")
	_, f := until(c, first[*wire.Failed])
	if f.Error.Name != "model_failed" || f.Error.Data["have"] != 20.0 || f.Error.Data["need"].(float64) <= 20 {
		t.Errorf("%+v", f.Error)
	}
	if code := c.exit(); code != wire.ExitLoad {
		t.Errorf("exit %d", code)
	}
}

func TestEndOfStreamEndsIt(t *testing.T) {
	c := launch(t, wire.Hello{Faults: "stall step 2 10m"})
	c.send(question("a"))
	until(c, first[*wire.Fault]) // the device is busy
	c.conn.Close()
	began := time.Now()
	if code := c.exit(); code != wire.ExitOK || time.Since(began) > 5*time.Second {
		t.Errorf("exit %d after %v", code, time.Since(began))
	}
}

func TestTextOnlyCountsAsTheFullOneDoes(t *testing.T) {
	c := launch(t, wire.Hello{Mode: wire.ModeText})
	ask := func(op wire.Op, body any) json.RawMessage {
		raw, _ := json.Marshal(body)
		c.send(&wire.Ask{ID: 1, Op: op, Body: raw})
		_, a := until(c, first[*wire.Answer])
		if a.Error != nil {
			t.Fatalf("%s: %v", op, a.Error)
		}
		return a.Body
	}
	var got wire.Tokens
	_ = json.Unmarshal(ask(wire.OpEncode, wire.EncodeAsk{Text: "Hello, world"}), &got)
	var back wire.Text
	_ = json.Unmarshal(ask(wire.OpDecode, wire.DecodeAsk{Tokens: got.Tokens, SkipSpecial: true}), &back)
	if len(got.Tokens) == 0 || back.Text != "Hello, world" {
		t.Errorf("%v -> %q", got.Tokens, back.Text)
	}
	if n := string(ask(wire.OpCount, wire.CountAsk{Chat: question("").Chat})); n != `{"tokens":37}` {
		t.Errorf("count %s", n)
	}
	c.send(&wire.Stop{})
	if code := c.exit(); code != wire.ExitOK {
		t.Errorf("exit %d", code)
	}
}

func TestInspect(t *testing.T) {
	run := func(args ...string) (string, string, int) {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), asRunner+"=1")
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run()
		return out.String(), errs.String(), cmd.ProcessState.ExitCode()
	}
	out, _, code := run("--inspect", modeltest.Starter(t))
	var in struct {
		Type      string
		Supported bool
		Layers    int
	}
	if err := json.Unmarshal([]byte(out), &in); err != nil || code != 0 || in.Type != "llama" || !in.Supported || in.Layers != 30 {
		t.Errorf("exit %d: %s", code, out)
	}
	if _, errs, code := run("--inspect", t.TempDir()); code != wire.ExitLoad || !strings.Contains(errs, "config.json") {
		t.Errorf("empty folder: exit %d: %s", code, errs)
	}
	if _, errs, code := run(); code != 2 || !strings.Contains(errs, "ingotd") {
		t.Errorf("by hand: exit %d: %s", code, errs)
	}
	if _, _, code := run("nonsense"); code != 2 {
		t.Errorf("nonsense: exit %d", code)
	}
}
