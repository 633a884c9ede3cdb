package socket

import (
	"bufio"
	"bytes"
	"net"
	"strings"
)

// Tongue is what a connection speaks.
type Tongue int

// The tongues a first message tells apart.
const (
	JSON Tongue = iota // newline JSON-RPC; also whatever is no HTTP
	HTTP
)

// methods are the words an HTTP request may begin with.
var methods = []string{"GET ", "POST ", "PUT ", "HEAD ", "OPTIONS ", "DELETE ", "PATCH ", "TRACE ", "CONNECT ", "PRI "}

// Tell waits for the first bytes of c and says what it speaks. The returned
// connection reads from the start. An error is c's own: nothing came.
func Tell(c net.Conn) (net.Conn, Tongue, error) {
	p := &peeked{Conn: c, r: bufio.NewReaderSize(c, 4096)}
	for n := 1; ; n++ {
		head, err := p.r.Peek(n)
		if n == 1 && err != nil {
			return p, JSON, err
		}
		if http, sure := couldBeHTTP(head); sure || err != nil {
			if http && err == nil {
				return p, HTTP, nil
			}
			return p, JSON, nil
		}
	}
}

// couldBeHTTP reports whether head begins like HTTP, and whether more bytes
// could not change that.
func couldBeHTTP(head []byte) (http, sure bool) {
	for _, m := range methods {
		if bytes.HasPrefix(head, []byte(m)) {
			return true, true
		}
		if strings.HasPrefix(m, string(head)) {
			return true, false
		}
	}
	return false, true
}

// peeked is a connection whose first bytes were looked at.
type peeked struct {
	net.Conn
	r *bufio.Reader
}

func (p *peeked) Read(b []byte) (int, error) { return p.r.Read(b) }

// NetConn returns the connection below.
func (p *peeked) NetConn() net.Conn { return p.Conn }
