package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ingot/runtime/turn"
)

func TestAnEmptyFileIsTheDefault(t *testing.T) {
	c, err := Parse("", "# nothing\n")
	if err != nil || !reflect.DeepEqual(c, Default()) {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := Load(filepath.Join(t.TempDir(), "none.toml")); err != nil || !reflect.DeepEqual(c, Default()) {
		t.Errorf("no file: %+v, %v", c, err)
	}
}

func TestEveryKey(t *testing.T) {
	c, err := Parse("config.toml", `
model = "tiny"
keep_alive = "-1"
memory_budget = "24GB"
buffer_limit = 3500
prefill_step = 512
max_step = "500ms"
ride_step = "50ms"
deterministic = true
watchdog = "1m"
context = 4096
max_turns = 4
max_queue = 8
max_tokens = 100
temperature = 0.7
top_p = 0.9
top_k = 40
min_p = 0.05
repetition_penalty = 1.1
[turns]
linger = "10s"
drain = "1s"
[tcp]
listen = "127.0.0.1:11500"
[log]
level = "debug"
[models."Org/Big"]
prefill_step = "auto"
keep_alive = "1h"
`)
	if err != nil {
		t.Fatal(err)
	}
	temp, topP, minP, rep, topK, most := 0.7, 0.9, 0.05, 1.1, 40, 100
	want := Model{
		KeepAlive: Forever, PrefillStep: 512, MaxStep: 500 * time.Millisecond, RideStep: 50 * time.Millisecond, Deterministic: true, Watchdog: time.Minute,
		Context: 4096, MaxTurns: 4, MaxQueue: 8,
		Sampling: Sampling{MaxTokens: &most, Temperature: &temp, TopP: &topP, TopK: &topK, MinP: &minP, RepetitionPenalty: &rep},
	}
	if !reflect.DeepEqual(c.For("other"), want) {
		t.Errorf("models in general: %+v", c.For("other"))
	}
	want.PrefillStep, want.KeepAlive = 0, time.Hour
	if got := c.For("big", "ORG/big"); !reflect.DeepEqual(got, want) {
		t.Errorf("the section: %+v", got)
	}
	if c.Default != "tiny" || c.MemoryBudget.Of(1) != 24e9 || c.BufferLimit != 3500 || c.Linger != 10*time.Second ||
		c.Drain != time.Second || c.TCPListen != "127.0.0.1:11500" || c.LogLevel != "debug" {
		t.Errorf("%+v", c)
	}
}

// TestWrong: each error names file, line and key, and says what is allowed.
func TestWrong(t *testing.T) {
	for _, tc := range []struct{ body, want string }{
		{"prefill_step = 0", `c:1: prefill_step: 0 is not "auto" or a number of tokens, 1 to 1048576`},
		{`prefill_step = "wide"`, `c:1: prefill_step: "wide" is not "auto" or a number`},
		{"prefill_step = -5", `c:1: prefill_step: -5 is not`},
		{"\n\nmax_step = \"1ms\"", `c:3: max_step: "1ms" is not a time, "10ms" to "10m"`},
		{"max_step = 2", `c:1: max_step: 2 is not a time`},
		{`memory_budget = "0%"`, `c:1: memory_budget: "0%" is not a size ("24GB", at least 64MB) or a share ("75%", 1 to 100)`},
		{`memory_budget = "-3GB"`, `c:1: memory_budget: `},
		{`memory_budget = "9000000TB"`, `c:1: memory_budget: `},
		{"buffer_limit = 12", `c:1: buffer_limit: 12 is not a number of buffers, 64 to 100000000`},
		{`keep_alive = "soon"`, `c:1: keep_alive: "soon" is not a time ("5m", "0s" to "8760h"), or "-1" for ever`},
		{"keep_alive = 5", `c:1: keep_alive: 5 is not`},
		{`deterministic = "yes"`, `c:1: deterministic: "yes" is not true or false`},
		{"temperature = nan", `c:1: temperature: NaN is not`},
		{"top_p = 0", `c:1: top_p: 0 is not a number above 0`},
		{"top_p = 1.5", `c:1: top_p: 1.5 is not`},
		{"top_k = 1.5", `c:1: top_k: 1.5 is not`},
		{"model = 3", `c:1: model: 3 is not the name of a model`},
		{"prefil_step = 1", `c:1: prefil_step: unknown key (did you mean prefill_step?)`},
		{"quantum = 1", `c:1: quantum: unknown key`},
		{"[turns]\nlingr = \"1s\"", `c:2: turns.lingr: unknown key (did you mean turns.linger?)`},
		{"[turns]\nlinger = \"1y\"", `c:2: turns.linger: "1y" is not`},
		{"turns = 3", `c:1: turns: must be a section: [turns]`},
		{"[log]\nlevel = \"loud\"", `c:2: log.level: "loud" is not debug, info, warn or error`},
		{"[tcp]\nlisten = \"nowhere\"", `c:2: tcp.listen: "nowhere" is not an address with a port`},
		{"models = 3", `c:1: models: must be sections`},
		{"[models]\nx = 3", `models."x": must be a section`},
		{"[models.\"a\"]\nlog = 3", `c:2: models."a".log: unknown key`},
		{"[models.\"a\"]\nmemory_budget = \"1GB\"", `c:2: models."a".memory_budget: is not a model's key`},
		{"[models.\"a\"]\ncontext = 3", `c:2: models."a".context: 3 is not a number of tokens, 16 to`},
		{"a = = 3", `c:1: `},
		{"model = \"a\"\nmodel = \"b\"", `c:2: `},
	} {
		_, err := Parse("c", tc.body)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q:\ngot  %v\nwant %s", tc.body, err, tc.want)
		}
	}
}

func TestAllThatIsWrongIsTold(t *testing.T) {
	_, err := Parse("c", "top_p = 9\nmin_p = 9\n")
	if err == nil || strings.Count(err.Error(), "is not") != 2 {
		t.Errorf("%v", err)
	}
}

func TestSizes(t *testing.T) {
	for in, want := range map[string]turn.Bytes{"64MB": 64e6, "1.5GiB": 3 << 29, "2T": 2e12, "100000000": 1e8, "1024 MiB": 1 << 30} {
		if got, ok := size(in); !ok || got != want {
			t.Errorf("%q: %d, %v", in, got, ok)
		}
	}
	if got := (Budget{Share: 0.5}).Of(100); got != 50 {
		t.Errorf("half of 100 is %d", got)
	}
}

func TestDiff(t *testing.T) {
	a, _ := Parse("", "top_k = 3\n[models.\"x\"]\nprefill_step = 5")
	b, _ := Parse("", "top_k = 4\n[log]\nlevel = \"warn\"\n[models.\"x\"]\nprefill_step = 6\ntop_k = 3")
	want := []Change{{"log.level", "info", "warn"}, {"top_k", 3, 4}, {`models."x".prefill_step`, 5, 6}}
	if got := Diff(a, b); !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	if got := Diff(a, a.Clone()); len(got) != 0 {
		t.Errorf("with itself: %v", got)
	}
}

func TestPlaces(t *testing.T) {
	home := t.TempDir()
	t.Setenv("INGOT_HOME", home)
	t.Setenv("INGOT_SOCKET", "")
	if got, err := Home(); err != nil || got != home {
		t.Errorf("%s, %v", got, err)
	}
	if got := Socket(home); got != filepath.Join(home, "run", "ingot.sock") {
		t.Error(got)
	}
	t.Setenv("INGOT_SOCKET", "/tmp/x.sock")
	if got := Socket(home); got != "/tmp/x.sock" {
		t.Error(got)
	}
	t.Setenv("INGOT_HOME", "")
	t.Setenv("HOME", home)
	if got, err := Home(); err != nil || got != filepath.Join(home, ".ingot") {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := Load(home); err == nil {
		t.Error("a folder was read as a file")
	}
	file := filepath.Join(home, "config.toml")
	os.WriteFile(file, []byte("top_k = 1"), 0o600)
	if c, err := Load(file); err != nil || *c.TopK != 1 {
		t.Errorf("%v", err)
	}
}
