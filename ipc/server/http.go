package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/gorilla/websocket"

	"ingot/ipc"
	"ingot/ipc/frame"
)

// routes is the HTTP side of the socket.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("POST /rpc", s.rpc)
	mux.HandleFunc("GET /ws", s.ws)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, ipc.Errorf(ipc.MethodNotFound, "there is no %s %s here", r.Method, clip(r.URL.Path)))
	})
	return mux
}

// errEnding refuses what comes while the server drains.
var errEnding = ipc.Errorf(ipc.ShuttingDown, "the daemon is stopping").With("retry_after_s", 1)

func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	st, err := s.backend.Status(r.Context())
	if err != nil {
		writeError(w, ipc.AsError(err))
		return
	}
	if st.Stopping {
		writeError(w, ipc.Errorf(ipc.ShuttingDown, "the daemon is stopping").With("retry_after_s", 2))
		return
	}
	answer := map[string]any{"status": "ok", "version": st.Version, "protocol": st.Protocol}
	if sick := sickModels(st); len(sick) > 0 {
		answer["status"], answer["models"] = "degraded", sick
	}
	writeJSON(w, http.StatusOK, answer)
}

// sickModels maps the models that can't answer now, and are not about to, to
// their states.
func sickModels(st *ipc.Status) map[string]ipc.State {
	sick := map[string]ipc.State{}
	for _, m := range st.Models {
		if m.State == ipc.StateStalled || m.State == ipc.StateFailed {
			sick[m.Name] = m.State
		}
	}
	return sick
}

var upgrader = websocket.Upgrader{Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
	name := ipc.ParseError
	if status == http.StatusForbidden { // a web page of another origin
		name = ipc.Forbidden
	}
	writeError(w, ipc.Errorf(name, "%s", reason))
}}

func (s *Server) ws(w http.ResponseWriter, r *http.Request) {
	if !s.enter() { // the HTTP server does not wait for this connection
		writeError(w, errEnding)
		return
	}
	defer s.wg.Done()
	c, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // answered by Error above
	}
	s.converse(s.ctx, frame.WebSocket(c, ipc.MaxMessage), link{streams: true})
}

// rpc answers one JSON-RPC message. The HTTP status is the table's for a
// single call that failed, and 200 for a batch.
func (s *Server) rpc(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, ipc.MaxMessage))
	var big *http.MaxBytesError
	if errors.As(err, &big) {
		writeRaw(w, http.StatusRequestEntityTooLarge, errorReply(
			ipc.Errorf(ipc.TooLarge, "body of more than %d bytes", ipc.MaxMessage).With("limit", ipc.MaxMessage)))
		return
	}
	if err != nil {
		return // the peer is gone
	}
	if !s.enter() {
		writeRaw(w, errEnding.Name.HTTP(), errorReply(errEnding))
		return
	}
	defer s.wg.Done()
	x := newExchange(body)
	s.converse(r.Context(), x, link{gone: func() bool { return r.Context().Err() != nil }})
	if x.answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	writeRaw(w, status(x.answer), x.answer)
}

func status(answer []byte) int {
	rs, batch := responses(answer)
	if batch || len(rs) == 0 || rs[0].Error == nil {
		return http.StatusOK
	}
	return ipc.NameOf(int(rs[0].Error.Code)).HTTP()
}

// exchange is a channel that brings one message and takes one answer.
type exchange struct {
	body   []byte
	read   bool
	answer []byte
}

func newExchange(body []byte) *exchange { return &exchange{body: body} }

func (x *exchange) Recv() ([]byte, error) {
	if x.read {
		return nil, io.EOF
	}
	x.read = true
	return x.body, nil
}

func (x *exchange) Send(msg []byte) error { x.answer = msg; return nil }
func (x *exchange) Close() error          { return nil }

// writeError writes an error in the shape that HTTP clients of OpenAI's
// tongue expect.
func writeError(w http.ResponseWriter, e *ipc.Error) {
	writeJSON(w, e.Name.HTTP(), errorBody(e))
}

func errorBody(e *ipc.Error) any {
	type body struct {
		Message string          `json:"message"`
		Type    ipc.Name        `json:"type"`
		Param   any             `json:"param"`
		Code    ipc.Name        `json:"code"`
		Data    json.RawMessage `json:"data"`
	}
	return map[string]body{"error": {Message: e.Message, Type: e.Name, Param: e.Data["field"], Code: e.Name, Data: e.RawData()}}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		status, raw = http.StatusInternalServerError, nil
	}
	writeRaw(w, status, raw)
}

func writeRaw(w http.ResponseWriter, status int, raw []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n')) // the peer may be gone
}

// refuseHTTP answers a connection that has no HTTP server.
func refuseHTTP(c net.Conn, e *ipc.Error) {
	raw, err := json.Marshal(errorBody(e))
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		e.Name.HTTP(), http.StatusText(e.Name.HTTP()), len(raw), raw)
}

// handoff is the listener through which told connections reach the HTTP
// server.
type handoff struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newHandoff() *handoff { return &handoff{conns: make(chan net.Conn), done: make(chan struct{})} }

// give passes a connection on, or closes it when the HTTP server has ended.
func (h *handoff) give(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.done:
		c.Close()
	}
}

func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

func (h *handoff) Close() error   { h.once.Do(func() { close(h.done) }); return nil }
func (h *handoff) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }
