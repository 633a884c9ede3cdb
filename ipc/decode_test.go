package ipc

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ingot/runtime/turn"
)

// wrong is a request that is refused, with the error's name and the field.
type wrong struct {
	in    string
	name  Name
	field string
}

const hi = `"messages":[{"role":"user","content":"hi"}]`

func TestChatRefusesByName(t *testing.T) {
	for _, tc := range []wrong{
		{`{}`, InvalidParams, "messages"},
		{`[]`, InvalidParams, "params"},
		{`{"messages":[]}`, InvalidParams, "messages"},
		{`{"messages":null}`, InvalidParams, "messages"},
		{`{"messages":"hi"}`, InvalidParams, "messages"},
		{`{"messages":[3]}`, InvalidParams, "messages[0]"},
		{`{"messages":[{}]}`, InvalidParams, "messages[0].role"},
		{`{"messages":[{"role":"user"}]}`, InvalidParams, "messages[0].content"},
		{`{"messages":[{"role":"user","content":null}]}`, InvalidParams, "messages[0].content"},
		{`{"messages":[{"role":"king","content":"x"}]}`, InvalidParams, "messages[0].role"},
		{`{"messages":[{"role":"tool","content":"x"}]}`, Unsupported, "messages[0].role"},
		{`{"messages":[{"role":"user","content":"x","mood":1}]}`, InvalidParams, "messages[0].mood"},
		{`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}`, Unsupported, "messages[0].content[0].type"},
		{`{"messages":[{"role":"user","content":[{"type":"text"}]}]}`, InvalidParams, "messages[0].content[0].text"},
		{`{"messages":[{"role":"user","content":[{"text":"x"}]}]}`, InvalidParams, "messages[0].content[0].type"},
		{`{"messages":[{"role":"assistant","content":"","tool_calls":[{}]}]}`, Unsupported, "messages[0].tool_calls"},
		{`{` + hi + `,"Temperature":1}`, InvalidParams, "Temperature"},
		{`{` + hi + `,"nonsense":1}`, InvalidParams, "nonsense"},
		{`{` + hi + `,"temperature":"warm"}`, InvalidParams, "temperature"},
		{`{` + hi + `,"temperature":-1}`, InvalidParams, "temperature"},
		{`{` + hi + `,"temperature":1e999}`, InvalidParams, "temperature"},
		{`{` + hi + `,"top_p":0}`, InvalidParams, "top_p"},
		{`{` + hi + `,"max_tokens":0}`, InvalidParams, "max_tokens"},
		{`{` + hi + `,"max_tokens":1.5}`, InvalidParams, "max_tokens"},
		{`{` + hi + `,"max_tokens":99999999999999999999999}`, InvalidParams, "max_tokens"},
		{`{` + hi + `,"max_tokens":1,"max_completion_tokens":2}`, InvalidParams, "max_completion_tokens"},
		{`{` + hi + `,"n":9}`, InvalidParams, "n"},
		{`{` + hi + `,"n":true}`, InvalidParams, "n"},
		{`{` + hi + `,"stream":1}`, InvalidParams, "stream"},
		{`{` + hi + `,"stop":5}`, InvalidParams, "stop"},
		{`{` + hi + `,"stop":""}`, InvalidParams, "stop"},
		{`{` + hi + `,"stop":["a",1]}`, InvalidParams, "stop[1]"},
		{`{` + hi + `,"stop":["a","b","c","d","e","f","g","h","i","j","k","l","m","n","o","p","q"]}`, InvalidParams, "stop"},
		{`{` + hi + `,"stop_token_ids":[1,null]}`, InvalidParams, "stop_token_ids[1]"},
		{`{` + hi + `,"stop_token_ids":[1,-2]}`, InvalidParams, "stop_token_ids[1]"},
		{`{` + hi + `,"logit_bias":{"x":1}}`, InvalidParams, "logit_bias.x"},
		{`{` + hi + `,"logit_bias":{"5":101}}`, InvalidParams, "logit_bias.5"},
		{`{` + hi + `,"logit_bias":[]}`, InvalidParams, "logit_bias"},
		{`{` + hi + `,"seed":1.5}`, InvalidParams, "seed"},
		{`{` + hi + `,"seed":"x"}`, InvalidParams, "seed"},
		{`{` + hi + `,"logprobs":5}`, InvalidParams, "logprobs"},
		{`{` + hi + `,"top_logprobs":2}`, InvalidParams, "top_logprobs"},
		{`{` + hi + `,"top_logprobs":21,"logprobs":true}`, InvalidParams, "top_logprobs"},
		{`{` + hi + `,"stream_options":{"include_usage":true}}`, InvalidParams, "stream_options"},
		{`{` + hi + `,"stream":true,"stream_options":{"x":1}}`, InvalidParams, "stream_options.x"},
		{`{` + hi + `,"ingot":{"magic":1}}`, InvalidParams, "ingot.magic"},
		{`{` + hi + `,"ingot":{"prefill_step":0}}`, InvalidParams, "ingot.prefill_step"},
		{`{` + hi + `,"ingot":1}`, InvalidParams, "ingot"},
		{`{` + hi + `,"chat_template_kwargs":1}`, InvalidParams, "chat_template_kwargs"},
		{`{` + hi + `,"tools":[{}]}`, Unsupported, "tools"},
		{`{` + hi + `,"tool_choice":"required"}`, Unsupported, "tool_choice"},
		{`{` + hi + `,"response_format":{"type":"json_object"}}`, Unsupported, "response_format"},
		{`{` + hi + `,"store":true}`, Unsupported, "store"},
		{`{` + hi + `,"service_tier":"flex"}`, Unsupported, "service_tier"},
		{`{` + hi + `,"reasoning_effort":"low"}`, Unsupported, "reasoning_effort"},
	} {
		checkWrong(t, tc, new(ChatRequest))
	}
}

func TestOthersRefuseByName(t *testing.T) {
	for _, tc := range []struct {
		p Params
		wrong
	}{
		{new(CompletionRequest), wrong{`{}`, InvalidParams, "prompt"}},
		{new(CompletionRequest), wrong{`{"prompt":""}`, InvalidParams, "prompt"}},
		{new(CompletionRequest), wrong{`{"prompt":[]}`, InvalidParams, "prompt"}},
		{new(CompletionRequest), wrong{`{"prompt":{}}`, InvalidParams, "prompt"}},
		{new(CompletionRequest), wrong{`{"prompt":["a"]}`, InvalidParams, "prompt[0]"}},
		{new(CompletionRequest), wrong{`{"prompt":[4294967296]}`, InvalidParams, "prompt[0]"}},
		{new(CompletionRequest), wrong{`{"prompt":"x","messages":[]}`, InvalidParams, "messages"}},
		{new(CompletionRequest), wrong{`{"prompt":"x","logprobs":true}`, InvalidParams, "logprobs"}},
		{new(CompletionRequest), wrong{`{"prompt":"x","logprobs":1,"top_logprobs":1}`, InvalidParams, "top_logprobs"}},
		{new(CompletionRequest), wrong{`{"prompt":"x","echo":true}`, Unsupported, "echo"}},
		{new(CompletionRequest), wrong{`{"prompt":"x","suffix":"y"}`, Unsupported, "suffix"}},
		{new(NoParams), wrong{`{"x":1}`, InvalidParams, "x"}},
		{new(ModelParams), wrong{`{"model":""}`, InvalidParams, "model"}},
		{new(LoadParams), wrong{`{"keep_alive":"5m"}`, InvalidParams, "model"}},
		{new(PinParams), wrong{`{"model":"m"}`, InvalidParams, "pinned"}},
		{new(AliasParams), wrong{`{"alias":"a","model":""}`, InvalidParams, "model"}},
		{new(PullParams), wrong{`{"model":""}`, InvalidParams, "model"}},
		{new(LogsParams), wrong{`{"lines":0}`, InvalidParams, "lines"}},
		{new(TurnRef), wrong{`{"turn":3}`, InvalidParams, "turn"}},
		{new(AttachParams), wrong{`{"turn":"t","from_seq":-1}`, InvalidParams, "from_seq"}},
		{new(EncodeParams), wrong{`{"model":"m"}`, InvalidParams, "text"}},
		{new(DecodeParams), wrong{`{"tokens":"x"}`, InvalidParams, "tokens"}},
		{new(CountParams), wrong{`{}`, InvalidParams, "text"}},
		{new(CountParams), wrong{`{"text":"x",` + hi + `}`, InvalidParams, "text"}},
	} {
		checkWrong(t, tc.wrong, tc.p)
	}
}

func checkWrong(t *testing.T, tc wrong, p Params) {
	t.Helper()
	err := Decode(json.RawMessage(tc.in), p)
	var e *Error
	if !errors.As(err, &e) || e.Name != tc.name || e.Data["field"] != tc.field || !strings.Contains(e.Message, tc.field) {
		t.Errorf("%s: got %v, want %s naming %s", tc.in, err, tc.name, tc.field)
	}
}

func TestNeutralFieldsPass(t *testing.T) {
	in := `{` + hi + `,"user":"me","metadata":{"a":"b"},"store":false,"service_tier":"auto","prompt_cache_key":"k",
		"safety_identifier":"s","tools":[],"tool_choice":"none","response_format":{ "type" : "text" },"modalities":["text"],
		"temperature":null,"nothing":null,"audio":null}`
	in = strings.Replace(in, `"nothing":null,`, "", 1)
	if err := Decode(json.RawMessage(in), new(ChatRequest)); err != nil {
		t.Fatal(err)
	}
}

func TestChatTurn(t *testing.T) {
	in := `{"model":"m","messages":[
		{"role":"system","content":"be brief"},
		{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"ann"},
		{"role":"assistant","content":"c","tool_calls":[],"refusal":null,"reasoning_content":"r"}],
		"max_completion_tokens":7,"temperature":0,"seed":-1,"stop":"x","stop_token_ids":[5],"logit_bias":{"3":-1.5},
		"logprobs":true,"top_logprobs":2,"return_token_ids":true,"chat_template_kwargs":{"enable_thinking":false},
		"ingot":{"deterministic":true,"prefill_step":64}}`
	var r ChatRequest
	if err := Decode(json.RawMessage(in), &r); err != nil {
		t.Fatal(err)
	}
	got, err := r.Turn()
	if err != nil {
		t.Fatal(err)
	}
	want := turn.Neutral()
	want.MaxTokens, want.Temperature, want.Seed = 7, 0, 1<<64-1
	want.Stop, want.StopTokens = []string{"x"}, []turn.TokenID{5}
	want.LogitBias = map[turn.TokenID]float64{3: -1.5}
	want.Logprobs, want.TopLogprobs, want.Deterministic, want.PrefillStep = true, 2, true, 64
	if d := cmp.Diff(want, got.Params); d != "" {
		t.Error(d)
	}
	chat := `{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"ab","name":"ann"},` +
		`{"role":"assistant","content":"c","reasoning_content":"r"}],"template_kwargs":{"enable_thinking":false}}`
	if string(got.Chat) != chat || got.Model != "m" || !got.IDs || got.Linger {
		t.Errorf("%s\n%+v", got.Chat, got)
	}
	given := []string{"max_tokens", "temperature", "logit_bias", "seed", "logprobs", "top_logprobs", "stop", "stop_tokens", "deterministic", "prefill_step"}
	if d := cmp.Diff(given, got.Given); d != "" {
		t.Error(d)
	}
}

func TestCompletionTurn(t *testing.T) {
	var r CompletionRequest
	if err := Decode(json.RawMessage(`{"prompt":[1,2],"logprobs":3}`), &r); err != nil {
		t.Fatal(err)
	}
	got, err := r.Turn()
	if err != nil || !slices.Equal(got.Tokens, []turn.TokenID{1, 2}) || got.Text != nil || got.Params.TopLogprobs != 3 || !got.Params.Logprobs {
		t.Errorf("%+v, %v", got, err)
	}
	r = CompletionRequest{}
	if err := Decode(json.RawMessage(`{"prompt":"hi","ignore_eos":true}`), &r); err != nil {
		t.Fatal(err)
	}
	got, err = r.Turn()
	if err != nil || got.Tokens != nil || *got.Text != "hi" || !got.Params.IgnoreEOS {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCountRequest(t *testing.T) {
	var p CountParams
	if err := Decode(json.RawMessage(`{`+hi+`}`), &p); err != nil {
		t.Fatal(err)
	}
	if r := p.Request(); string(r.Chat) != `{`+hi+`}` || r.Text != nil {
		t.Errorf("%s", r.Chat)
	}
}

// What a client writes is what the server reads.
func TestClientsRequestsSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		temp := rapid.Float64Range(0, 100).Draw(t, "temperature")
		seed := rapid.Uint64().Draw(t, "seed")
		n := rapid.IntRange(1, 8).Draw(t, "n")
		content := rapid.String().Draw(t, "content")
		stop := rapid.SliceOfN(rapid.StringN(1, 5, 20), 1, 4).Draw(t, "stop")
		raw, err := json.Marshal(&ChatRequest{Model: "m", Messages: []Message{{Role: "user", Content: content}},
			Options: Options{Temperature: &temp, Seed: &seed, N: &n, Stop: stop, Stream: true}})
		if err != nil {
			t.Fatal(err)
		}
		var r ChatRequest
		if err := Decode(raw, &r); err != nil {
			t.Fatal(err)
		}
		got, err := r.Turn()
		if err != nil {
			t.Fatal(err)
		}
		var chat struct{ Messages []Message }
		if err := json.Unmarshal(got.Chat, &chat); err != nil {
			t.Fatal(err)
		}
		p := got.Params
		if p.Temperature != temp || p.Seed != seed || p.N != n || !slices.Equal(p.Stop, stop) || chat.Messages[0].Content != content {
			t.Fatalf("%+v %q", p, chat)
		}
	})
}

func FuzzChat(f *testing.F) {
	f.Add([]byte(`{` + hi + `}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"stop":["a"],"seed":1}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var r ChatRequest
		err := Decode(in, &r)
		if err == nil {
			if tr, err := r.Turn(); err == nil && !json.Valid(tr.Chat) {
				t.Fatalf("chat is no JSON: %s", tr.Chat)
			}
			return
		}
		var e *Error
		if !errors.As(err, &e) || e.Data["field"] == "" {
			t.Fatalf("no field: %v", err)
		}
	})
}

func TestErrors(t *testing.T) {
	seen := map[int]bool{}
	for _, r := range Table {
		if seen[r.Code] {
			t.Errorf("code %d twice", r.Code)
		}
		seen[r.Code] = true
		e := Errorf(r.Name, "m %d", 1).With("k", "v")
		back := FromWire(e.Code(), e.Message, e.RawData())
		if d := cmp.Diff(e, back); d != "" || !errors.Is(back, r.Name) || NameOf(r.Code) != r.Name {
			t.Errorf("%s changed: %s", r.Name, d)
		}
	}
	if e := FromWire(-32603, "boom", nil); e.Name != EngineFailed {
		t.Errorf("an unknown code is %s", e.Name)
	}
	for _, tc := range []struct {
		err  error
		want Name
	}{
		{fmt.Errorf("wrapped: %w", Errorf(NoRoom, "x")), NoRoom},
		{&turn.FieldError{Field: "n", Why: "x"}, InvalidParams},
		{fmt.Errorf("q: %w", QueueFull), QueueFull},
		{errors.New("?"), EngineFailed},
	} {
		if e := AsError(tc.err); e.Name != tc.want {
			t.Errorf("%v is %s, want %s", tc.err, e.Name, tc.want)
		}
	}
	bad := Errorf(NoRoom, "x").With("f", func() {})
	if string(bad.RawData()) != `{"name":"no_room"}` {
		t.Errorf("data that has no JSON: %s", bad.RawData())
	}
}
