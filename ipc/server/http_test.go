package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"ingot/ipc"
	"ingot/ipc/server"
	"ingot/ipc/server/servertest"
)

// web returns an HTTP client of the socket.
func (h *house) web(t *testing.T) *http.Client {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", h.path)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func post(t *testing.T, c *http.Client, body string) (status int, answer string) {
	t.Helper()
	r, err := c.Post("http://ingot/rpc", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

func TestHTTP(t *testing.T) {
	h := open(t, server.Options{})
	c := h.web(t)
	for _, tc := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"tokens.count","params":{"text":"abc"}}`, 200, `"result":{"tokens":3}`},
		{`{"jsonrpc":"2.0","id":1,"method":"completion.create","params":{"model":"m","prompt":"hi"}}`, 200, `"text":"hi"`},
		{`[{"jsonrpc":"2.0","id":1,"method":"no"},{"jsonrpc":"2.0","id":2,"method":"daemon.status"}]`, 200, `"method_not_found"`},
		{`{"jsonrpc":"2.0","id":1,"method":"no"}`, 404, `"method_not_found"`},
		{`{"jsonrpc":"2.0","id":1,"method":"completion.create","params":{"prompt":"x","stream":true}}`, 400, `"field":"stream"`},
		{`{"jsonrpc":"2.0","id":1,"method":"daemon.watch"}`, 400, `"unsupported"`},
		{`{"jsonrpc":"2.0","id":1,"method":"turn.attach","params":{"turn":"t"}}`, 400, `"unsupported"`},
		{`{"jsonrpc":"2.0","id":1,"method":"models.pull","params":{"model":"m","stream":true}}`, 400, `"field":"stream"`},
		{`{`, 400, `"parse_error"`},
		{``, 400, `"parse_error"`},
		{`{"jsonrpc":"2.0","method":"models.load","params":{"model":"m"}}`, 204, ``},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":"` + strings.Repeat("x", ipc.MaxMessage) + `"}`, 413, `"too_large"`},
	} {
		status, answer := post(t, c, tc.body)
		if status != tc.status || !strings.Contains(answer, tc.want) {
			t.Errorf("%.100s: %d %s, want %d %s", tc.body, status, answer, tc.status, tc.want)
		}
	}
	for path, want := range map[string]int{"/health": 200, "/": 404, "/nope": 404, "/rpc": 404, "/ws": 400} {
		r, err := c.Get("http://ingot" + path)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != want || !json.Valid(b) {
			t.Errorf("GET %s: %d %s", path, r.StatusCode, b)
		}
	}
}

func TestHTTPDisconnectCancels(t *testing.T) {
	h := open(t, server.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	body := `{"jsonrpc":"2.0","id":1,"method":"completion.create","params":{"model":"slow","prompt":"x"}}`
	req, err := http.NewRequestWithContext(ctx, "POST", "http://ingot/rpc", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { _, err := h.web(t).Do(req); failed <- err }() //nolint:bodyclose // it fails
	eventually(t, "the turn starts", func() bool { return h.Views() == 1 })
	cancel()
	if err := <-failed; err == nil {
		t.Error("the request did not fail")
	}
	<-h.Cancelled()
	eventually(t, "the view is closed", func() bool { return h.Views() == 0 })
}

func (h *house) websocket(t *testing.T, header http.Header) (*websocket.Conn, *http.Response, error) {
	d := websocket.Dialer{NetDial: func(string, string) (net.Conn, error) { return net.Dial("unix", h.path) }}
	c, r, err := d.Dial("ws://ingot/ws", header)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, r, err
}

func TestWebSocket(t *testing.T) {
	h := open(t, server.Options{})
	c, _, err := h.websocket(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	req := `{"jsonrpc":"2.0","id":1,"method":"completion.create","params":{"model":"m","stream":true,"prompt":"a b"}}`
	if err := c.WriteMessage(websocket.TextMessage, []byte(req)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for len(got) < 5 {
		_, m, err := c.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(m))
	}
	if got[0] != `{"jsonrpc":"2.0","id":1,"result":{"turn":"t1"}}` || !strings.Contains(got[4], `"type":"done"`) {
		t.Errorf("%q", got)
	}
	if err := c.WriteMessage(websocket.BinaryMessage, bytes.Repeat([]byte("x"), ipc.MaxMessage+1)); err != nil {
		t.Fatal(err)
	}
	if _, m, err := c.ReadMessage(); err != nil || !strings.Contains(string(m), `"too_large"`) {
		t.Errorf("%s, %v", m, err)
	}
}

func TestWebSocketStreamLingers(t *testing.T) {
	h := open(t, server.Options{})
	c, _, err := h.websocket(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	req := `{"jsonrpc":"2.0","id":1,"method":"completion.create","params":{"model":"` + servertest.Slow + `","stream":true,"prompt":"x"}}`
	if err := c.WriteMessage(websocket.TextMessage, []byte(req)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the turn starts", func() bool { return h.Views() == 1 })
	c.Close()
	eventually(t, "the view is closed", func() bool { return h.Views() == 0 })
	if len(h.Cancelled()) != 0 {
		t.Error("cancelled")
	}
}

func TestAForeignPageIsRefused(t *testing.T) {
	h := open(t, server.Options{})
	_, r, err := h.websocket(t, http.Header{"Origin": {"http://evil.example"}})
	if err == nil || r == nil || r.StatusCode != http.StatusForbidden {
		t.Errorf("%v, %v", r, err)
	}
}

func TestShutdownEndsWebSocketsAndHTTP(t *testing.T) {
	h := open(t, server.Options{})
	c, _, err := h.websocket(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := post(t, h.web(t), `{"jsonrpc":"2.0","id":1,"method":"daemon.status"}`); status != 200 {
		t.Error(status)
	}
	if err := h.srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, _, err := c.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("farewell: %v", err)
	}
}
