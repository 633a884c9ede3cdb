package ipc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ingot/runtime/turn"
)

// Every kind of params, filled in, survives the way from client to server.
func TestParamsSurvive(t *testing.T) {
	yes, no, text := true, false, "t"
	three, half := 3, 0.5
	seed := uint64(9)
	full := Options{MaxTokens: &three, N: &three, Temperature: &half, TopP: &half, TopK: &three, MinP: &half, RepetitionPenalty: &half,
		PresencePenalty: &half, FrequencyPenalty: &half, LogitBias: map[turn.TokenID]float64{1: 2}, Seed: &seed, Logprobs: &yes,
		TopLogprobs: &three, Stop: []string{"a"}, StopTokens: []turn.TokenID{4}, IgnoreEOS: &no, Stream: true, ReturnTokenIDs: true,
		Extension: &Extension{Deterministic: &yes, PrefillStep: &three}}
	short := full
	short.Logprobs, short.TopLogprobs = nil, nil
	for _, want := range []Params{
		&NoParams{},
		&ModelParams{Model: "m"},
		&LoadParams{Model: "m", KeepAlive: "-1"},
		&PinParams{Model: "m", Pinned: true},
		&AliasParams{Alias: "a", Model: &text},
		&AliasParams{Alias: "a"},
		&PullParams{Model: "m", Revision: "r", As: "a", Stream: true},
		&LogsParams{Lines: 5, Model: "m"},
		&TurnRef{Turn: "t"},
		&AttachParams{Turn: "t", FromSeq: 7},
		&EncodeParams{Model: "m", Text: "x", AddSpecial: &no, ParseSpecial: true},
		&DecodeParams{Model: "m", Tokens: []turn.TokenID{0, 5}, SkipSpecial: true},
		&DecodeParams{Tokens: []turn.TokenID{}},
		&CountParams{Model: "m", Text: &text},
		&ChatRequest{Model: "m", TemplateKwargs: json.RawMessage(`{"a":1}`), Options: full},
		&CompletionRequest{Model: "m", Prompt: Prompt{Text: "x"}, Options: short},
		&CompletionRequest{Model: "m", Prompt: Prompt{Tokens: []turn.TokenID{1}}, Options: short},
	} {
		if c, ok := want.(*ChatRequest); ok {
			c.Messages = []Message{{Role: "user", Content: "hi"}}
		}
		raw, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got := reflect.New(reflect.TypeOf(want).Elem()).Interface().(Params)
		if err := Decode(raw, got); err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if c, ok := got.(*ChatRequest); ok { // messages are kept as normalized JSON
			if err := json.Unmarshal(c.raw, &c.Messages); err != nil {
				t.Error(err)
			}
		}
		if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(ChatRequest{}, CompletionRequest{}, Options{})); d != "" {
			t.Errorf("%T changed:\n%s", want, d)
		}
	}
}

// A field that a client can send is a field that the server knows, and each
// of them has a name in the document.
func TestEveryFieldOfAStructHasARule(t *testing.T) {
	for _, m := range Methods {
		required, optional := m.Names()
		known := append(required, optional...)
		for name := range typeSchema(reflect.TypeOf(m.Params).Elem())["properties"].(schema) {
			found := false
			for _, k := range known {
				found = found || k == name
			}
			if !found {
				t.Errorf("%s: params have %q but no rule", m.Name, name)
			}
		}
	}
}

func TestAbsentAndNullAreTheSame(t *testing.T) {
	for _, m := range Methods {
		required, optional := m.Names()
		if len(required) > 0 {
			continue
		}
		var nulls []string
		for _, o := range optional {
			nulls = append(nulls, `"`+o+`":null`)
		}
		absent := Decode(nil, fresh(m.Params))
		null := Decode(json.RawMessage("{"+strings.Join(nulls, ",")+"}"), fresh(m.Params))
		if (absent == nil) != (null == nil) {
			t.Errorf("%s: absent gives %v, null %v", m.Name, absent, null)
		}
	}
}

func fresh(p Params) Params { return reflect.New(reflect.TypeOf(p).Elem()).Interface().(Params) }

func TestRequiredFieldsAreAskedFor(t *testing.T) {
	for _, m := range Methods {
		required, _ := m.Names()
		for _, missing := range required {
			var given []string
			for _, r := range required {
				if r != missing {
					given = append(given, `"`+r+`":`+example[r])
				}
			}
			err := Decode(json.RawMessage("{"+strings.Join(given, ",")+"}"), fresh(m.Params))
			if e := AsError(orUnknown(err)); e.Name != InvalidParams || e.Data["field"] != missing {
				t.Errorf("%s without %s: %v", m.Name, missing, err)
			}
		}
	}
}

func orUnknown(err error) error {
	if err == nil {
		return EngineFailed
	}
	return err
}

var example = map[string]string{
	"model": `"m"`, "pinned": "true", "alias": `"a"`, "turn": `"t"`, "text": `"x"`, "tokens": "[1]",
	"messages": `[{"role":"user","content":"x"}]`, "prompt": `"x"`,
}

// The document is frozen: a change of it is a decision, made by -update.
func TestOpenRPCDocument(t *testing.T) {
	const path = "testdata/openrpc.json"
	doc := Discover()
	doc["info"].(map[string]any)["version"] = "any"
	got, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the document changed: see it with go test ./ipc -update and git diff\n%s", cmp.Diff(string(want), string(got)))
	}
}

// Every request that the page shows is one that the daemon takes, and every
// event one that a client can read.
func TestExamplesOfTheProtocolPage(t *testing.T) {
	raw, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	elided := regexp.MustCompile(`\{\.\.\.\}`)
	for s := bufio.NewScanner(bytes.NewReader(raw)); s.Scan(); {
		from, to := strings.Index(s.Text(), `{"jsonrpc"`), strings.LastIndexByte(s.Text(), '}')
		if from < 0 {
			continue
		}
		var m struct {
			ID     *int
			Method Method
			Params json.RawMessage
		}
		line := elided.ReplaceAllString(s.Text()[from:to+1], "{}")
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		seen[m.Method]++
		switch {
		case m.Method == NoteTurn:
			var e turn.Event
			if err := json.Unmarshal(m.Params, &e); err != nil || e.Turn == "" || e.Type == "" {
				t.Errorf("%s: %v", line, err)
			}
		case m.ID != nil && m.Method != "":
			for _, d := range Methods {
				if d.Name == m.Method {
					if err := Decode(m.Params, fresh(d.Params)); err != nil {
						t.Errorf("%s: %v", line, err)
					}
				}
			}
		}
	}
	for _, want := range []Method{ChatCreate, TokensCount, NoteTurn, ""} {
		if seen[want] == 0 {
			t.Errorf("no example of %q: %v", want, seen)
		}
	}
}

func TestEventsKeepTheirShape(t *testing.T) {
	soon := 3.5
	for want, e := range map[string]any{
		`{"rev":1,"type":"removed","name":"m"}`:                                                                Event{Rev: 1, Type: EventRemoved, Name: "m"},
		`{"rev":2,"type":"notice","notice":{"name":"no_room","message":"x","at":5}}`:                           Event{Rev: 2, Type: EventNotice, Notice: &Trouble{Name: NoRoom, Message: "x", At: 5}},
		`{"pull":"p","seq":0,"type":"progress","file":"f","done":1,"total":2}`:                                 PullEvent{Pull: "p", Type: "progress", PullProgress: &PullProgress{File: "f", Done: 1, Total: 2}},
		`{"pull":"p","seq":1,"type":"done","model":"m","bytes":3}`:                                             PullEvent{Pull: "p", Seq: 1, Type: "done", PullResult: &PullResult{Model: "m", Bytes: 3}},
		`{"pull":"p","seq":1,"type":"error","code":-32014,"message":"x","data":{"name":"download_failed"}}`:    PullEvent{Pull: "p", Seq: 1, Type: "error", Failure: Errorf(DownloadFailed, "x").Failure()},
		`{"name":"m","state":"ready","pid":1,"progress":1,"loaded_s":2,"expires_s":3.5,"pinned":false,` + rest: ModelStatus{Name: "m", State: StateReady, PID: 1, Progress: 1, LoadedS: 2, ExpiresS: &soon},
	} {
		got, err := json.Marshal(e)
		if err != nil || string(got) != want {
			t.Errorf("got  %s (%v)\nwant %s", got, err, want)
		}
		back := reflect.New(reflect.TypeOf(e))
		if err := json.Unmarshal(got, back.Interface()); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(e, back.Elem().Interface()); d != "" {
			t.Errorf("%s changed:\n%s", got, d)
		}
	}
}

const rest = `"turns":0,"queued":0,"prefill_width":0,"prefill_width_max":0,"reason":"","tok_s":0,` +
	`"buffers":{"live":0,"peak":0,"limit":0},"memory":{"active":0,"peak":0,"limit":0},"restarts":0}`
