package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"ingot/daemon/config"
	"ingot/daemon/fakerunner"
	"ingot/ipc/socket"
)

// serveStand runs a whole daemon, socket and all, in this process; so many
// first loads fail.
func serveStand(t *testing.T, fail int) (sock string, stop func() error) {
	t.Helper()
	home, err := os.MkdirTemp("", "ingot-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	putModel(t, home, "tiny")
	sock = filepath.Join(home, "s")
	l, err := listen(sock)
	if err != nil {
		t.Fatal(err)
	}
	fleet := &fakerunner.Fleet{Options: fakerunner.Options{Fail: fail}}
	d, err := New(Options{Home: home, Socket: sock, Config: config.Default(), Launch: fleet.Launch, Runner: []string{"/none"}, Log: discard{io.Discard}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(bg)
	done := make(chan error, 1)
	go func() { done <- d.serve(ctx, l) }()
	return sock, func() error { cancel(); return <-done }
}

// oneRequest asks over the socket; how it ends is drawn.
func oneRequest(t *testing.T, sock string, i int, rng *rand.Rand) {
	t.Helper()
	c, err := socket.Dial(bg, sock, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stream := i%3 != 0
	params := fmt.Sprintf(`{"model":"tiny","prompt":"tokens 6 pause 300us","stream":%v}`, stream)
	fmt.Fprintf(c, `{"jsonrpc":"2.0","id":1,"method":"completion.create","params":%s}`+"\n", params)
	in := bufio.NewReader(c)
	if !stream && i%2 == 1 {
		return // hang up on a call: its turn is cancelled
	}
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if !stream {
		return
	}
	if i%2 == 1 {
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
		cancel(t, c, line)
	}
	for !strings.Contains(line, `"type":"done"`) {
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
}

func cancel(t *testing.T, c net.Conn, line string) {
	t.Helper()
	var r struct{ Result struct{ Turn string } }
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, `{"jsonrpc":"2.0","id":2,"method":"turn.cancel","params":{"turn":%q}}`+"\n", r.Result.Turn)
}

// settled returns the number of goroutines once it stands still at most at
// want, or after a while.
func settled(want int) int {
	n := 0
	for range 200 {
		if n = runtime.NumGoroutine(); n <= want {
			return n
		}
		time.Sleep(10 * time.Millisecond)
	}
	return n
}

// TestAThousandRequestsLeaveNothing: goroutines and descriptors are after a
// thousand requests, half of them cut short, what they were after the tenth.
func TestAThousandRequestsLeaveNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	sock, stop := serveStand(t, 0)
	rng := rand.New(rand.NewPCG(4, 2))
	var routines, files int
	for i := range 1000 {
		if i == 10 {
			routines, files = settled(0), openFiles()
		}
		oneRequest(t, sock, i, rng)
	}
	if n := settled(routines); n > routines {
		t.Errorf("%d goroutines after 1000 requests, %d after 10\n%s", n, routines, stacks())
	}
	if n := openFiles(); n != files {
		t.Errorf("%d descriptors after 1000 requests, %d after 10", n, files)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n := settled(before); n > before {
		t.Errorf("%d goroutines after the end, %d before\n%s", n, before, stacks())
	}
}

// openFiles counts this process's descriptors; 0 where the system does not
// tell.
func openFiles() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list)
}

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}
