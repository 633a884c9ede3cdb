package wire

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingot/runtime/turn"
)

func every() []Message {
	text := "hi"
	return []Message{
		&Hello{Version: Version, Model: "m", Folder: "/f", Mode: ModeFull, Grant: Grant{Bytes: 1, Buffers: 2}, Policy: Policy{PrefillStep: 3}, Nth: 1},
		&Grant{Bytes: 5}, &Submit{Turn: "t", Text: &text, Params: turn.Neutral(), Resume: &Resume{Choices: []Delivered{{Tokens: []turn.TokenID{1}, Finish: turn.FinishStop}}}},
		&Cancel{Turn: "t"}, &Flow{Turn: "t", Parked: true}, &Ask{ID: 7, Op: OpCount, Body: []byte(`{"text":"x"}`)}, &Stop{},
		&Loading{Progress: 0.5}, &Ready{Version: Version, Info: Info{Family: "llama", Context: 9}},
		&Failed{Error: Error{Name: "model_failed", Message: "no"}}, &Prompt{Turn: "t", Tokens: []turn.TokenID{1, 2}, Params: turn.Neutral()},
		&Step{Turn: "t", Choices: []Advance{{Choice: 1, Tokens: []turn.TokenID{4}}}, Events: []turn.Event{{Type: turn.EventText, Text: &turn.Text{Delta: "x"}}}},
		&End{Turn: "t", Done: &turn.Done{FinishReason: turn.FinishStop}}, &Answer{ID: 7, Error: &Error{Name: "invalid_params", Message: "x"}},
		&Gauge{Steps: 3, Levers: []Lever{{Name: "narrow"}}}, &Fault{Name: "kill", Left: 2},
	}
}

func pipe(t *testing.T) (a, b *Conn) {
	x, y := net.Pipe()
	a, b = NewConn(x), NewConn(y)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestEveryMessageComesBackAsItWas(t *testing.T) {
	a, b := pipe(t)
	errc := make(chan error, 1)
	go func() { errc <- a.Send(every()...) }()
	for _, want := range every() {
		got, err := b.Recv()
		if err != nil {
			t.Fatalf("%T: %v", want, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%T changed:\n%s", want, d)
		}
	}
	if err := <-errc; err != nil {
		t.Fatal(err)
	}
}

func TestKindsAreDistinct(t *testing.T) {
	seen := map[kind]bool{}
	for _, m := range every() {
		if seen[m.kind()] {
			t.Errorf("%T shares kind %d", m, m.kind())
		}
		seen[m.kind()] = true
		if blank(m.kind()) == nil {
			t.Errorf("%T can't be received", m)
		}
	}
}

func TestSendsFromManyGoroutinesDoNotMix(t *testing.T) {
	a, b := pipe(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 50 {
				if err := a.Send(&Cancel{Turn: "x"}, &Ask{ID: uint64(i), Op: OpEncode, Body: []byte(`{}`)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 8 * 50 {
		for _, want := range []kind{kindCancel, kindAsk} {
			m, err := b.Recv()
			if err != nil || m.kind() != want {
				t.Fatalf("message %d: %T, %v", i, m, err)
			}
		}
	}
	wg.Wait()
}

type stream struct{ io.Reader }

func (stream) Write(p []byte) (int, error) { return len(p), nil }
func (stream) Close() error                { return nil }

func TestBrokenFrames(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want error
	}{
		"end between frames": {"", io.EOF},
		"end inside length":  {"\x02", io.ErrUnexpectedEOF},
		"end inside frame":   {"\x09\x00\x00\x00\x07{}", io.ErrUnexpectedEOF},
		"no kind":            {"\x00\x00\x00\x00", ErrFrame},
		"huge":               {"\xff\xff\xff\xff\x07", ErrFrame},
		"unknown kind":       {"\x03\x00\x00\x00\xee{}", ErrFrame},
		"not JSON":           {"\x03\x00\x00\x00\x04{]", ErrFrame},
	} {
		if _, err := NewConn(stream{strings.NewReader(tc.in)}).Recv(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

func TestTooLargeIsRefusedAndTheNextGoesThrough(t *testing.T) {
	a, b := pipe(t)
	big := strings.Repeat("x", MaxFrame)
	if err := a.Send(&Submit{Text: &big}); err == nil {
		t.Fatal("an oversized frame was sent")
	}
	go a.Send(&Stop{})
	if m, err := b.Recv(); err != nil || m.kind() != kindStop {
		t.Fatalf("after the refusal: %T, %v", m, err)
	}
}

func FuzzRecv(f *testing.F) {
	f.Add([]byte("\x03\x00\x00\x00\x07{}"))
	f.Fuzz(func(_ *testing.T, in []byte) {
		c := NewConn(stream{strings.NewReader(string(in))})
		for {
			if _, err := c.Recv(); err != nil {
				return
			}
		}
	})
}
