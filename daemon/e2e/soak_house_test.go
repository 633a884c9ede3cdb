package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/ipc"
	"ingot/runtime/turn"
)

// The soak tests prove, on the real programs, that a limit on buffers costs
// at most some speed. Their model is the failing report's in small: the same
// family, 40 layers deep.

// edition is how much they do.
type edition struct {
	prompt   int // tokens of the long prompt
	limits   int // limits between rest plus 15% and the natural peak
	pairs    int // of limited and unlimited prompts, for speed
	paired   int // tokens of those
	tokens   int // generated in one turn
	requests int
	kills    int // for each mode
}

// soak is the edition in force: all of it with INGOT_SOAK=1, else a small one.
func soak() edition {
	switch {
	case os.Getenv("INGOT_SOAK") != "":
		return edition{prompt: 16384, limits: 8, pairs: 7, paired: 16384, tokens: 10_000, requests: 3000, kills: 100}
	case raced:
		return edition{prompt: 600, limits: 1, pairs: 1, paired: 200, tokens: 200, requests: 24, kills: 1}
	}
	return edition{prompt: 4096, limits: 3, pairs: 1, paired: 1000, tokens: 1000, requests: 300, kills: 10}
}

const tinyName = "tiny-moe"

// tinyFolder makes the model once; it stays in .deps/fixtures.
var tinyFolder = sync.OnceValues(func() (string, error) {
	script, python := "../../models/modeltest/testdata/mktiny.py", "../../.deps/ref/bin/python"
	body, err := os.ReadFile(script)
	if err != nil {
		return "", err
	}
	starter, err := starterFolder() // its tokenizer
	if err != nil {
		return "", err
	}
	args := []string{"--layers", "40", "--experts", "16", "--hidden", "128", "--vocab", "49152"}
	fixtures, err := filepath.Abs("../../.deps/fixtures")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Append(body, args))
	folder := filepath.Join(fixtures, fmt.Sprintf("soak-%x", sum[:8]))
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	tmp, err := os.MkdirTemp(fixtures, ".making-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	made := filepath.Join(tmp, "it")
	cmd := exec.Command(python, append([]string{script, "qwen3_5_moe", made, "--tokenizer", starter}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w (is the reference there? make ref)\n%s", err, out)
	}
	if err := os.Rename(made, folder); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return folder, nil
})

// openTiny starts a daemon of its own with the tiny model in its catalogue,
// and a limit on buffers unless it is 0. Steps are as wide as buffers allow,
// however long they take.
func openTiny(t *testing.T, limit turn.Buffers, env ...string) *house {
	t.Helper()
	folder, err := tinyFolder()
	if err != nil {
		t.Fatal(err)
	}
	if limit > 0 {
		env = append(env, fmt.Sprintf("INGOT_RSRC_LIMIT=%d", limit))
	}
	h := openHouse(t, realBin, "keep_alive = \"-1\"\nmax_step = \"10m\"\nwatchdog = \"10m\"\n", env...)
	if err := os.Symlink(folder, filepath.Join(h.home, "models", "local", tinyName)); err != nil {
		t.Fatal(err)
	}
	return h
}

// loaded is openTiny with the model loaded, and what its weights hold.
func loaded(t *testing.T, limit turn.Buffers, env ...string) (*house, turn.Buffers) {
	t.Helper()
	h := openTiny(t, limit, env...)
	m, err := h.client.Load(context.Background(), ipc.LoadParams{Model: tinyName})
	if err != nil {
		t.Fatal(err)
	}
	return h, m.Buffers.Live
}

// greedy asks the tiny model to go on from ids, greedily.
func greedy(ids []turn.TokenID, most int) string {
	p, err := json.Marshal(map[string]any{
		"model": tinyName, "prompt": ids, "max_tokens": most, "temperature": 0, "ignore_eos": true, "return_token_ids": true, "stream": true,
	})
	if err != nil {
		panic(err) // made of numbers
	}
	return string(p)
}

// say streams one answer and insists on it.
func (h *house) say(ids []turn.TokenID, most int) *said {
	h.t.Helper()
	s, err := h.stream("completion.create", greedy(ids, most))
	switch {
	case err != nil:
		h.t.Fatal(err)
	case s.fail != nil:
		h.t.Fatalf("%d tokens: %s %s", len(ids), s.fail.Message, s.fail.Data)
	case len(s.ids) != most || s.done.Usage.CompletionTokens != most:
		h.t.Fatalf("%d tokens came, usage %+v, want %d", len(s.ids), s.done.Usage, most)
	}
	return s
}

// words draws a prompt.
func words(seed uint64, n int) []turn.TokenID {
	rng := rand.New(rand.NewPCG(seed, 40))
	ids := make([]turn.TokenID, n)
	for i := range ids {
		ids[i] = turn.TokenID(100 + rng.IntN(49000))
	}
	return ids
}

// note is what a soak test found. The full edition leaves it in docs.
type note struct {
	t    *testing.T
	text strings.Builder
}

// newNote begins a page; it is written when the test has passed.
func newNote(t *testing.T, name, title string) *note {
	n := &note{t: t}
	fmt.Fprintf(&n.text, "# %s\n\nMade by `make soak` on %s, %d cores, %s.\n\n", title, time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), processor())
	t.Cleanup(func() {
		if os.Getenv("INGOT_SOAK") == "" || t.Failed() {
			return
		}
		if err := os.WriteFile(filepath.Join("../../docs", "soak-"+name+".md"), []byte(n.text.String()), 0o644); err != nil {
			t.Error(err)
		}
	})
	return n
}

// say adds a line and logs it.
func (n *note) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	n.text.WriteString(line + "\n")
	n.t.Log(line)
}

func processor() string {
	body, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(body)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
