package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"ingot/runtime/turn"
)

const question = `"model":"smollm2-135m","messages":[{"role":"user","content":"What is the capital of France?"}],"temperature":0,"max_tokens":24,"return_token_ids":true`

// answerOf is the content and the ids of an OpenAI chat completion.
func answerOf(t *testing.T, raw json.RawMessage) (string, []turn.TokenID) {
	t.Helper()
	var c struct {
		Choices []struct {
			Message  struct{ Content string }
			TokenIDs []turn.TokenID `json:"token_ids"`
		}
	}
	if err := json.Unmarshal(raw, &c); err != nil || len(c.Choices) != 1 {
		t.Fatalf("%s: %v", raw, err)
	}
	return c.Choices[0].Message.Content, c.Choices[0].TokenIDs
}

// TestTheSameAnswerInEveryTongue: greedy, token for token, streamed or not.
func TestTheSameAnswerInEveryTongue(t *testing.T) {
	h := openHouse(t, realBin, "")
	raw, err := h.whole("chat.create", "{"+question+"}")
	if err != nil {
		t.Fatal(err)
	}
	text, ids := answerOf(t, raw)
	if !strings.Contains(text, "Paris") || len(ids) < 3 {
		t.Fatalf("answer %q, ids %v", text, ids)
	}
	same := func(tongue, gotText string, gotIDs []turn.TokenID) {
		t.Helper()
		if gotText != text || gotIDs != nil && !slices.Equal(gotIDs, ids) {
			t.Errorf("%s: %q %v\nwant %q %v", tongue, gotText, gotIDs, text, ids)
		}
	}
	s, err := h.stream("chat.create", "{"+question+`,"stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	same("newline JSON-RPC, streamed", s.text, s.ids)
	if u := s.done.Usage; u.CompletionTokens != len(ids) || u.TotalTokens != u.PromptTokens+len(ids) {
		t.Errorf("usage %+v for %d tokens", u, len(ids))
	}
	same("POST /rpc", overHTTP(t, h), nil)
	for _, streamed := range []bool{false, true} {
		gotText, gotIDs := overWebSocket(t, h, streamed)
		same(fmt.Sprintf("WebSocket, streamed %v", streamed), gotText, gotIDs)
	}
	same("command line", strings.TrimSuffix(h.run("run", "-t", "0", "-n", "24", starterName, "What is the capital of France?"), "\n"), nil)
}

func overHTTP(t *testing.T, h *house) string {
	t.Helper()
	web := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return h.dial(), nil }}}
	defer web.CloseIdleConnections()
	body := `{"jsonrpc":"2.0","id":1,"method":"chat.create","params":{` + question + `}}`
	resp, err := web.Post("http://ingot/rpc", "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := result(line)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := answerOf(t, raw)
	return text
}

func overWebSocket(t *testing.T, h *house, streamed bool) (string, []turn.TokenID) {
	t.Helper()
	d := websocket.Dialer{NetDial: func(string, string) (net.Conn, error) { return h.dial(), nil }}
	ws, resp, err := d.Dial("ws://ingot/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	defer ws.Close()
	req := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"chat.create","params":{%s,"stream":%v}}`, question, streamed)
	if err := ws.WriteMessage(websocket.TextMessage, []byte(req)); err != nil {
		t.Fatal(err)
	}
	next := func() ([]byte, error) { _, m, err := ws.ReadMessage(); return m, err }
	if streamed {
		s, err := listen(next, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s.text, s.ids
	}
	line, err := next()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := result(line)
	if err != nil {
		t.Fatal(err)
	}
	return answerOf(t, raw)
}
