package text

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"ingot/runtime/turn"
)

// fakeTok is a tokenizer whose ids are bytes (0 to 255) and, from 256, control
// tokens and then added words. Encoding is greedy.
type fakeTok struct{ control, words []string }

var chatml = &fakeTok{control: []string{"<|start|>", "<|end|>"}, words: []string{"<think>", "</think>"}}

func (f *fakeTok) ControlTokens() []string { return f.control }
func (f *fakeTok) AddedWords() []string    { return f.words }
func (f *fakeTok) added() []string {
	return append(f.control[:len(f.control):len(f.control)], f.words...)
}

func (f *fakeTok) EncodeMarked(s string, marks []int) (ids []turn.TokenID, err error) {
	for i := 0; i < len(s); {
		if k := f.at(s, i, marks); k >= 0 {
			ids = append(ids, turn.TokenID(256+k))
			i += len(f.added()[k])
			continue
		}
		ids = append(ids, turn.TokenID(s[i]))
		i++
	}
	return ids, nil
}

// at is the index of the added token that stands at s[i:] without a mark inside.
func (f *fakeTok) at(s string, i int, marks []int) int {
	for k, t := range f.added() {
		if !strings.HasPrefix(s[i:], t) {
			continue
		}
		free := true
		for _, m := range marks {
			free = free && (m <= i || m >= i+len(t))
		}
		if free {
			return k
		}
	}
	return -1
}

func (f *fakeTok) TokenBytes(id turn.TokenID) ([]byte, error) {
	switch {
	case id < 256:
		return []byte{byte(id)}, nil
	case int(id)-256 < len(f.added()):
		return []byte(f.added()[id-256]), nil
	}
	return nil, errors.New("no such id")
}

func (f *fakeTok) IsControl(id turn.TokenID) bool {
	return id >= 256 && int(id)-256 < len(f.control)
}

// fakeStream decodes a fakeTok's ids; control tokens have no text. The id 999 fails.
type fakeStream struct {
	tok    *fakeTok
	held   []byte
	closed bool
}

var errStream = errors.New("stream broke")

func (s *fakeStream) Step(id turn.TokenID) (string, error) {
	if id == 999 {
		return "", errStream
	}
	if s.tok.IsControl(id) {
		return "", nil
	}
	b, _ := s.tok.TokenBytes(id) // none for an id that is not there
	s.held = append(s.held, b...)
	if !utf8.Valid(s.held) {
		return "", nil
	}
	out := string(s.held)
	s.held = nil
	return out, nil
}

func (s *fakeStream) Flush() (string, error) { s.held = nil; return "", nil }
func (s *fakeStream) Close()                 { s.closed = true }

// fakeTemplate renders with a function.
type fakeTemplate func(variables string) (string, error)

func (f fakeTemplate) Render(variables []byte, _ time.Time) (string, error) {
	return f(string(variables))
}
func (f fakeTemplate) Close() {}
