package client

import (
	"bufio"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ingot/ipc"
	"ingot/runtime/turn"
)

// scripted is a daemon that answers the n-th connection's first line with the
// n-th text and hangs up; the last text is for all that follow.
func scripted(t *testing.T, answers ...string) *Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "hst")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
					_, _ = c.Write([]byte(answers[min(n, len(answers)-1)]))
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait(); os.RemoveAll(dir) })
	return &Client{Socket: l.Addr().String()}
}

func TestADaemonThatMakesNoSenseIsAnError(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":        "",
		"half a message": `{"jsonrpc":"2.0","id":1,"res`,
		"no JSON":        "hello\n",
		"another id":     `{"jsonrpc":"2.0","id":7,"result":{}}` + "\n",
		"events only":    `{"jsonrpc":"2.0","method":"turn.event","params":{}}` + "\n",
	} {
		c := scripted(t, answer)
		if _, err := c.Status(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := scripted(t, `{"jsonrpc":"2.0","id":1,"result":[]}`+"\n")
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "result of daemon.status") {
		t.Errorf("a result of another type: %v", err)
	}
}

func TestARefusalWithoutAnIDIsHeard(t *testing.T) {
	c := scripted(t, `{"jsonrpc":"2.0","id":null,"error":{"code":-32010,"message":"not yours","data":{"name":"forbidden"}}}`+"\n")
	if _, err := c.Status(t.Context()); !errors.Is(err, ipc.Forbidden) || err.Error() != "not yours" {
		t.Error(err)
	}
	for _, err := range c.Chat(t.Context(), chat("m", "x")) {
		if !errors.Is(err, ipc.Forbidden) {
			t.Error(err)
		}
	}
}

const (
	begin = `{"jsonrpc":"2.0","id":1,"result":{"turn":"t1"}}` + "\n"
	zero  = `{"jsonrpc":"2.0","method":"turn.event","params":{"turn":"t1","seq":0,"type":"text","choice":0,"delta":"a"}}` + "\n"
	other = `{"jsonrpc":"2.0","method":"turn.event","params":{"turn":"t2","seq":9,"type":"done"}}` + "\n"
	one   = `{"jsonrpc":"2.0","method":"turn.event","params":{"turn":"t1","seq":1,"type":"done","finish_reason":"stop"}}` + "\n"
)

func collect(t *testing.T, c *Client) (kinds []string, last error) {
	t.Helper()
	for e, err := range c.Chat(t.Context(), chat("m", "x")) {
		if err != nil {
			last = err
			continue
		}
		kinds = append(kinds, string(e.Type))
	}
	return kinds, last
}

func TestStreamsAreTakenUpWhereTheyBroke(t *testing.T) {
	for name, tc := range map[string]struct {
		answers []string
		kinds   string
		lost    bool
	}{
		"whole":                   {[]string{begin + zero + one}, "text done", false},
		"another turn's events":   {[]string{begin + other + zero + other + one}, "text done", false},
		"an event twice":          {[]string{begin + zero + zero + one}, "text done", false},
		"broken before any event": {[]string{begin, begin + zero + one}, "text done", false},
		"broken between":          {[]string{begin + zero, begin + one}, "text done", false},
		"repeated after a break":  {[]string{begin + zero, begin + zero + one}, "text done", false},
		"broken inside an event":  {[]string{begin + zero[:50], begin + zero + one}, "text done", false},
		"gone after the break":    {[]string{begin + zero, `{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"gone","data":{"name":"turn_not_found"}}}` + "\n"}, "text", true},
		"no daemon after it":      {[]string{begin + zero, ""}, "text", true},
	} {
		kinds, err := collect(t, scripted(t, tc.answers...))
		if got := strings.Join(kinds, " "); got != tc.kinds || errors.Is(err, ErrLost) != tc.lost {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	c := scripted(t, begin+zero, `{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"gone","data":{"name":"turn_not_found"}}}`+"\n")
	if _, err := collect(t, c); !errors.Is(err, ipc.TurnNotFound) {
		t.Errorf("why it could not go on is not said: %v", err)
	}
}

func TestAnErrorEventIsAlsoAnError(t *testing.T) {
	c := scripted(t, begin+`{"jsonrpc":"2.0","method":"turn.event","params":{"turn":"t1","seq":0,"type":"error","code":-32003,"message":"full","data":{"name":"no_room","need":5}}}`+"\n")
	kinds, err := collect(t, c)
	var e *ipc.Error
	if len(kinds) != 1 || kinds[0] != string(turn.EventError) || !errors.As(err, &e) || e.Name != ipc.NoRoom || e.Data["need"] != 5.0 {
		t.Errorf("%q, %#v", kinds, err)
	}
}

func TestAWatcherSkipsWhatItDoesNotKnow(t *testing.T) {
	c := scripted(t, `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n"+zero+
		`{"jsonrpc":"2.0","method":"daemon.event","params":{"rev":4,"type":"state","state":{"version":"v"}}}`+"\n")
	for e, err := range c.Watch(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Rev != 4 || e.State.Version != "v" {
			t.Errorf("%+v", e)
		}
		break
	}
	// One that can't be watched: the error, and the end when the caller says so.
	c = scripted(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32009,"message":"bye","data":{"name":"shutting_down"}}}`+"\n")
	for _, err := range c.Watch(t.Context()) {
		if !errors.Is(err, ipc.ShuttingDown) {
			t.Error(err)
		}
		break
	}
}
