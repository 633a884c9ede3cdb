package text

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ingot/runtime/turn"
)

// bytesOf are the ids of a text, one a byte.
func bytesOf(s string) (ids []turn.TokenID) {
	for i := range len(s) {
		ids = append(ids, turn.TokenID(s[i]))
	}
	return ids
}

func assembler(o Options) *Assembler {
	return NewAssembler(&fakeStream{tok: chatml}, chatml, o)
}

// feed gives ids, the last with finish, and returns what was said until it was over.
func feed(t interface{ Fatal(...any) }, a *Assembler, ids []turn.TokenID, finish turn.Finish) (text string, events []turn.Event) {
	for i, id := range ids {
		why := turn.Finish("")
		if i == len(ids)-1 {
			why = finish
		}
		out, err := a.Step(Sampled{ID: id}, why)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, out.Events...)
	}
	for _, e := range events {
		text += e.Text.Delta
	}
	return text, events
}

func TestAssemblerSaysWhatWasSampled(t *testing.T) {
	const end = 257
	for _, tc := range []struct {
		name   string
		stop   []string
		ids    []turn.TokenID
		finish turn.Finish
		want   string
		tokens int
	}{
		{"plain", nil, bytesOf("héllo"), turn.FinishLength, "héllo", 6},
		{"end token", nil, append(bytesOf("hi"), end), turn.FinishStop, "hi", 3},
		{"a stop token that has text", nil, bytesOf("hi!"), turn.FinishStop, "hi", 3},
		{"cut character", nil, bytesOf("a中")[:3], turn.FinishLength, "a", 3},
		{"stop string", []string{"\n\n"}, bytesOf("one\n\ntwo"), turn.FinishLength, "one", 5},
		{"stop string at the end", []string{"ne"}, bytesOf("one"), turn.FinishLength, "o", 3},
		{"ambiguous tail", []string{"\n\n"}, bytesOf("one\n"), turn.FinishLength, "one\n", 4},
		{"ambiguous tail, end token", []string{"\n\n"}, append(bytesOf("one\n"), end), turn.FinishStop, "one\n", 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := assembler(Options{Stop: tc.stop})
			got, _ := feed(t, a, tc.ids, tc.finish)
			if got != tc.want || a.Tokens() != tc.tokens || !a.Over() {
				t.Errorf("got %q with %d tokens, over %v; want %q, %d", got, a.Tokens(), a.Over(), tc.want, tc.tokens)
			}
		})
	}
}

func TestAssemblerStops(t *testing.T) {
	a := assembler(Options{Stop: []string{"."}})
	var stopped []bool
	for _, id := range bytesOf("a.b") {
		out, err := a.Step(Sampled{ID: id}, "")
		if err != nil {
			t.Fatal(err)
		}
		stopped = append(stopped, out.Stopped)
	}
	if !slices.Equal(stopped, []bool{false, true, true}) {
		t.Errorf("stopped: %v", stopped)
	}
	if out, err := a.Finish(); err != nil || len(out.Events) != 0 || !out.Stopped {
		t.Errorf("finish after a stop: %+v, %v", out, err)
	}
}

func TestAssemblerFinish(t *testing.T) {
	a := assembler(Options{Stop: []string{"xyz"}, Choice: 2})
	feed(t, a, bytesOf("axy"), "")
	out, err := a.Finish()
	if err != nil || len(out.Events) != 1 || out.Events[0].Text.Delta != "xy" || *out.Events[0].Choice != 2 {
		t.Errorf("finish: %+v, %v", out, err)
	}
	if out, err = a.Step(Sampled{ID: 'b'}, ""); err != nil || len(out.Events) != 0 || a.Tokens() != 3 {
		t.Errorf("a token after the end: %+v, %v", out, err)
	}
}

func TestAssemblerErrors(t *testing.T) {
	a := assembler(Options{})
	if _, err := a.Step(Sampled{ID: 999}, ""); !errors.Is(err, errStream) {
		t.Errorf("got %v", err)
	}
	if err := assembler(Options{}).Replay([]turn.TokenID{999}); !errors.Is(err, errStream) {
		t.Errorf("got %v", err)
	}
	s := &fakeStream{tok: chatml}
	NewAssembler(s, chatml, Options{}).Close()
	if !s.closed {
		t.Error("the stream is open")
	}
}

func TestIDsAndLogprobsRideOnEvents(t *testing.T) {
	a := assembler(Options{IDs: true, Logprobs: true, Stop: []string{"xy"}})
	var got []string
	for _, id := range []turn.TokenID{0xc3, 0xa9, 'x', 256, 300} {
		out, err := a.Step(Sampled{ID: id, Logprob: -1, Top: []Alternative{{ID: 'b', Logprob: -2}}}, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range out.Events {
			l := e.Text.Logprobs[0]
			if len(e.Text.TokenIDs) != 1 || e.Text.TokenIDs[0] != id || l.Logprob != -1 || l.Top[0].Token != "b" {
				t.Errorf("event of %d: %+v", id, e.Text)
			}
			got = append(got, e.Text.Delta+"/"+l.Token)
			if control := l.Bytes == nil; control != (id >= 256) {
				t.Errorf("bytes of %d: %v", id, l.Bytes)
			}
		}
	}
	if want := "/\uFFFD é/\uFFFD /x /<|start|> /"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, " "), want)
	}
}

func TestOffsetsCountCharacters(t *testing.T) {
	a := assembler(Options{Stop: []string{"zz"}})
	var got []int
	for _, id := range bytesOf("aézb") {
		out, _ := a.Step(Sampled{ID: id}, "")
		got = append(got, out.Offset)
	}
	if want := []int{0, 1, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("offsets %v, want %v", got, want)
	}
}

// shout is a stage that gives words one by one, thinking for those in capitals.
type shout struct{ held string }

func (s *shout) Push(p Piece, out func(Piece)) {
	s.held += p.Text
	for {
		word, rest, ok := strings.Cut(s.held, " ")
		if !ok {
			return
		}
		s.emit(word, out)
		s.held = rest
	}
}

func (s *shout) End(out func(Piece)) { s.emit(s.held, out) }

func (s *shout) emit(word string, out func(Piece)) {
	if word == "CALL" {
		out(Piece{Type: turn.EventToolCall, Call: &turn.ToolCall{Name: word}})
	} else if word == strings.ToUpper(word) {
		out(Piece{Type: turn.EventReasoning, Text: word})
	} else {
		out(Piece{Type: turn.EventText, Text: word})
	}
}

func TestStagesSplitTheAnswer(t *testing.T) {
	a := assembler(Options{Stages: []Stage{&shout{}}, Stop: []string{"!"}, IDs: true})
	var got []string
	for _, id := range bytesOf("HM so CALL well! no") {
		out, err := a.Step(Sampled{ID: id}, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range out.Events {
			switch {
			case e.ToolCall != nil:
				got = append(got, string(e.Type)+":"+e.ToolCall.Name)
			case e.Text.Delta != "":
				got = append(got, string(e.Type)+":"+e.Text.Delta)
			}
		}
	}
	if want := "reasoning:HM text:so tool_call:CALL text:well"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What is given out does not depend on which tokens carry it, nor on a replay.
func TestAnyTokensAndAnyReplayAreTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, stops := letters.Draw(t, "text"), stops.Draw(t, "stops")
		ids := bytesOf(s)
		cut := rapid.IntRange(0, len(ids)).Draw(t, "replayed")

		whole, _ := feed(t, assembler(Options{Stop: stops}), ids, turn.FinishLength)
		before, _ := feed(t, assembler(Options{Stop: stops}), ids[:cut], "")

		resumed := assembler(Options{Stop: stops})
		if err := resumed.Replay(ids[:cut]); err != nil {
			t.Fatal(err)
		}
		after, _ := feed(t, resumed, ids[cut:], turn.FinishLength)
		if cut == len(ids) {
			out, _ := resumed.Finish()
			for _, e := range out.Events {
				after += e.Text.Delta
			}
		}
		want, _ := slowMatch(s, stops)
		if len(ids) > 0 && whole != want || before+after != want {
			t.Fatalf("whole %q, resumed %q + %q, want %q", whole, before, after, want)
		}
	})
}
