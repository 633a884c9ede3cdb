// Package fakerunner is a runner without a model, for tests: it speaks the
// frames of fd 3, and each prompt says what shall happen to its turn.
//
// A prompt is words: "tokens 40" (answer that many, default 8), "pause 2ms"
// (between tokens), "prefill 10ms", "die 5" (the process ends before it
// delivers the token of that position), "die prefill", "device 5" (a device
// error there), "hang 5" (no more progress from there), "until 2" (die,
// device and hang only in the first two loads), "fail no_room" (ends with that
// error). Tokens follow from seed, choice and position alone, so that an
// answer is the same in one life or in many. Ids of the prompt are its bytes.
//
// FAKE_LOAD in the environment is the time a load takes, FAKE_FAIL the number
// of loads that fail, FAKE_STUBBORN keeps it from stopping.
package fakerunner

import (
	"encoding/json"
	"hash/fnv"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// Options stand for the environment, where one process holds many runners.
type Options struct {
	Load     time.Duration
	Fail     int
	Stubborn bool
	Exit     func(code int) // ends the runner; need not return
}

// runner is one life.
type runner struct {
	conn *wire.Conn
	opt  Options
	nth  int
	mode wire.Mode

	mu    sync.Mutex
	turns map[turn.ID]*job
	steps uint64
	live  int
}

// job is one turn in a runner.
type job struct {
	id      turn.ID
	script  script
	params  turn.Params
	ids     bool
	prompt  []turn.TokenID
	resumed *wire.Resume

	mu     sync.Mutex
	cond   *sync.Cond
	parked bool
	ended  bool // cancelled
}

type script struct {
	tokens         int
	pause, prefill time.Duration
	die, device    int // positions; -1: none
	hang           int
	diePrefill     bool
	until          int
	fail           string
}

// Run serves the daemon's end of the stream until it ends.
func Run(rw io.ReadWriteCloser, opt Options) int {
	r := &runner{conn: wire.NewConn(rw), opt: opt, turns: map[turn.ID]*job{}}
	m, err := r.conn.Recv()
	hello, ok := m.(*wire.Hello)
	if err != nil || !ok {
		return wire.ExitWire
	}
	r.nth, r.mode = hello.Nth, hello.Mode
	if code, ok := r.load(hello); !ok {
		return code
	}
	defer r.release()
	for {
		m, err := r.conn.Recv()
		if err != nil {
			return wire.ExitOK
		}
		if _, stop := m.(*wire.Stop); stop && !opt.Stubborn {
			return wire.ExitOK
		}
		r.frame(m)
	}
}

// release lets the goroutines of parked turns end.
func (r *runner) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.turns {
		j.mu.Lock()
		j.ended = true
		j.cond.Broadcast()
		j.mu.Unlock()
	}
}

func (r *runner) load(h *wire.Hello) (code int, ok bool) {
	if h.Mode == wire.ModeFull {
		for i := range 4 {
			time.Sleep(r.opt.Load / 4)
			r.conn.Send(&wire.Loading{Progress: float64(i+1) / 4})
		}
		if h.Nth <= r.opt.Fail {
			r.conn.Send(&wire.Failed{Error: wire.Error{Name: "model_failed", Message: "the weights are not to its taste"}})
			return wire.ExitLoad, false
		}
	}
	r.conn.Send(&wire.Ready{Version: wire.Version, Info: wire.Info{
		Family: "fake", Context: 4096, Vocab: 256, Layers: 1, Resident: 1 << 20, Buffers: 10, Limit: 1000, Memory: h.Grant.Bytes, Device: "none",
	}})
	return 0, true
}

func (r *runner) frame(m wire.Message) {
	switch m := m.(type) {
	case *wire.Submit:
		r.submit(m)
	case *wire.Cancel:
		r.with(m.Turn, func(j *job) { j.ended = true })
	case *wire.Flow:
		r.with(m.Turn, func(j *job) { j.parked = m.Parked })
	case *wire.Ask:
		r.conn.Send(answer(m))
	}
}

func (r *runner) with(id turn.ID, f func(*job)) {
	r.mu.Lock()
	j := r.turns[id]
	r.mu.Unlock()
	if j == nil {
		return
	}
	j.mu.Lock()
	f(j)
	j.cond.Broadcast()
	j.mu.Unlock()
}

func (r *runner) submit(m *wire.Submit) {
	j := &job{id: m.Turn, params: m.Params, ids: m.IDs, resumed: m.Resume, prompt: m.Tokens}
	j.cond = sync.NewCond(&j.mu)
	if m.Text != nil {
		j.prompt = Encode(*m.Text)
	}
	if m.Chat != nil {
		j.prompt = Encode(lastMessage(m.Chat))
	}
	j.script = parse(decode(j.prompt))
	r.mu.Lock()
	r.turns[j.id] = j
	r.live++
	r.mu.Unlock()
	if m.Resume == nil {
		r.conn.Send(&wire.Prompt{Turn: j.id, Tokens: j.prompt, Params: j.params})
	}
	go r.serve(j)
}

func lastMessage(chat json.RawMessage) string {
	var c struct{ Messages []struct{ Content string } }
	if json.Unmarshal(chat, &c) != nil || len(c.Messages) == 0 {
		return ""
	}
	return c.Messages[len(c.Messages)-1].Content
}

func answer(m *wire.Ask) *wire.Answer {
	var got any
	switch m.Op {
	case wire.OpEncode:
		var q wire.EncodeAsk
		json.Unmarshal(m.Body, &q)
		got = wire.Tokens{Tokens: Encode(q.Text)}
	case wire.OpDecode:
		var q wire.DecodeAsk
		json.Unmarshal(m.Body, &q)
		got = wire.Text{Text: decode(q.Tokens)}
	case wire.OpCount:
		var q wire.CountAsk
		json.Unmarshal(m.Body, &q)
		n := 0
		if q.Text != nil {
			n = len(*q.Text)
		} else {
			n = len(lastMessage(q.Chat))
		}
		got = wire.Count{Tokens: n}
	}
	body, _ := json.Marshal(got)
	return &wire.Answer{ID: m.ID, Body: body}
}

// Encode is the fake's tokenizer: ids are bytes.
func Encode(s string) []turn.TokenID {
	ids := make([]turn.TokenID, len(s))
	for i := range len(s) {
		ids[i] = turn.TokenID(s[i])
	}
	return ids
}

func decode(ids []turn.TokenID) string {
	b := make([]byte, len(ids))
	for i, id := range ids {
		b[i] = byte(id)
	}
	return string(b)
}

// Token is the id at one position of an answer.
func Token(seed uint64, choice, pos int) turn.TokenID {
	h := fnv.New64a()
	h.Write([]byte(strconv.FormatUint(seed, 10) + "/" + strconv.Itoa(choice) + "/" + strconv.Itoa(pos)))
	return turn.TokenID('a' + h.Sum64()%26)
}

// Text is the whole answer of n tokens.
func Text(seed uint64, choice, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteByte(byte(Token(seed, choice, i)))
	}
	return b.String()
}

func parse(text string) script {
	s := script{tokens: 8, die: -1, device: -1, hang: -1, until: 1 << 30}
	words := strings.Fields(text)
	for i := 0; i+1 < len(words); i++ {
		v := words[i+1]
		n, _ := strconv.Atoi(v)
		d, _ := time.ParseDuration(v)
		switch words[i] {
		case "tokens":
			s.tokens = n
		case "pause":
			s.pause = d
		case "prefill":
			s.prefill = d
		case "die":
			s.die = n
			if s.diePrefill = v == "prefill"; s.diePrefill {
				s.die = -1
			}
		case "device":
			s.device = n
		case "hang":
			s.hang = n
		case "until":
			s.until = n
		case "fail":
			s.fail = v
		}
	}
	return s
}
