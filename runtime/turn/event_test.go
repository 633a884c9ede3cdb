package turn

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
)

func TestEventJSON(t *testing.T) {
	one := 1
	for _, tc := range []struct {
		name string
		ev   Event
		want string
	}{
		{"queued", Event{Turn: "t1", Type: EventQueued, Queued: &Queued{Position: 2}},
			`{"turn":"t1","seq":0,"type":"queued","position":2}`},
		{"text", Event{Turn: "t1", Seq: 3, Type: EventText, Choice: &one, Text: &Text{Delta: "é"}},
			`{"turn":"t1","seq":3,"type":"text","choice":1,"delta":"é"}`},
		{"tool", Event{Turn: "t", Seq: 4, Type: EventToolCall, Choice: &one, ToolCall: &ToolCall{ID: "c", Name: "f"}},
			`{"turn":"t","seq":4,"type":"tool_call","choice":1,"index":0,"id":"c","name":"f","arguments":""}`},
		{"prefill", Event{Turn: "t", Type: EventPrefill, Prefill: &Prefill{Done: 1, Total: 2, Plan: Plan{Width: 1, Reason: ReasonPrompt}, Live: 5, Limit: 9}},
			`{"turn":"t","seq":0,"type":"prefill","done":1,"total":2,"width":1,"depth":0,"reason":"prompt","live":5,"limit":9}`},
		{"error", Event{Turn: "t", Type: EventError, Failure: &Failure{Code: -1, Message: "m", Data: json.RawMessage(`{"name":"x"}`)}},
			`{"turn":"t","seq":0,"type":"error","code":-1,"message":"m","data":{"name":"x"}}`},
	} {
		got, err := json.Marshal(&tc.ev)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: got %s (%v)\nwant %s", tc.name, got, err, tc.want)
		}
		var back Event
		if err := json.Unmarshal(got, &back); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if again, _ := json.Marshal(&back); string(again) != tc.want {
			t.Errorf("%s: round trip gives %s", tc.name, again)
		}
	}
}

func TestEventFinal(t *testing.T) {
	for _, ty := range []EventType{EventQueued, EventLoading, EventPrefill, EventText, EventReasoning, EventToolCall, EventWaiting, EventResumed} {
		if (&Event{Type: ty}).Final() {
			t.Errorf("%s ends a turn", ty)
		}
	}
	if !(&Event{Type: EventDone}).Final() || !(&Event{Type: EventError}).Final() {
		t.Error("done and error must end a turn")
	}
}

func TestDoneJSONHasTheContractsKeys(t *testing.T) {
	b, err := json.Marshal(&Event{Type: EventDone, Done: &Done{FinishReason: FinishStop}})
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"finish_reason", "usage", "ingot"} {
		if _, ok := m[k]; !ok {
			t.Errorf("done has no %q: %s", k, b)
		}
	}
	ingot := m["ingot"].(map[string]any)
	for _, k := range []string{"prefill", "decode", "buffers", "memory", "queue_ms", "load_ms", "resumed", "seed"} {
		if _, ok := ingot[k]; !ok {
			t.Errorf("report has no %q: %s", k, b)
		}
	}
}

func TestValidate(t *testing.T) {
	ok := Neutral()
	if err := ok.Validate(); err != nil {
		t.Fatalf("neutral parameters: %v", err)
	}
	for field, spoil := range map[string]func(*Params){
		"max_tokens":         func(p *Params) { p.MaxTokens = -1 },
		"n":                  func(p *Params) { p.N = MaxChoices + 1 },
		"temperature":        func(p *Params) { p.Temperature = math.NaN() },
		"top_p":              func(p *Params) { p.TopP = 0 },
		"top_k":              func(p *Params) { p.TopK = -3 },
		"min_p":              func(p *Params) { p.MinP = 1.5 },
		"repetition_penalty": func(p *Params) { p.RepetitionPenalty = 0 },
		"presence_penalty":   func(p *Params) { p.PresencePenalty = 3 },
		"frequency_penalty":  func(p *Params) { p.FrequencyPenalty = -3 },
		"top_logprobs":       func(p *Params) { p.TopLogprobs = MaxTopLogprobs + 1 },
		"stop[0]":            func(p *Params) { p.Stop = []string{""} },
		"stop":               func(p *Params) { p.Stop = make([]string, MaxStops+1); fill(p.Stop) },
		"logit_bias[7]":      func(p *Params) { p.LogitBias = map[TokenID]float64{7: 101} },
		"ingot.prefill_step": func(p *Params) { p.PrefillStep = -1 },
	} {
		p := Neutral()
		spoil(&p)
		var fe *FieldError
		if err := p.Validate(); !errors.As(err, &fe) || fe.Field != field {
			t.Errorf("spoilt %s: got %v", field, err)
		}
	}
}

func fill(s []string) {
	for i := range s {
		s[i] = "x"
	}
}
