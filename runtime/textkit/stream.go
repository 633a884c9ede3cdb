package textkit

// #include "textkit.h"
import "C"

import (
	"fmt"
	"sync"

	"ingot/runtime/turn"
)

// Stream decodes the ids of one answer as they come. Joined, what Step and Flush
// return is what Decode returns for all ids at once, but for a character at the end
// that the ids only begin: it is left out.
type Stream struct {
	mu sync.Mutex // guards all below
	h  *C.tk_stream
}

// NewStream opens a stream; special tokens give no text if skipSpecial is set. The
// caller closes it. On a closed tokenizer it returns a closed stream.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return &Stream{h: C.tk_stream_open(t.h, C.bool(skipSpecial))}
}

// Step takes the next id and returns the text that it makes certain, whole
// characters only; empty is usual.
func (s *Stream) Step(id turn.TokenID) (string, error) {
	return s.call("stream step", func(buf *C.tk_buf) C.int { return C.tk_stream_step(s.h, C.uint32_t(id), buf) })
}

// Flush returns the text still held back, without an unfinished character.
func (s *Stream) Flush() (string, error) {
	return s.call("stream flush", func(buf *C.tk_buf) C.int { return C.tk_stream_flush(s.h, buf) })
}

// Close frees the stream. Closing twice is fine.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	C.tk_stream_close(s.h)
	s.h = nil
}

func (s *Stream) call(op string, entry func(*C.tk_buf) C.int) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.h == nil {
		return "", fmt.Errorf("%s: %w", op, ErrClosed)
	}
	var buf C.tk_buf
	b, err := answer(op, entry(&buf), &buf)
	return string(b), err
}
