package frame

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 1000

// pairs gives each framing two ends of one channel.
var pairs = map[string]func(t *testing.T) (a, b Channel){
	"lines": func(t *testing.T) (Channel, Channel) {
		x, y := net.Pipe()
		return Lines(x, limit), Lines(y, limit)
	},
	"websocket": func(t *testing.T) (Channel, Channel) {
		got := make(chan *websocket.Conn, 1)
		up := websocket.Upgrader{}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, err := up.Upgrade(w, r, nil)
			if err != nil {
				t.Error(err)
			}
			got <- c
		}))
		t.Cleanup(srv.Close)
		c, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(srv.URL, "http"), nil)
		if err != nil {
			t.Fatal(err)
		}
		return WebSocket(c, limit), WebSocket(<-got, limit)
	},
}

func each(t *testing.T, f func(t *testing.T, a, b Channel)) {
	for name, open := range pairs {
		t.Run(name, func(t *testing.T) {
			a, b := open(t)
			defer b.Close()
			defer a.Close()
			f(t, a, b)
		})
	}
}

// sends runs Send beside the test and returns its error when asked.
func sends(c Channel, msgs ...string) func() error {
	errs := make(chan error, 1)
	go func() {
		for _, m := range msgs {
			if err := c.Send([]byte(m)); err != nil {
				errs <- err
				return
			}
		}
		errs <- nil
	}()
	return func() error { return <-errs }
}

func TestMessagesComeWholeAndInOrder(t *testing.T) {
	each(t, func(t *testing.T, a, b Channel) {
		want := []string{"{}", strings.Repeat("x", limit), `["é"]`}
		done := sends(a, want...)
		for _, w := range want {
			got, err := b.Recv()
			if err != nil || string(got) != w {
				t.Fatalf("got %q, %v; want %q", got, err, w)
			}
		}
		if err := done(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTooLargeLosesOnlyThatMessage(t *testing.T) {
	each(t, func(t *testing.T, a, b Channel) {
		done := sends(a, strings.Repeat("x", limit+1), strings.Repeat("y", 300<<10), "next")
		for range 2 {
			var big *TooLargeError
			if _, err := b.Recv(); !errors.As(err, &big) || big.Limit != limit || !errors.Is(err, ErrTooLarge) {
				t.Fatalf("got %v", err)
			}
		}
		if got, err := b.Recv(); err != nil || string(got) != "next" {
			t.Fatalf("got %q, %v", got, err)
		}
		if err := done(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCloseIsEOFForThePeerAndEndsABlockedRecv(t *testing.T) {
	each(t, func(t *testing.T, a, b Channel) {
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := a.Recv(); err == nil {
				t.Error("Recv on a closed channel gave a message")
			}
		})
		wg.Go(func() {
			if _, err := b.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("peer got %v, want EOF", err)
			}
		})
		a.Close()
		wg.Wait()
	})
}

func TestSendersDoNotMix(t *testing.T) {
	each(t, func(t *testing.T, a, b Channel) {
		var wg sync.WaitGroup
		for _, s := range []string{"a", "b", "c"} {
			wg.Go(func() {
				for range 50 {
					if err := a.Send([]byte(strings.Repeat(s, 500))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 150 {
			got, err := b.Recv()
			if err != nil || len(got) != 500 || strings.Trim(string(got), string(got[:1])) != "" {
				t.Fatalf("got %q, %v", got, err)
			}
		}
		wg.Wait()
	})
}

type stream struct {
	io.Reader
	bytes.Buffer
}

func (s *stream) Read(p []byte) (int, error) { return s.Reader.Read(p) }
func (s *stream) Close() error               { return nil }

func TestLineEdges(t *testing.T) {
	for in, want := range map[string][]string{
		"":                                  nil,
		"\n\r\n \t\n":                       nil,
		"{}":                                {"{}"},
		"a\r\nb\n":                          {"a", "b"},
		strings.Repeat("x", limit) + "\r\n": {strings.Repeat("x", limit)},
	} {
		l := Lines(&stream{Reader: strings.NewReader(in)}, limit)
		var got []string
		for {
			m, err := l.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%q: %v", in, err)
			}
			got = append(got, string(m))
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestALineHoldsNoNewline(t *testing.T) {
	s := &stream{Reader: strings.NewReader("")}
	if err := Lines(s, limit).Send([]byte("a\nb")); err == nil || s.Len() != 0 {
		t.Fatalf("sent %q, %v", s.String(), err)
	}
}

func TestAnyLinesSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msgs := rapid.SliceOf(rapid.StringMatching(`[!-~]([ -~]{0,80}[!-~])?`)).Draw(t, "messages")
		s := &stream{}
		l := Lines(s, limit)
		for _, m := range msgs {
			if err := l.Send([]byte(m)); err != nil {
				t.Fatal(err)
			}
		}
		back := Lines(&stream{Reader: strings.NewReader(s.String())}, limit)
		for _, m := range msgs {
			if got, err := back.Recv(); err != nil || string(got) != m {
				t.Fatalf("got %q, %v; want %q", got, err, m)
			}
		}
		if _, err := back.Recv(); !errors.Is(err, io.EOF) {
			t.Fatalf("at the end: %v", err)
		}
	})
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("{}\n[]\r\n\n\x00"))
	f.Add(bytes.Repeat([]byte("x"), limit+3))
	f.Fuzz(func(t *testing.T, in []byte) {
		l := Lines(&stream{Reader: bytes.NewReader(in)}, limit)
		for {
			m, err := l.Recv()
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil && (len(m) == 0 || len(m) > limit || bytes.IndexByte(m, '\n') >= 0) {
				t.Fatalf("message %q", m)
			}
			if err != nil && !errors.Is(err, ErrTooLarge) {
				t.Fatal(err)
			}
		}
	})
}
