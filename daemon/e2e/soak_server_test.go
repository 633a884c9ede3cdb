package e2e

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/runtime/turn"
)

// Of the failing report in small: a limit under which a server that holds
// buffers for every token dies early, and the answer it was asked for.
const (
	reportLimit  = 3500
	reportAnswer = 400
)

// outside is the instrument that counts MLX's buffers in any program and may
// limit them.
type outside struct{ so, counts string }

// newOutside builds it against one of the MLX libraries in .deps.
func newOutside(t *testing.T, lib string) outside {
	t.Helper()
	lib, err := filepath.Abs(lib)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := outside{filepath.Join(dir, "outside.so"), filepath.Join(dir, "counts")}
	// Linked with MLX, so that programs that load it late bear it too.
	build := exec.Command("g++", "-std=c++20", "-O2", "-fPIC", "-shared", "../../runtime/mlx/testdata/outside.cc", "-isystem", "../../.deps/mlx/include",
		"-L"+lib, "-Wl,--no-as-needed", "-lmlx", "-Wl,-rpath,"+lib, "-o", o.so)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(o.counts, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o outside) env() []string {
	return []string{"LD_PRELOAD=" + o.so, "OUTSIDE_COUNTS=" + o.counts}
}

// read returns live, peak and total.
func (o outside) read(t *testing.T) (c [3]int64) {
	t.Helper()
	b, err := os.ReadFile(o.counts)
	if err != nil || len(b) < 24 {
		t.Fatalf("the instrument wrote %d bytes: %v", len(b), err)
	}
	for i := range c {
		c[i] = int64(binary.NativeEndian.Uint64(b[8*i:]))
	}
	return c
}

// TestSoakReport: the failing report's model in small, under a limit of 3,500
// buffers. Ingot gives the whole answer and the next; the full edition puts
// mlx_lm.server beside it, both under the same instrument.
func TestSoakReport(t *testing.T) {
	n := newNote(t, "report", "The failing report, side by side")
	n.say("A limit of %d buffers, %d tokens asked for, then a second request. Buffers as counted from outside by one instrument (`runtime/mlx/testdata/outside.cc`).\n", reportLimit, reportAnswer)
	n.say("| server | tokens | most live | growth a token | next request |\n| --- | --- | --- | --- | --- |")
	o := newOutside(t, "../../.deps/mlx/lib")
	h, _ := loaded(t, reportLimit, o.env()...)
	var samples []sample
	heard := 0
	s, err := h.streamWith("completion.create", greedy(words(11, 20), reportAnswer), func() {
		if heard++; heard >= 100 {
			samples = append(samples, sample{heard, h.modelNamed(tinyName).Buffers.Live})
		}
	})
	if err != nil || s.fail != nil || len(s.ids) != reportAnswer {
		t.Fatalf("%d tokens: %v %+v", len(s.ids), err, s.fail)
	}
	next := h.say(words(12, 20), 16)
	c, b := o.read(t), next.done.Report.Buffers
	if c[1] > reportLimit || c[0] != int64(b.Live) {
		t.Errorf("outside counts live, peak, total %v; the last report says %+v", c, b)
	}
	n.say("| Ingot | %d | %d | %d | %d tokens |", len(s.ids), c[1], growth(samples), len(next.ids))
	if growth(samples) != 0 {
		t.Errorf("live buffers grow: %v", samples)
	}
	if soak().pairs > 1 {
		beside(t, n)
	}
}

// beside asks mlx_lm.server the same.
func beside(t *testing.T, n *note) {
	libs, err := filepath.Glob("../../.deps/ref/lib/python3*/site-packages/mlx/lib")
	if err != nil || len(libs) != 1 {
		t.Fatalf("MLX of the reference: %v %v", libs, err)
	}
	folder, err := tinyFolder()
	if err != nil {
		t.Fatal(err)
	}
	o := newOutside(t, libs[0])
	addr := freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command("../../.deps/ref/bin/python", "-m", "mlx_lm", "server", "--model", folder, "--host", "127.0.0.1", "--port", port)
	cmd.Env = append(append(os.Environ(), o.env()...), fmt.Sprintf("OUTSIDE_LIMIT=%d", reportLimit), "HF_HUB_OFFLINE=1")
	var logs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &logs, &logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	}()
	awaitHealth(t, "http://"+addr+"/health")
	var samples []sample
	got := ask(addr, reportAnswer, 2*time.Minute, func(tokens int) { samples = append(samples, sample{tokens, turn.Buffers(o.read(t)[0])}) })
	next := ask(addr, 16, 20*time.Second, func(int) {})
	n.say("| mlx_lm.server | %d | %d | %d | %d tokens |", got, o.read(t)[1], growth(samples), next)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for line := range strings.Lines(logs.String()) {
		if strings.Contains(line, "thread died: ") {
			n.say("\nIts log: `%s`", strings.TrimSpace(line))
		}
	}
	if got == 0 || got >= reportAnswer || next > 0 {
		t.Errorf("mlx_lm.server answered %d tokens, then %d:\n%s", got, next, logs.String())
	}
}

// growth is the median change of live buffers from one sample to the next.
func growth(samples []sample) turn.Buffers {
	var steps []turn.Buffers
	for i := 1; i < len(samples); i++ {
		steps = append(steps, samples[i].live-samples[i-1].live)
	}
	slices.Sort(steps)
	if len(steps) == 0 {
		return 0
	}
	return steps[len(steps)/2]
}

func freeAddr(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func awaitHealth(t *testing.T, url string) {
	for until := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		resp, err := http.Get(url)
		if err == nil {
			resp.Body.Close()
			return
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
	}
}

// ask counts the tokens that a server's stream brings until it ends, breaks
// or takes too long.
func ask(addr string, most int, patience time.Duration, each func(int)) (tokens int) {
	web := &http.Client{Timeout: patience}
	body := fmt.Sprintf(`{"prompt":"The resource limit","max_tokens":%d,"temperature":0,"stream":true}`, most)
	resp, err := web.Post("http://"+addr+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		data, ok := bytes.CutPrefix(in.Bytes(), []byte("data: "))
		var chunk struct {
			Choices []struct {
				Text string `json:"text"`
			} `json:"choices"`
		}
		if !ok || json.Unmarshal(data, &chunk) != nil || len(chunk.Choices) == 0 || chunk.Choices[0].Text == "" {
			continue
		}
		tokens++
		each(tokens)
	}
	return tokens
}
