package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"ingot/ipc"
	"ingot/ipc/frame"
	"ingot/ipc/socket"
)

// Options of a Server. The zero value serves this process's own user.
type Options struct {
	// PeerUID tells who is on a connection; nil: socket.PeerUID.
	PeerUID func(net.Conn) (uint32, error)
}

// Server speaks the protocol on the connections of its listeners.
type Server struct {
	backend Backend
	peerUID func(net.Conn) (uint32, error)
	http    *http.Server
	web     *handoff

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // connections and the HTTP server

	mu        sync.Mutex
	closing   bool
	listeners map[net.Listener]bool
	fresh     map[net.Conn]bool // nothing came yet
	talking   map[*conn]bool
}

// New returns a Server of b. Call Serve to put it on a listener.
func New(b Backend, opt Options) *Server {
	s := &Server{backend: b, peerUID: opt.PeerUID, web: newHandoff(),
		listeners: map[net.Listener]bool{}, fresh: map[net.Conn]bool{}, talking: map[*conn]bool{}}
	if s.peerUID == nil {
		s.peerUID = socket.PeerUID
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.http = &http.Server{Handler: s.routes(), BaseContext: func(net.Listener) context.Context { return s.ctx }}
	s.wg.Go(func() { _ = s.http.Serve(s.web) })
	return s
}

// Serve accepts connections until the listener fails or the server ends; then
// it returns nil. It may be called for several listeners, and closes them.
func (s *Server) Serve(l net.Listener) error {
	if !s.track(l) {
		l.Close()
		return nil
	}
	var wait time.Duration
	for {
		c, err := l.Accept()
		if err == nil {
			wait = 0
			if !s.enter() {
				c.Close()
				return nil
			}
			go func() { defer s.wg.Done(); s.greet(c) }()
			continue
		}
		if s.ended() || errors.Is(err, net.ErrClosed) {
			return nil
		}
		// Out of descriptors, most likely: others will end.
		wait = min(max(2*wait, 5*time.Millisecond), time.Second)
		select {
		case <-time.After(wait):
		case <-s.ctx.Done():
			return nil
		}
	}
}

func (s *Server) track(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.listeners[l] = true
	return true
}

func (s *Server) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// enter counts a connection in, unless the server is ending. The caller calls
// wg.Done.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.wg.Add(1)
	return true
}

// Shutdown takes no more connections and requests, lets every request and
// stream come to its end, and returns when all is written and closed. The
// backend must end its turns for that. When ctx ends first, the rest is cut
// off as by Close, and its error returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopListening()
	done := make(chan struct{})
	go func() {
		_ = s.http.Shutdown(ctx)
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		s.cancel()
		return nil
	case <-ctx.Done():
		s.Close()
		<-done
		return ctx.Err()
	}
}

func (s *Server) stopListening() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.fresh {
		c.Close()
	}
	for c := range s.talking {
		c.drain()
	}
}

// Close cuts every connection off and waits for its goroutines.
func (s *Server) Close() {
	s.stopListening()
	s.cancel()
	s.http.Close()
	s.wg.Wait()
}

// greet finds out who is there and what they speak, and serves them.
func (s *Server) greet(c net.Conn) {
	uid, err := s.peerUID(c)
	if err != nil {
		c.Close()
		return
	}
	if uid != uint32(os.Getuid()) {
		turnAway(c)
		return
	}
	if !s.newcomer(c) {
		c.Close()
		return
	}
	told, tongue, err := socket.Tell(c)
	s.known(c)
	if err != nil {
		c.Close()
		return
	}
	if tongue == socket.HTTP {
		s.web.give(told)
		return
	}
	s.converse(s.ctx, frame.Lines(told, ipc.MaxMessage), link{streams: true, gone: func() bool { return socket.Gone(c) }})
}

func (s *Server) newcomer(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.fresh[c] = true
	return true
}

func (s *Server) known(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.fresh, c)
}

// converse serves one JSON-RPC conversation to its end.
func (s *Server) converse(ctx context.Context, ch frame.Channel, l link) {
	c := newConn(ctx, s.backend, ch, l)
	s.mu.Lock()
	s.talking[c] = true
	if s.closing {
		c.drain()
	}
	s.mu.Unlock()
	c.run()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.talking, c)
}

// patience bounds the wait for the first bytes of a peer that is turned away.
const patience = time.Second

// turnAway tells another user's peer so, in its own tongue.
func turnAway(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	e := ipc.Errorf(ipc.Forbidden, "this socket belongs to another user")
	if _, tongue, _ := socket.Tell(c); tongue == socket.HTTP {
		refuseHTTP(c, e)
		return
	}
	_, _ = c.Write(append(errorReply(e), '\n'))
}
