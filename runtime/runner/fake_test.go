package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"ingot/runtime/governor"
	"ingot/runtime/sched"
	"ingot/runtime/sched/schedtest"
	"ingot/runtime/step"
	"ingot/runtime/text"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeWords is a vocabulary of numbers: token 7 is " 7", and a text is
// tokenized by its fields.
type fakeWords struct {
	closed bool
	bad    turn.TokenID // can't be decoded; 0: none
}

var errWords = errors.New("no such word")

func (*fakeWords) TokenBytes(id turn.TokenID) ([]byte, error) { return []byte(spell(id)), nil }

func (*fakeWords) IsControl(id turn.TokenID) bool { return id == 0 }

func spell(id turn.TokenID) string { return " " + strconv.Itoa(int(id)) }

func (w *fakeWords) Chat(body json.RawMessage, _ time.Time) (text.Prompt, error) {
	var c struct{ Messages []struct{ Content string } }
	if err := json.Unmarshal(body, &c); err != nil {
		return text.Prompt{}, &turn.FieldError{Field: "messages", Why: err.Error()}
	}
	var ids []turn.TokenID
	for _, m := range c.Messages {
		more, err := w.Encode(m.Content, false, false)
		if err != nil {
			return text.Prompt{}, &text.TemplateError{Err: err}
		}
		ids = append(ids, more...)
	}
	return text.Prompt{Tokens: ids}, nil
}

func (*fakeWords) Encode(s string, _, _ bool) ([]turn.TokenID, error) {
	var ids []turn.TokenID
	for _, f := range strings.Fields(s) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, errWords
		}
		ids = append(ids, turn.TokenID(n))
	}
	return ids, nil
}

func (*fakeWords) Decode(ids []turn.TokenID, _ bool) (string, error) {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(spell(id))
	}
	return b.String(), nil
}

func (w *fakeWords) Stream() text.Stream   { return fakeStream{w.bad} }
func (*fakeWords) StopIDs() []turn.TokenID { return []turn.TokenID{0} }
func (w *fakeWords) Close()                { w.closed = true }

type fakeStream struct{ bad turn.TokenID }

func (s fakeStream) Step(id turn.TokenID) (string, error) {
	if id == s.bad && id != 0 {
		return "", errWords
	}
	return spell(id), nil
}
func (fakeStream) Flush() (string, error) { return "", nil }
func (fakeStream) Close()                 {}

// fakeLoader loads a scripted engine.
type fakeLoader struct {
	script *schedtest.Script
	words  fakeWords
	err    error // of Model
	engine *schedtest.Engine
	closed bool
	grants []wire.Grant
	hold   chan struct{} // steps wait for it to close; nil: they don't
}

// stuck is an engine whose device hangs until hold closes.
type stuck struct {
	sched.Engine
	hold chan struct{}
}

func (s stuck) Step(st *step.Step) (*step.Result, error) {
	<-s.hold
	return s.Engine.Step(st)
}

func (l *fakeLoader) Words(folder string) (Words, error) {
	if _, err := os.Stat(folder); err != nil {
		return nil, err
	}
	return &l.words, nil
}

func (l *fakeLoader) Model(h *wire.Hello, progress func(float64)) (*Model, error) {
	l.grants = append(l.grants, h.Grant)
	progress(0.5)
	progress(0.501)
	if l.err != nil {
		return nil, l.err
	}
	progress(1)
	l.engine = schedtest.New(l.script)
	l.engine.SetGrant(h.Grant.Buffers, 0)
	var e sched.Engine = l.engine
	if l.hold != nil {
		e = stuck{e, l.hold}
	}
	return &Model{
		Engine: e, Planner: governor.New(governor.Config{Layers: l.script.Layers}), Alloc: noAlloc{},
		Info:  wire.Info{Family: "fake", Vocab: l.script.Vocab, Context: l.script.Context},
		Close: func() { l.closed = true },
	}, nil
}

type noAlloc struct{}

func (noAlloc) FailAt(int64)     {}
func (noAlloc) Fired() int64     { return 0 }
func (noAlloc) Allocated() int64 { return 0 }

// bench is a daemon's end of a runner.
type bench struct {
	t      *testing.T
	conn   *wire.Conn
	loader *fakeLoader
	exit   chan int // Run's result, or that of the reader's Exit
	kill   chan struct{}

	mu     sync.Mutex
	frames []wire.Message
	heard  *sync.Cond
	gone   bool
}

// launch runs a runner over a pipe and says Hello.
func launch(t *testing.T, script string, hello wire.Hello) *bench {
	return launchWith(t, &fakeLoader{script: schedtest.Must(script)}, hello)
}

func launchWith(t *testing.T, l *fakeLoader, hello wire.Hello) *bench {
	ours, theirs := net.Pipe()
	b := &bench{t: t, conn: wire.NewConn(ours), loader: l, exit: make(chan int, 2), kill: make(chan struct{}, 1)}
	b.heard = sync.NewCond(&b.mu)
	return b.start(theirs, hello)
}

func (b *bench) start(theirs io.ReadWriteCloser, hello wire.Hello) *bench {
	o := Options{Log: zerolog.Nop(), Exit: func(code int) { b.exit <- code }, Kill: func() { b.kill <- struct{}{} }}
	go func() { b.exit <- Run(theirs, b.loader, o); theirs.Close() }()
	go b.listen()
	if hello.Folder == "" {
		hello.Folder = b.t.TempDir()
	}
	hello.Version, hello.Mode = wire.Version, orMode(hello.Mode)
	b.send(&hello)
	b.t.Cleanup(func() { b.conn.Close() })
	return b
}

func orMode(m wire.Mode) wire.Mode {
	if m == "" {
		return wire.ModeFull
	}
	return m
}

func (b *bench) send(m wire.Message) {
	b.t.Helper()
	if err := b.conn.Send(m); err != nil {
		b.t.Fatalf("send %T: %v", m, err)
	}
}

func (b *bench) listen() {
	for {
		m, err := b.conn.Recv()
		b.mu.Lock()
		if err != nil {
			b.gone = true
		} else {
			b.frames = append(b.frames, m)
		}
		b.heard.Broadcast()
		b.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// await returns the first frame that fits, waiting for it.
func await[M wire.Message](b *bench, fits func(M) bool) M {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for at := 0; ; b.heard.Wait() {
		for ; at < len(b.frames); at++ {
			if m, ok := b.frames[at].(M); ok && fits(m) {
				return m
			}
		}
		if b.gone {
			var none M
			b.t.Fatalf("no %T came; frames: %v", none, kinds(b.frames))
		}
	}
}

func any1[M wire.Message](M) bool { return true }

func kinds(ms []wire.Message) (out []string) {
	for _, m := range ms {
		out = append(out, fmt.Sprintf("%T", m))
	}
	return out
}

// turnOf gathers all that was said of a turn, once it has ended.
type story struct {
	prompt *wire.Prompt
	tokens [][]turn.TokenID
	text   []string
	finish []turn.Finish
	events []turn.Event
	end    *wire.End
}

func (b *bench) story(id turn.ID, n int) *story {
	b.t.Helper()
	s := &story{tokens: make([][]turn.TokenID, n), text: make([]string, n), finish: make([]turn.Finish, n)}
	s.end = await(b, func(e *wire.End) bool { return e.Turn == id })
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.frames {
		switch m := m.(type) {
		case *wire.Prompt:
			if m.Turn == id {
				s.prompt = m
			}
		case *wire.Step:
			if m.Turn == id {
				s.add(m)
			}
		}
	}
	return s
}

func (s *story) add(m *wire.Step) {
	s.events = append(s.events, m.Events...)
	for _, c := range m.Choices {
		s.tokens[c.Choice] = append(s.tokens[c.Choice], c.Tokens...)
		if c.Finish != "" {
			s.finish[c.Choice] = c.Finish
		}
	}
	for _, e := range m.Events {
		if e.Type == turn.EventText {
			s.text[*e.Choice] += e.Text.Delta
		}
	}
}

// all returns the frames so far; rest waits for the end of the stream first.
func (b *bench) all() []wire.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.frames)
}

func (b *bench) rest() []wire.Message {
	b.mu.Lock()
	for !b.gone {
		b.heard.Wait()
	}
	b.mu.Unlock()
	return b.all()
}

// stop asks the runner to end and returns its exit code.
func (b *bench) stop() int {
	b.t.Helper()
	b.send(&wire.Stop{})
	return <-b.exit
}

func write(t *testing.T, folder, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// firstFrame is the exit code of a runner that hears m first.
func firstFrame(t *testing.T, m wire.Message) int {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go wire.NewConn(ours).Send(m)
	return Run(theirs, &fakeLoader{}, Options{Log: zerolog.Nop(), Exit: func(int) {}})
}
