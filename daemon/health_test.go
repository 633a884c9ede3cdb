package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"ingot/ipc"
	"ingot/ipc/client"
)

// TestHealthTellsTheTruth over the socket: well, with a model that failed,
// and well again.
func TestHealthTellsTheTruth(t *testing.T) {
	sock, stop := serveStand(t, 1)
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", sock)
	}}}
	health := func(want string) {
		t.Helper()
		r, err := web.Get("http://ingot/health")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%d %s %v, want %s", r.StatusCode, body, err, want)
		}
	}
	health(`"status":"ok"`)
	c := &client.Client{Socket: sock}
	if _, err := c.Load(bg, ipc.LoadParams{Model: "tiny"}); err == nil {
		t.Fatal("the load was to fail")
	}
	health(`"models":{"tiny":"failed"}`)
	health(`"status":"degraded"`)
	if _, err := c.Load(bg, ipc.LoadParams{Model: "tiny"}); err != nil {
		t.Fatal(err)
	}
	health(`"status":"ok"`)
	if err := stop(); err != nil {
		t.Error(err)
	}
}
