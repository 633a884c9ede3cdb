package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"ingot/ipc"
	"ingot/ipc/server"
	"ingot/ipc/server/servertest"
	"ingot/ipc/socket"
	"ingot/runtime/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a daemon with a fake backend, for one command line after the
// other.
type house struct {
	*servertest.Fake
	path       string
	interrupts chan os.Signal
}

func open(t *testing.T) *house {
	t.Helper()
	dir, err := os.MkdirTemp("", "cli")
	if err != nil {
		t.Fatal(err)
	}
	h := &house{Fake: servertest.New(), path: filepath.Join(dir, "s"), interrupts: make(chan os.Signal, 1)}
	l, err := socket.Listen(h.path)
	if err != nil {
		t.Fatal(err)
	}
	srv := server.New(h.Fake, server.Options{})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Close()
		<-served
		os.RemoveAll(dir)
	})
	t.Setenv("INGOT_HOME", dir)
	t.Setenv("INGOT_SOCKET", h.path)
	return h
}

// result is what a command did.
type result struct {
	code     int
	out, err string
}

// run runs a command on a pipe; tty lets a person watch.
func (h *house) run(stdin string, tty bool, args ...string) result {
	var out, err bytes.Buffer
	c := Main(args, IO{In: strings.NewReader(stdin), Out: &out, Err: &err, InTTY: tty, OutTTY: tty, ErrTTY: tty, Interrupts: h.interrupts})
	return result{c, out.String(), err.String()}
}

func TestOneShotIsCleanOnAPipe(t *testing.T) {
	h := open(t)
	for _, tc := range []struct {
		stdin string
		args  []string
		out   string
	}{
		{"", []string{"run", "m", "Paris", "it is"}, "Paris it is\n"},
		{"", []string{"run", "m", "ends here\n"}, "ends here\n"},
		{"from a pipe\n", []string{"run", "m"}, "from a pipe\n"},
		{"from a pipe", []string{"run", "m", "-"}, "from a pipe\n"},
		{"", []string{"run", "--raw", "m", "Once upon"}, "Once upon\n"},
	} {
		if got := h.run(tc.stdin, false, tc.args...); got != (result{0, tc.out, ""}) {
			t.Errorf("%q: %+v", tc.args, got)
		}
	}
}

func TestOptionsReachTheDaemon(t *testing.T) {
	h := open(t)
	h.run("", false, "run", "m", "hi", "-s", "be brief", "-n", "5", "-t", "0", "--top-p", "0.5", "--top-k", "3", "--min-p", "0.1",
		"--seed", "9", "--stop", "a,b", "--stop", "c", "--deterministic", "--prefill-step", "64")
	r := h.Requests()[0]
	p := r.Params
	if p.MaxTokens != 5 || p.Temperature != 0 || p.TopP != 0.5 || p.TopK != 3 || p.MinP != 0.1 || p.Seed != 9 ||
		len(p.Stop) != 2 || p.Stop[0] != "a,b" || !p.Deterministic || p.PrefillStep != 64 || !r.Linger {
		t.Errorf("%+v", r)
	}
	if string(r.Chat) != `{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]}` {
		t.Errorf("%s", r.Chat)
	}
}

func TestJSONPrintsTheFinalEvent(t *testing.T) {
	h := open(t)
	got := h.run("", false, "run", "--json", "m", "a b")
	var e struct {
		turn.Event
		Answer string `json:"text"`
	}
	if err := json.Unmarshal([]byte(got.out), &e); err != nil || strings.Count(got.out, "\n") != 1 {
		t.Fatalf("%+v: %v", got, err)
	}
	if got.code != 0 || got.err != "" || e.Type != turn.EventDone || e.FinishReason != turn.FinishStop || e.Answer != "a b" {
		t.Errorf("%+v", got)
	}
	got = h.run("", false, "run", "--json", servertest.Broken, "x")
	if got.code != 1 || !strings.Contains(got.out, `"type":"error"`) || !strings.Contains(got.out, `"model_failed"`) {
		t.Errorf("%+v", got)
	}
	got = h.run("", false, "--json", "show", servertest.Missing)
	if got.code != 1 || !strings.Contains(got.out, `"name":"model_not_found"`) || got.err != "" {
		t.Errorf("%+v", got)
	}
}

func TestAPersonSeesProgressAndSpeed(t *testing.T) {
	h := open(t)
	got := h.run("", true, "run", "m", "hello")
	if got.out != "hello\n" || !strings.Contains(got.err, "1 tokens, 0.0 tok/s") {
		t.Errorf("%+v", got)
	}
	got = h.run("", false, "run", "-v", "m", "hello")
	if got.out != "hello\n" || !strings.HasPrefix(got.err, "1 tokens") {
		t.Errorf("%+v", got)
	}
}

func TestViewer(t *testing.T) {
	var out, errs bytes.Buffer
	a := &app{IO: IO{Out: &out, Err: &errs, ErrTTY: true}}
	t.Setenv("NO_COLOR", "1")
	v := newViewer(a, "m", false)
	zero := 0
	for _, e := range []turn.Event{
		{Type: turn.EventQueued, Queued: &turn.Queued{Position: 2}},
		{Type: turn.EventLoading, Loading: &turn.Loading{Progress: 0.5}},
		{Type: turn.EventPrefill, Prefill: &turn.Prefill{Done: 3, Total: 6, Plan: turn.Plan{Width: 3}}},
		{Type: turn.EventWaiting, Waiting: &turn.Waiting{Phase: "prefill"}},
		{Type: turn.EventReasoning, Choice: &zero, Text: &turn.Text{Delta: "hm"}},
		{Type: turn.EventText, Choice: &zero, Text: &turn.Text{Delta: "yes"}},
		{Type: turn.EventResumed, Resumed: &turn.Resumed{Tokens: 1}},
		{Type: turn.EventDone, Done: &turn.Done{FinishReason: turn.FinishLength, Usage: turn.Usage{CompletionTokens: 4, PromptTokens: 6, Prompt: turn.PromptDetails{CachedTokens: 2}},
			Report: turn.Report{Prefill: turn.PrefillReport{TokS: 100}, Decode: turn.DecodeReport{TokS: 29.5}, Buffers: turn.BufferGauge{Live: 1, Peak: 2, Limit: 3}, Resumed: 1}}},
	} {
		v.see(e)
	}
	text, err := v.end()
	if text != "yes" || err != nil || out.String() != "yes\n" {
		t.Errorf("%q, %v, %q", text, err, out.String())
	}
	for _, want := range []string{"m: 2 turns ahead", "loading m", " 50%", "reading 3 of 6 tokens", "m: waiting (prefill)", "hm\n\n", "restarted",
		"4 tokens, 29.5 tok/s · prompt 6 tokens, 100 tok/s, 2 cached · buffers 1 peak 2 of 3 · length · resumed 1 times"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q is not in %q", want, errs.String())
		}
	}
}

func TestInterruptCancelsTheTurn(t *testing.T) {
	h := open(t)
	done := make(chan result, 1)
	go func() { done <- h.run("", false, "run", servertest.Slow, "x") }()
	if !servertest.Eventually(func() bool { return h.Views() == 1 }) {
		t.Fatal("no turn")
	}
	h.Grow("half an ")
	h.interrupts <- os.Interrupt
	if got := <-done; got.code != exitInterrupted || got.err != "" || (got.out != "half an \n" && got.out != "") {
		t.Errorf("%+v", got)
	}
}

func TestChat(t *testing.T) {
	h := open(t)
	got := h.run("one\n\n/help\nand \\\ntwo\n/clear\nthree\n/bye\nnever\n", true, "run", "m", "-s", "sys")
	if got.code != 0 || got.out != "one\nand \ntwo\nthree\n" {
		t.Errorf("%+v", got)
	}
	var chats []string
	for _, r := range h.Requests() {
		chats = append(chats, string(r.Chat))
	}
	want := []string{
		`{"messages":[{"role":"system","content":"sys"},{"role":"user","content":"one"}]}`,
		`{"messages":[{"role":"system","content":"sys"},{"role":"user","content":"one"},{"role":"assistant","content":"one"},{"role":"user","content":"and \ntwo"}]}`,
		`{"messages":[{"role":"system","content":"sys"},{"role":"user","content":"three"}]}`,
	}
	if strings.Join(chats, "\n") != strings.Join(want, "\n") {
		t.Errorf("got  %s", strings.Join(chats, "\n"))
	}
	if got := h.run("x\n", true, "run", servertest.Missing); got.code != 0 || !strings.Contains(got.err, "ingot ls") {
		t.Errorf("a chat goes on after an error: %+v", got)
	}
	h.interrupts <- os.Interrupt
	pr, pw := io.Pipe()
	defer pw.Close()
	var out, errs bytes.Buffer
	if c := Main([]string{"run", "m"}, IO{In: pr, Out: &out, Err: &errs, InTTY: true, Interrupts: h.interrupts}); c != exitInterrupted {
		t.Errorf("Ctrl-C at the question: %d", c)
	}
}

func TestCommands(t *testing.T) {
	h := open(t)
	file := filepath.Join(t.TempDir(), "x.gguf")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, out, json string }{
		{"ls", `(?s)NAME.*echo +fake +- +- +12\.0 MiB +100`, `"name":"echo"`},
		{"show m", `(?s)m\n.*family +fake`, `"name":"m"`},
		{"load m", `m is ready \(pid 7, 0 B\)`, `"state":"ready"`},
		{"ps", `(?s)NAME.*m +ready +0\+0`, `"name":"m"`},
		{"status", `(?s)ingotd test   pid 1 .*memory.*m +ready`, `"version":"test"`},
		{"pin m", `m stays loaded`, `{}`},
		{"pin m --off", `no longer pinned`, `{}`},
		{"alias a m", `m is now also a`, `{}`},
		{"alias a", `a is no alias any more`, `{}`},
		{"pull " + file + " --as tiny", `tiny is here \(1 B\). Try: ingot run tiny`, `"model":"tiny"`},
		{"rm m", `m is deleted`, `{}`},
		{"unload m", `m is unloaded`, `{}`},
		{"ps", `No model is loaded`, `{"models":[]}`},
		{"logs -n 2", `one\ntwo\n`, `{"lines":["one","two"]}`},
		{"version", `ingot .* \(protocol 1\)\ningotd test`, `"daemon":"test"`},
	} {
		got := h.run("", false, strings.Fields(tc.args)...)
		if got.code != 0 || got.err != "" || !regexp.MustCompile(tc.out).MatchString(got.out) {
			t.Errorf("%s: %+v, want %s", tc.args, got, tc.out)
		}
		got = h.run("", false, append(strings.Fields(tc.args), "--json")...)
		if got.code != 0 || !json.Valid([]byte(got.out)) {
			t.Errorf("%s --json: %+v", tc.args, got)
		}
		if tc.args != "ps" && !strings.Contains(got.out, tc.json) { // the JSON run came after another one
			t.Errorf("%s --json: %s, want %s", tc.args, got.out, tc.json)
		}
	}
}

func TestMistakes(t *testing.T) {
	h := open(t)
	for _, tc := range []struct {
		args string
		code int
		err  string
	}{
		{"nonsense", exitUsage, "unexpected argument nonsense"},
		{"run", exitUsage, "model"},
		{"run m", exitUsage, "prompt is empty"},
		{"run m hi --top-p 7", exitUsage, "top_p"},
		{"run missing hi", exitFailed, "See what is here with: ingot ls"},
		{"run broken hi", exitFailed, "ingot logs"},
		{"show missing", exitFailed, `no model "missing"`},
		{"pull missing", exitFailed, "no such file"},
		{"logs -n 99999", exitUsage, "lines"},
	} {
		got := h.run("", false, strings.Fields(tc.args)...)
		if got.code != tc.code || got.out != "" || !strings.Contains(got.err, tc.err) {
			t.Errorf("%s: %+v", tc.args, got)
		}
	}
	if got := h.run("", false); got.code != 0 || !strings.Contains(got.out, "Usage: ingot") {
		t.Errorf("no arguments: %+v", got)
	}
	if got := h.run("", false, "run", "--help"); got.code != 0 || !strings.Contains(got.out, "Usage: ingot run") {
		t.Errorf("help: %+v", got)
	}
}

func TestWithoutADaemon(t *testing.T) {
	h := open(t)
	t.Setenv("PATH", t.TempDir())
	for _, args := range []string{"status", "ps", "logs", "unload m"} {
		got := h.run("", false, append(strings.Fields(args), "--socket", h.path+"x")...)
		if got.code != exitNoDaemon || !strings.Contains(got.err, "ingot serve") {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if got := h.run("", false, "stop", "--socket", h.path+"x"); got.code != 0 {
		t.Errorf("stop: %+v", got)
	}
	if got := h.run("", false, "ls", "--socket", h.path+"x"); got.code != exitFailed || !strings.Contains(got.err, "find ingotd") {
		t.Errorf("ls: %+v", got)
	}
	long := "/tmp/" + strings.Repeat("x", socket.MaxPath)
	if got := h.run("", false, "status", "--socket", long); got.code != exitFailed || !strings.Contains(got.err, "shorter path") {
		t.Errorf("long path: %+v", got)
	}
}

func TestADaemonThatEndsAtOnceIsQuoted(t *testing.T) {
	h := open(t)
	bin := t.TempDir()
	script := "#!/bin/sh\necho 'config.toml: keep_alive: nonsense' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(bin, "ingotd"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/bin:/usr/bin")
	got := h.run("", false, "ls", "--socket", h.path+"x")
	if got.code != exitFailed || !strings.Contains(got.err, "ended at once (exit status 1): config.toml: keep_alive: nonsense") {
		t.Errorf("%+v", got)
	}
}

func TestWords(t *testing.T) {
	for want, got := range map[string]string{
		"0 B": size(0), "1023 B": size(1023), "1.0 KiB": size(1024), "149 MiB": size(149 << 20), "22.0 GiB": size(22 << 30),
		"-": amount(0), "950": amount(950), "135M": amount(134_515_008), "35.1B": amount(35_100_000_000), "7B": amount(7_000_000_000),
		"45s": span(45), "3m": span(200), "2h10m": span(7800),
		"2048x2 512": widths([]turn.PrefillStep{{Width: 2048}, {Width: 2048}, {Width: 512}}),
		"████░░░░":   bar(0.5, 8), "████████": bar(7, 8), "░░": bar(-1, 2),
		"████░░░░ 5/10": gauge(turn.Buffers(5), 10, count),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	soon := 240.0
	for want, m := range map[string]ipc.ModelStatus{"pinned": {Pinned: true}, "-": {}, "in 4m": {ExpiresS: &soon}} {
		if got := expires(m); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := stateOf(ipc.ModelStatus{State: ipc.StateLoading, Progress: 0.4}); got != "loading 40%" {
		t.Error(got)
	}
	if !alive(os.Getpid()) || alive(1<<30) {
		t.Error("alive")
	}
}
