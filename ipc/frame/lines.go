package frame

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"
)

// Lines returns a Channel over rwc, which it owns from then on: a message is
// a line of at most limit bytes, its newline not counted. Blank lines are
// skipped, and a last line needs no newline.
func Lines(rwc io.ReadWriteCloser, limit int) Channel {
	return &lines{rwc: rwc, limit: limit, r: bufio.NewReaderSize(rwc, 64<<10)}
}

type lines struct {
	rwc   io.ReadWriteCloser
	limit int
	r     *bufio.Reader

	mu  sync.Mutex // one line at a time
	buf []byte
}

// errNewline reports a message that can't be a line.
var errNewline = errors.New("frame: message contains a newline")

func (l *lines) Send(msg []byte) error {
	if bytes.IndexByte(msg, '\n') >= 0 {
		return errNewline
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(msg) > 64<<10 { // not worth a copy
		if _, err := l.rwc.Write(msg); err != nil {
			return err
		}
		_, err := l.rwc.Write([]byte{'\n'})
		return err
	}
	l.buf = append(append(l.buf[:0], msg...), '\n')
	_, err := l.rwc.Write(l.buf)
	return err
}

func (l *lines) Recv() ([]byte, error) {
	for {
		line, err := l.line()
		line = bytes.TrimSpace(line)
		if err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)) {
			return nil, err
		}
		if len(line) > 0 {
			return line, nil
		}
	}
}

// line reads up to a newline or the end.
func (l *lines) line() ([]byte, error) {
	var whole []byte
	for {
		part, err := l.r.ReadSlice('\n')
		// The newline, and a carriage return before it, are not of the message.
		if len(whole)+len(part) > l.limit+2 {
			return nil, l.skip(err)
		}
		whole = append(whole, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			if len(bytes.TrimRight(whole, "\r\n")) > l.limit {
				return nil, &TooLargeError{Limit: l.limit}
			}
			return whole, err
		}
	}
}

// skip discards the rest of an overlong line whose last read gave err.
func (l *lines) skip(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.r.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return &TooLargeError{Limit: l.limit}
}

func (l *lines) Close() error { return l.rwc.Close() }
