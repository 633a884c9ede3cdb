package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"ingot/ipc"
	"ingot/runtime/turn"
)

// footprint is what a process and its model hold.
type footprint struct {
	daemonFDs, runnerFDs int
	daemonRSS, runnerRSS int // kB
	live                 turn.Buffers
}

func (h *house) footprint() footprint {
	h.t.Helper()
	until := time.Now().Add(patience)
	m := h.modelNamed(starterName)
	for ; m.Turns+m.Queued > 0; m = h.modelNamed(starterName) { // cancelled turns end a moment later
		if time.Now().After(until) {
			h.t.Fatalf("%d turns do not end", m.Turns+m.Queued)
		}
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond) // the runner's last gauge
	return footprint{
		daemonFDs: fds(h.t, h.cmd.Process.Pid), runnerFDs: fds(h.t, m.PID),
		daemonRSS: rss(h.t, h.cmd.Process.Pid), runnerRSS: rss(h.t, m.PID),
		live: h.modelNamed(starterName).Buffers.Live,
	}
}

func fds(t *testing.T, pid int) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func rss(t *testing.T, pid int) int {
	t.Helper()
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		var kb int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kb); n == 1 {
			return kb
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// TestManyRequests: requests in a row, half of them cancelled at a random
// moment, by word or by hanging up: what is held afterwards is what was held
// after the tenth.
func TestManyRequests(t *testing.T) {
	n := 300
	switch {
	case raced:
		n = 20
	case os.Getenv("INGOT_SOAK") != "":
		n = 1000
	}
	h := openHouse(t, realBin, `keep_alive = "-1"`)
	rng := rand.New(rand.NewPCG(8, 9))
	var tenth footprint
	for i := range n {
		if i == 10 {
			tenth = h.footprint()
		}
		h.request(i, rng)
	}
	end := h.footprint()
	t.Logf("after the tenth %+v, after %d %+v", tenth, n, end)
	if end.daemonFDs != tenth.daemonFDs || end.runnerFDs != tenth.runnerFDs || end.live != tenth.live {
		t.Errorf("descriptors or live buffers have grown:\nafter the tenth %+v\nafter %d %+v", tenth, n, end)
	}
	if grown(tenth.runnerRSS, end.runnerRSS) > 0.05 || grown(tenth.daemonRSS, end.daemonRSS) > 0.05 && end.daemonRSS > 40<<10 {
		t.Errorf("resident memory has grown:\nafter the tenth %+v\nafter %d %+v", tenth, n, end)
	}
}

func grown(a, b int) float64 { return math.Max(0, float64(b-a)/float64(a)) }

// request runs one short turn; every other one is cancelled.
func (h *house) request(i int, rng *rand.Rand) {
	h.t.Helper()
	params := fmt.Sprintf(`{"model":%q,"prompt":"Number %d of many","max_tokens":6,"stream":true}`, starterName, i)
	if i%2 == 0 {
		if s, err := h.stream("completion.create", params); err != nil || s.done == nil {
			h.t.Fatalf("request %d: %v", i, err)
		}
		return
	}
	c := h.dial()
	defer c.Close()
	if _, err := fmt.Fprintf(c, `{"jsonrpc":"2.0","id":1,"method":"completion.create","params":%s}`+"\n", params); err != nil {
		h.t.Fatal(err)
	}
	in := bufio.NewReader(c)
	line, err := in.ReadBytes('\n')
	if err != nil {
		h.t.Fatal(err)
	}
	var r struct{ Result struct{ Turn turn.ID } }
	if err := json.Unmarshal(line, &r); err != nil || r.Result.Turn == "" {
		h.t.Fatalf("request %d: %s %v", i, line, err)
	}
	time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
	if err := h.client.Cancel(context.Background(), ipc.TurnRef{Turn: r.Result.Turn}); err != nil {
		h.t.Fatalf("request %d: %v", i, err)
	}
	for !strings.Contains(string(line), `"type":"done"`) {
		if line, err = in.ReadBytes('\n'); err != nil {
			h.t.Fatalf("request %d has no end: %v", i, err)
		}
	}
}
