package runner

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"ingot/runtime/sched/schedtest"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

func submit(id turn.ID, prompt string, max int) *wire.Submit {
	p := turn.Neutral()
	p.MaxTokens, p.Temperature = max, 0
	return &wire.Submit{Turn: id, Text: &prompt, Params: p, Given: []string{"temperature"}}
}

func TestATurnFromPromptToEnd(t *testing.T) {
	b := launch(t, "resident 5\nlimit 900", wire.Hello{Grant: wire.Grant{Buffers: 800}})
	ready := await(b, any1[*wire.Ready])
	if ready.Version != wire.Version || ready.Info.Family != "fake" {
		t.Errorf("ready %+v", ready)
	}
	m := submit("t", "4 8 15 16", 10)
	m.IDs = true
	b.send(m)
	s := b.story("t", 1)
	want, why := b.loader.script.Oracle([]turn.TokenID{4, 8, 15, 16}, m.Params, 0)
	if !slices.Equal(s.tokens[0], want) || s.finish[0] != why {
		t.Errorf("tokens %v (%s), want %v (%s)", s.tokens[0], s.finish[0], want, why)
	}
	if text, _ := b.loader.words.Decode(want, true); s.text[0] != text {
		t.Errorf("text %q, want %q", s.text[0], text)
	}
	if !slices.Equal(s.prompt.Tokens, []turn.TokenID{4, 8, 15, 16}) {
		t.Errorf("prompt %v", s.prompt.Tokens)
	}
	d := s.end.Done
	if d.FinishReason != turn.FinishLength || d.Usage.PromptTokens != 4 || d.Usage.CompletionTokens != 10 || d.Usage.TotalTokens != 14 {
		t.Errorf("done %+v", d)
	}
	if d.Report.Buffers.Limit != 800 || d.Report.Prefill.Tokens != 4 || d.Report.Decode.Tokens != 10 {
		t.Errorf("report %+v", d.Report)
	}
	if s.events[0].Type != turn.EventPrefill || s.events[0].Prefill.Done != 4 {
		t.Errorf("first event %+v", s.events[0])
	}
	if code := b.stop(); code != wire.ExitOK || !b.loader.closed || !b.loader.words.closed {
		t.Errorf("exit %d, model closed: %v, words closed: %v", code, b.loader.closed, b.loader.words.closed)
	}
}

func TestLoadingTellsEachPercentOnce(t *testing.T) {
	b := launch(t, "", wire.Hello{})
	await(b, any1[*wire.Ready])
	var told []float64
	for _, m := range b.all() {
		if l, ok := m.(*wire.Loading); ok {
			told = append(told, l.Progress)
		}
	}
	if !slices.Equal(told, []float64{0.5, 1}) {
		t.Errorf("progress %v", told)
	}
	b.stop()
}

func TestStopStringEndsTheChoice(t *testing.T) {
	b := launch(t, "say 7: 20 21 22 23 24 25 26 27 28 29", wire.Hello{})
	m := submit("t", "7", 100)
	m.Params.Stop = []string{" 23"}
	b.send(m)
	s := b.story("t", 1)
	if s.text[0] != " 20 21 22" || s.finish[0] != turn.FinishStop || s.end.Done.FinishReason != turn.FinishStop {
		t.Errorf("text %q, finish %s", s.text[0], s.finish[0])
	}
	if n := s.end.Done.Usage.CompletionTokens; n != 4 || len(s.tokens[0]) != 4 || s.end.Done.Report.Decode.Tokens != 4 {
		t.Errorf("%d tokens used, %v told, report %+v", n, s.tokens[0], s.end.Done.Report.Decode)
	}
	b.stop()
}

func TestChoices(t *testing.T) {
	b := launch(t, "", wire.Hello{})
	m := submit("t", "1 2 3", 20)
	m.Params.N, m.Params.Temperature = 3, 1
	b.send(m)
	s := b.story("t", 3)
	for c := range 3 {
		want, why := b.loader.script.Oracle([]turn.TokenID{1, 2, 3}, s.prompt.Params, c)
		if slices.Contains(want, 0) { // the words' own stop token
			want, why = want[:slices.Index(want, 0)+1], turn.FinishStop
		}
		if !slices.Equal(s.tokens[c], want) || s.end.Done.FinishReasons[c] != why {
			t.Errorf("choice %d: %v (%s)\nwant %v (%s)", c, s.tokens[c], s.end.Done.FinishReasons[c], want, why)
		}
	}
	b.stop()
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	b := launch(t, "context 100", wire.Hello{})
	chat := json.RawMessage(`{"messages":[{"content":"not a number"}]}`)
	biased, stops := submit("bias", "1", 5), submit("stops", "1", 5)
	biased.Params.LogitBias = map[turn.TokenID]float64{64: 1}
	stops.Params.StopTokens = []turn.TokenID{-1}
	hot := submit("hot", "1", 5)
	hot.Params.Temperature = math.Inf(1)
	hot.Params.Temperature = 101
	for _, tc := range []struct {
		m           *wire.Submit
		name, field string
	}{
		{submit("empty", "", 5), "invalid_params", "prompt"},
		{&wire.Submit{Turn: "chat", Chat: chat, Params: turn.Neutral()}, "invalid_params", "messages"},
		{submit("outside", "1 64", 5), "invalid_params", "prompt[1]"},
		{biased, "invalid_params", "logit_bias[64]"},
		{stops, "invalid_params", "stop_tokens[0]"},
		{hot, "invalid_params", "temperature"},
		{submit("long", strings.Repeat("1 ", 100), 5), "context_exceeded", ""},
	} {
		b.send(tc.m)
		e := await(b, func(e *wire.End) bool { return e.Turn == tc.m.Turn }).Error
		if e == nil || e.Name != tc.name || tc.field != "" && e.Data["field"] != tc.field {
			t.Errorf("%s: %+v", tc.m.Turn, e)
		}
	}
	b.stop()
}

func TestCancelBeforeAndDuring(t *testing.T) {
	b := launch(t, "cost 2ms 0s", wire.Hello{})
	b.send(submit("a", "1 2 3", 4000))
	await(b, func(s *wire.Step) bool { return len(s.Choices) > 0 })
	b.send(&wire.Cancel{Turn: "a"})
	s := b.story("a", 1)
	if s.end.Done == nil || s.end.Done.FinishReason != turn.FinishCancelled || s.end.Done.Usage.CompletionTokens != len(s.tokens[0]) {
		t.Errorf("end %+v", s.end)
	}
	b.send(submit("b", "1 2 3", 4000))
	b.send(&wire.Cancel{Turn: "b"})
	if e := b.story("b", 1).end; e.Done == nil || e.Done.FinishReason != turn.FinishCancelled {
		t.Errorf("end %+v", e)
	}
	b.send(&wire.Cancel{Turn: "never heard of"})
	b.stop()
}

func TestParkedTurnWaits(t *testing.T) {
	b := launch(t, "cost 1ms 0s", wire.Hello{})
	await(b, any1[*wire.Ready])
	b.send(submit("a", "1 2 3", 300))
	b.send(&wire.Flow{Turn: "a", Parked: true})
	b.send(submit("b", "4 5", 50))
	b.story("b", 1)
	for _, m := range b.all() {
		if e, ok := m.(*wire.End); ok && e.Turn == "a" {
			t.Error("a parked turn ended")
		}
	}
	b.send(&wire.Flow{Turn: "a", Parked: false})
	b.story("a", 1)
	b.stop()
}

func TestResumeGoesOnBehindWhatWasDelivered(t *testing.T) {
	for _, cut := range []int{0, 1, 7, 12} {
		b := launch(t, "", wire.Hello{})
		m := submit("t", "", 12)
		m.Text, m.Tokens = nil, []turn.TokenID{9, 9, 4}
		m.Params.Stop = []string{" 99"}
		all, _ := b.loader.script.Oracle(m.Tokens, m.Params, 0)
		m.Resume = &wire.Resume{Choices: []wire.Delivered{{Tokens: all[:cut]}}, Cached: 2, Resumed: 1}
		b.send(m)
		s := b.story("t", 1)
		if !slices.Equal(s.tokens[0], all[cut:]) || s.prompt != nil {
			t.Errorf("cut %d: %v, want %v", cut, s.tokens[0], all[cut:])
		}
		if text, _ := b.loader.words.Decode(all[cut:], true); s.text[0] != text {
			t.Errorf("cut %d: text %q, want %q", cut, s.text[0], text)
		}
		d := s.end.Done
		if d.Usage.CompletionTokens != 12 || d.Usage.Prompt.CachedTokens != 2 || d.Report.Resumed != 1 || d.Report.Decode.Tokens != 12-cut {
			t.Errorf("cut %d: %+v", cut, d)
		}
		if d.FinishReason != turn.FinishLength {
			t.Errorf("cut %d: finish %s", cut, d.FinishReason)
		}
		b.stop()
	}
}

func TestResumeBehindAStopStringEndsAtOnce(t *testing.T) {
	b := launch(t, "", wire.Hello{})
	m := submit("t", "", 50)
	m.Text, m.Tokens = nil, []turn.TokenID{9}
	m.Params.Stop = []string{" 23"}
	m.Resume = &wire.Resume{Choices: []wire.Delivered{{Tokens: []turn.TokenID{22, 23}}}}
	b.send(m)
	s := b.story("t", 1)
	if s.end.Done == nil || s.end.Done.FinishReason != turn.FinishStop || s.text[0] != "" || s.end.Done.Usage.CompletionTokens != 2 {
		t.Errorf("end %+v, text %q", s.end, s.text[0])
	}
	b.stop()
}

func TestATurnThatCantBeToldFailsAlone(t *testing.T) {
	b := launch(t, "say 7: 1 2 63 4 5 6", wire.Hello{})
	b.loader.words.bad = 63
	b.send(submit("bad", "7", 20))
	if e := b.story("bad", 1).end.Error; e == nil || e.Name != "engine_failed" {
		t.Errorf("end %+v", e)
	}
	b.send(submit("good", "1 2 3", 5))
	if e := b.story("good", 1).end; e.Done == nil {
		t.Errorf("end %+v", e)
	}
	b.stop()
}

func TestAsks(t *testing.T) {
	for _, mode := range []wire.Mode{wire.ModeText, wire.ModeFull} {
		b := launch(t, "", wire.Hello{Mode: mode})
		for i, tc := range []struct {
			op         wire.Op
			body, want string
		}{
			{wire.OpEncode, `{"text":"1 2"}`, `{"tokens":[1,2]}`},
			{wire.OpEncode, `{"text":""}`, `{"tokens":[]}`},
			{wire.OpDecode, `{"tokens":[3,4]}`, `{"text":" 3 4"}`},
			{wire.OpCount, `{"text":"1 2 3"}`, `{"tokens":3}`},
			{wire.OpCount, `{"chat":{"messages":[{"content":"1 2"},{"content":"3 4"}]}}`, `{"tokens":4}`},
			{wire.OpCount, `{"text":"x"}`, ""},
			{wire.OpEncode, `{"text":3}`, ""},
			{"guess", `{}`, ""},
		} {
			id := uint64(i + 1)
			b.send(&wire.Ask{ID: id, Op: tc.op, Body: json.RawMessage(tc.body)})
			a := await(b, func(a *wire.Answer) bool { return a.ID == id })
			if string(a.Body) != tc.want || (a.Error == nil) != (tc.want != "") {
				t.Errorf("%s %s: %s, %v", tc.op, tc.body, a.Body, a.Error)
			}
		}
		if code := b.stop(); code != wire.ExitOK {
			t.Errorf("exit %d", code)
		}
	}
}

func TestFailedLoads(t *testing.T) {
	need := &NeedError{Resource: "buffers", Need: 300, Have: 100}
	broken, nonsense := t.TempDir(), t.TempDir()
	write(t, broken, "generation_config.json", `{"temperature":`)
	write(t, nonsense, "generation_config.json", `{"top_p": 7}`)
	for name, tc := range map[string]struct {
		hello wire.Hello
		err   error
		env   string
		want  string
	}{
		"no folder":      {hello: wire.Hello{Folder: "/nowhere"}, want: "/nowhere"},
		"too big":        {err: need, want: "needs 300 buffers, the limit is 100"},
		"faults":         {hello: wire.Hello{Faults: "throw up 3"}, want: "throw up 3"},
		"on purpose":     {hello: wire.Hello{Faults: "fail load 2", Nth: 2}, want: "load 2 fails on purpose"},
		"broken file":    {hello: wire.Hello{Folder: broken}, want: "generation_config.json"},
		"nonsense there": {hello: wire.Hello{Folder: nonsense}, want: "top_p"},
		"limit":          {env: "many", want: `INGOT_RSRC_LIMIT is "many"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("INGOT_RSRC_LIMIT", tc.env)
			b := launchWith(t, &fakeLoader{script: schedtest.Must(""), err: tc.err}, tc.hello)
			f := await(b, any1[*wire.Failed])
			if f.Error.Name != "model_failed" || !strings.Contains(f.Error.Message, tc.want) {
				t.Errorf("%+v", f.Error)
			}
			if errors.Is(tc.err, need) && f.Error.Data["need"] != 300.0 {
				t.Errorf("data %v", f.Error.Data)
			}
			if code := <-b.exit; code != wire.ExitLoad {
				t.Errorf("exit %d", code)
			}
		})
	}
}

func TestLimitFromEnvIsBelowTheGrant(t *testing.T) {
	t.Setenv("INGOT_RSRC_LIMIT", "700")
	b := launch(t, "", wire.Hello{Grant: wire.Grant{Buffers: 900}})
	await(b, any1[*wire.Ready])
	if g := b.loader.grants[0]; g.Buffers != 700 {
		t.Errorf("grant %+v", g)
	}
	b.send(&wire.Grant{Buffers: 800})
	b.send(submit("t", "1 2", 3))
	if e := b.story("t", 1).end.Done; e.Report.Buffers.Limit != 700 {
		t.Errorf("limit %+v", e.Report.Buffers)
	}
	b.stop()
}

func TestGenerationConfigFillsWhatNobodyGave(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "generation_config.json", `{"temperature":0.6,"top_p":0.9,"top_k":20,"repetition_penalty":1.1,"eos_token_id":[1,2]}`)
	b := launch(t, "", wire.Hello{Folder: folder})
	m := submit("t", "1", 3)
	m.Given = []string{"temperature", "top_k"}
	b.send(m)
	p := b.story("t", 1).prompt.Params
	if p.Temperature != 0 || p.TopP != 0.9 || p.TopK != 0 || p.RepetitionPenalty != 1.1 || p.MinP != 0 {
		t.Errorf("%+v", p)
	}
	b.stop()
}

func TestEndOfStreamEndsTheProcessAtOnce(t *testing.T) {
	l := &fakeLoader{script: schedtest.Must(""), hold: make(chan struct{})}
	b := launchWith(t, l, wire.Hello{})
	await(b, any1[*wire.Ready])
	b.send(submit("t", "1 2", 3))
	b.conn.Close()
	if code := <-b.exit; code != wire.ExitOK { // from the reader: the device is stuck
		t.Errorf("exit %d", code)
	}
	close(l.hold)
	<-b.exit
}

func TestStopEndsOpenTurnsFirst(t *testing.T) {
	b := launch(t, "cost 1ms 0s", wire.Hello{Policy: wire.Policy{MaxTurns: 1}})
	b.send(submit("a", "1 2", 3000))
	b.send(submit("b", "1 2", 3000))
	await(b, func(s *wire.Step) bool { return len(s.Choices) > 0 })
	if code := b.stop(); code != wire.ExitOK {
		t.Errorf("exit %d", code)
	}
	for _, id := range []turn.ID{"a", "b"} {
		if e := b.story(id, 1).end; e.Error == nil || e.Error.Name != "shutting_down" {
			t.Errorf("%s: %+v", id, e)
		}
	}
}

func TestDeviceErrorExitsWithoutEndingTheTurn(t *testing.T) {
	b := launch(t, "", wire.Hello{Faults: "device step 4"})
	b.send(submit("t", "1 2 3", 20))
	if code := <-b.exit; code != wire.ExitDevice {
		t.Errorf("exit %d", code)
	}
	f := await(b, any1[*wire.Fault])
	steps := 0
	for _, m := range b.rest() {
		switch m.(type) {
		case *wire.Step:
			steps++
		case *wire.End:
			t.Error("the turn was ended: nobody can resume it")
		}
	}
	if f.Name != "device step 4" || f.Left != 0 || steps != 3 {
		t.Errorf("fault %+v, %d frames", f, steps)
	}
}

func TestGaugeTellsProgressAndLevers(t *testing.T) {
	b := launch(t, "cost 1ms 0s\nresident 100\nsequence 5\nwidth 3", wire.Hello{Grant: wire.Grant{Buffers: 700}})
	m := submit("t", strings.Repeat("1 ", 900), 200)
	m.Params.IgnoreEOS = true
	b.send(m)
	b.story("t", 1)
	g := await(b, func(g *wire.Gauge) bool { return g.Steps > 50 })
	if g.Buffers.Limit != 700 || g.Width == 0 || g.WidthMax < g.Width {
		t.Errorf("gauge %+v", g)
	}
	last := await(b, func(g *wire.Gauge) bool { return g.Running == 0 && g.Steps > 200 })
	if last.PredictMS != 0 {
		t.Errorf("idle gauge %+v", last)
	}
	b.stop()
}

func TestBadFirstFrame(t *testing.T) {
	b := launch(t, "", wire.Hello{})
	b.stop()
	for _, m := range []wire.Message{&wire.Stop{}, &wire.Hello{Version: wire.Version + 1}} {
		if code := firstFrame(t, m); code != wire.ExitWire {
			t.Errorf("%T: exit %d", m, code)
		}
	}
}
