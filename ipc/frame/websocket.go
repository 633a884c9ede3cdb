package frame

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// WebSocket returns a Channel over an open WebSocket, which it owns from then
// on: a message is a text or binary message of at most limit bytes. Pings are
// answered while somebody receives.
func WebSocket(conn *websocket.Conn, limit int) Channel {
	return &socket{conn: conn, limit: limit}
}

type socket struct {
	conn  *websocket.Conn
	limit int

	mu sync.Mutex // one message at a time
}

func (s *socket) Send(msg []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn.WriteMessage(websocket.TextMessage, msg)
}

func (s *socket) Recv() ([]byte, error) {
	_, r, err := s.conn.NextReader()
	if err != nil {
		return nil, ended(err)
	}
	msg, err := io.ReadAll(io.LimitReader(r, int64(s.limit)+1))
	if err != nil {
		return nil, ended(err)
	}
	if len(msg) <= s.limit {
		return msg, nil
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return nil, ended(err)
	}
	return nil, &TooLargeError{Limit: s.limit}
}

// ended turns the peer's farewell into io.EOF.
func ended(err error) error {
	if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway,
		websocket.CloseNoStatusReceived, websocket.CloseAbnormalClosure) || errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// farewell bounds the wait for a peer that does not read to take the close
// frame.
const farewell = 100 * time.Millisecond

func (s *socket) Close() error {
	bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = s.conn.WriteControl(websocket.CloseMessage, bye, time.Now().Add(farewell)) // the peer may be gone
	return s.conn.Close()
}
