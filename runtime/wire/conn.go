package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// MaxFrame bounds a frame, in bytes: the contract's 32 MiB request, twice,
// for JSON's escapes.
const MaxFrame = 64 << 20

// ErrFrame reports bytes that are no frame: the peer is not one of ours, or
// it is broken. The connection is of no further use.
var ErrFrame = errors.New("wire: bad frame")

// Conn carries Messages over a stream.
type Conn struct {
	rw io.ReadWriteCloser
	r  *bufio.Reader

	mu sync.Mutex // one frame at a time
	w  *bufio.Writer
}

// NewConn returns a Conn over rw, which it owns from then on.
func NewConn(rw io.ReadWriteCloser) *Conn {
	return &Conn{rw: rw, r: bufio.NewReaderSize(rw, 64<<10), w: bufio.NewWriterSize(rw, 64<<10)}
}

// Close closes the stream: a blocked Recv or Send returns.
func (c *Conn) Close() error { return c.rw.Close() }

// Send writes messages, in order and with none of another Send's between
// them.
func (c *Conn) Send(ms ...Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range ms {
		if err := c.writeLocked(m); err != nil {
			return err
		}
	}
	return c.w.Flush()
}

func (c *Conn) writeLocked(m Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("wire: encode %T: %w", m, err)
	}
	if len(body)+1 > MaxFrame {
		return fmt.Errorf("wire: %T of %d bytes is over the limit of %d", m, len(body), MaxFrame)
	}
	var head [5]byte
	binary.LittleEndian.PutUint32(head[:4], uint32(len(body)+1))
	head[4] = byte(m.kind())
	if _, err := c.w.Write(head[:]); err != nil {
		return err
	}
	_, err = c.w.Write(body)
	return err
}

// Recv reads the next message. It returns io.EOF when the peer closed
// between frames, io.ErrUnexpectedEOF when it died inside one, and an
// ErrFrame for what is no frame.
func (c *Conn) Recv() (Message, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n == 0 || n > MaxFrame {
		return nil, fmt.Errorf("%w: length %d", ErrFrame, n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(c.r, body); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	m := blank(kind(body[0]))
	if m == nil {
		return nil, fmt.Errorf("%w: kind %d", ErrFrame, body[0])
	}
	if err := json.Unmarshal(body[1:], m); err != nil {
		return nil, fmt.Errorf("%w: %T: %v", ErrFrame, m, err)
	}
	return m, nil
}

func blank(k kind) Message {
	for _, m := range [...]Message{
		new(Hello), new(Grant), new(Submit), new(Cancel), new(Flow), new(Ask), new(Stop),
		new(Loading), new(Ready), new(Failed), new(Prompt), new(Step), new(End),
		new(Answer), new(Gauge), new(Fault),
	} {
		if m.kind() == k {
			return m
		}
	}
	return nil
}
