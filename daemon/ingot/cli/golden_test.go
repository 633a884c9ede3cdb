package cli

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingot/ipc"
	"ingot/runtime/turn"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares with testdata/NAME.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (rewrite it with -update):\n%s", path, d)
	}
}

// busyState is a daemon with a model in every state.
func busyState() *ipc.Status {
	soon := 272.0
	gib := turn.Bytes(1 << 30)
	return &ipc.Status{
		Version: "1.2.3", Protocol: 1, PID: 4711, UptimeS: 7830, Socket: "/home/ann/.ingot/run/ingot.sock",
		Memory: turn.MemoryGauge{Active: 23 * gib, Peak: 31 * gib, Limit: 48 * gib},
		Models: []ipc.ModelStatus{
			{Name: "qwen3.5-35b-a3b", State: ipc.StateBusy, PID: 4800, LoadedS: 60, Pinned: true, Turns: 3, Queued: 12,
				PrefillWidth: 512, PrefillWidthMax: 4096, Reason: turn.ReasonBuffers, TokS: 61.27,
				Buffers: turn.BufferGauge{Live: 431_000, Peak: 448_000, Limit: 499_000},
				Memory:  turn.MemoryGauge{Active: 22 * gib, Peak: 30 * gib, Limit: 40 * gib}, Restarts: 1},
			{Name: "smollm2-135m", State: ipc.StateReady, PID: 4801, LoadedS: 9, ExpiresS: &soon, PrefillWidth: 37, PrefillWidthMax: 37,
				Reason: turn.ReasonPrompt, Buffers: turn.BufferGauge{Live: 484, Limit: 499_000}, Memory: turn.MemoryGauge{Active: 110 << 20, Limit: 8 * gib}},
			{Name: "llama-3.2-3b", State: ipc.StateLoading, PID: 4802, Progress: 0.42},
			{Name: "broken", State: ipc.StateFailed, Error: "tensor model.norm.weight is missing"},
			{Name: "mistral-7b", State: ipc.StateCold},
		},
		Recent: []ipc.TurnReport{
			{Turn: "t1", Model: "qwen3.5-35b-a3b", FinishReason: turn.FinishStop, Usage: turn.Usage{PromptTokens: 84_612, CompletionTokens: 300},
				Report: turn.Report{Decode: turn.DecodeReport{TokS: 60.04}, Prefill: turn.PrefillReport{Steps: append(
					[]turn.PrefillStep{{Width: 2048}, {Width: 4096}, {Width: 4096}, {Width: 4096}}, turn.PrefillStep{Width: 612})}}},
			{Turn: "t2", Model: "qwen3.5-35b-a3b", Error: &ipc.Trouble{Name: ipc.NoRoom}, Usage: turn.Usage{PromptTokens: 99_000}},
			{Turn: "t3", Model: "smollm2-135m", FinishReason: turn.FinishCancelled},
		},
	}
}

func TestTables(t *testing.T) {
	h := open(t)
	h.State = busyState()
	h.Catalogue = &ipc.ModelList{Models: []ipc.Model{
		{Name: "qwen3.5-35b-a3b", Aliases: []string{"big", "qwen"}, Family: "qwen3_5_moe", Parameters: 35_100_000_000, Quantization: "4-bit",
			Bytes: 22 << 30, Context: 262_144, State: ipc.StateBusy},
		{Name: "smollm2-135m", Family: "llama", Parameters: 134_515_008, Quantization: "4-bit", Bytes: 98 << 20, Context: 8192, State: ipc.StateReady},
		{Name: "odd", Bytes: 12, State: ipc.StateCold, Problem: "no config.json"},
	}}
	for _, name := range []string{"status", "ps", "ls"} {
		got := h.run("", false, name)
		if got.code != 0 || got.err != "" {
			t.Errorf("%s: %+v", name, got)
		}
		golden(t, name, trimmed(got.out))
	}
	h.Catalogue = &ipc.ModelList{}
	if got := h.run("", false, "ls"); !strings.Contains(got.out, "ingot pull") {
		t.Errorf("an empty catalogue: %+v", got)
	}
}

// trimmed takes the padding of the last column off.
func trimmed(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// The words of the command line are an interface too.
func TestHelp(t *testing.T) {
	h := open(t)
	t.Setenv("INGOT_SOCKET", "")
	var all strings.Builder
	for _, args := range []string{"", "run", "serve", "status", "ls", "show", "ps", "load", "unload", "pin", "alias", "pull", "rm", "logs", "stop", "version"} {
		got := h.run("", false, append(strings.Fields(args), "--help")...)
		if got.code != 0 || got.err != "" {
			t.Errorf("%s --help: %+v", args, got)
		}
		all.WriteString("$ ingot " + strings.TrimSpace(args+" --help") + "\n" + trimmed(got.out) + "\n")
	}
	golden(t, "help", all.String())
}

func TestWidthsAreCut(t *testing.T) {
	var steps []turn.PrefillStep
	for i := range 20 {
		steps = append(steps, turn.PrefillStep{Width: 2048 >> (i % 2)})
	}
	if got := widths(steps); got != "2048 1024 2048 1024 2048 1024 ..." {
		t.Error(got)
	}
	if got := widths(nil); got != "-" {
		t.Error(got)
	}
}
