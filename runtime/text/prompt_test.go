package text

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/runtime/turn"
)

// prompter opens named templates, each a function of the variables, over chatml.
func prompter(t *testing.T, special map[string]string, templates map[string]fakeTemplate) *Prompter {
	t.Helper()
	cfg := &Config{Templates: map[string]string{}, Special: special}
	for name := range templates {
		cfg.Templates[name] = name
	}
	p := NewPrompter(chatml, cfg, func(source string) (Template, error) { return templates[source], nil })
	t.Cleanup(p.Close)
	return p
}

func echo(variables string) (string, error) { return variables, nil }

func TestVariablesOfATemplate(t *testing.T) {
	p := prompter(t, map[string]string{"eos_token": "<|end|>", "bos_token": "<s>"}, map[string]fakeTemplate{"default": echo})
	for _, tc := range []struct{ name, in, want string }{
		{"plain", `{"messages":[{"role":"user","content":"Hi"}]}`,
			`{"bos_token":"<s>","eos_token":"<|end|>","add_generation_prompt":true,"documents":null,"tools":null,"messages":[{"role":"user","content":"Hi"}]}`},
		{"nulls, kwargs, tools", `{"messages":[{"role":"user","content":"Hi","name":null}],"tools":[{"b":null,"a":1.0}],"documents":[],"template_kwargs":{"add_generation_prompt":false,"enable_thinking":true}}`,
			`{"bos_token":"<s>","eos_token":"<|end|>","add_generation_prompt":false,"documents":null,"enable_thinking":true,"tools":[{"b":null,"a":1.0}],"messages":[{"role":"user","content":"Hi"}]}`},
		{"reasoning", `{"messages":[{"role":"assistant","reasoning":"r","content":"c"}]}`,
			`{"bos_token":"<s>","eos_token":"<|end|>","add_generation_prompt":true,"documents":null,"tools":null,"messages":[{"role":"assistant","reasoning":"r","content":"c","thinking":"r","reasoning_content":"r"}]}`},
		{"reasoning_content first", `{"messages":[{"role":"assistant","thinking":"t","reasoning_content":"r"}]}`,
			`{"bos_token":"<s>","eos_token":"<|end|>","add_generation_prompt":true,"documents":null,"tools":null,"messages":[{"role":"assistant","thinking":"t","reasoning_content":"r"}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := p.Chat(json.RawMessage(tc.in), time.Time{})
			if err != nil || got.Text != tc.want {
				t.Errorf("got %s, %v\nwant %s", got.Text, err, tc.want)
			}
		})
	}
}

func TestBadChatsAreNamed(t *testing.T) {
	p := prompter(t, nil, map[string]fakeTemplate{"default": echo})
	for in, field := range map[string]string{
		`{`:                                      "messages",
		`{}`:                                     "messages",
		`{"messages":[]}`:                        "messages",
		`{"messages":{}}`:                        "messages",
		`{"messages":["x"]}`:                     "messages[0]",
		`{"messages":[{"content":"x"}]}`:         "messages[0].role",
		`{"messages":[{"role":"user|>"}]}`:       "messages[0].role",
		`{"messages":[{"role":""}]}`:             "messages[0].role",
		`{"messages":[{"role":"u"}],"tools":{}}`: "tools",
		`{"messages":[{"role":"u"}],"x":1}`:      "x",
		`{"messages":[{"role":"u"}],"template_kwargs":[]}`:                  "template_kwargs",
		`{"messages":[{"role":"u"}],"template_kwargs":{"bos_token":"<s>"}}`: "template_kwargs.bos_token",
	} {
		var fe *turn.FieldError
		if _, err := p.Chat(json.RawMessage(in), time.Time{}); !errors.As(err, &fe) || fe.Field != field {
			t.Errorf("%s: got %v, want an error of %s", in, err, field)
		}
	}
}

func TestToolsChooseTheirTemplate(t *testing.T) {
	say := func(s string) fakeTemplate { return func(string) (string, error) { return s, nil } }
	p := prompter(t, nil, map[string]fakeTemplate{"default": say("plain"), "tool_use": say("tools")})
	for in, want := range map[string]string{
		`{"messages":[{"role":"user"}]}`:              "plain",
		`{"messages":[{"role":"user"}],"tools":[]}`:   "plain",
		`{"messages":[{"role":"user"}],"tools":[{}]}`: "tools",
		`{"messages":[{"role":"user"}],"tools":null}`: "plain",
	} {
		if got, err := p.Chat(json.RawMessage(in), time.Time{}); err != nil || got.Text != want {
			t.Errorf("%s: got %q, %v", in, got.Text, err)
		}
	}
	_, err := prompter(t, nil, nil).Chat(json.RawMessage(`{"messages":[{"role":"user"}]}`), time.Time{})
	if !errors.Is(err, ErrNoTemplate) {
		t.Errorf("without a template: %v", err)
	}
}

func TestTemplateErrors(t *testing.T) {
	boom := errors.New("boom")
	p := prompter(t, nil, map[string]fakeTemplate{"default": func(string) (string, error) { return "", boom }})
	_, err := p.Chat(json.RawMessage(`{"messages":[{"role":"user"}]}`), time.Time{})
	var te *TemplateError
	if !errors.As(err, &te) || !errors.Is(err, boom) || err.Error() != "chat template: boom" {
		t.Errorf("got %v", err)
	}
	// A template that does not compile is no reason not to load a model.
	p = NewPrompter(chatml, &Config{Templates: map[string]string{"default": "x"}}, func(string) (Template, error) { return nil, boom })
	defer p.Close()
	if _, err = p.Chat(json.RawMessage(`{"messages":[{"role":"user"}]}`), time.Time{}); !errors.As(err, &te) || !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
}

func TestControlTokensOfPeopleAreText(t *testing.T) {
	// The template writes a turn around the content and breaks lines as JSON does.
	wrap := func(variables string) (string, error) {
		_, content, _ := strings.Cut(variables, `"content":"`)
		content, _, _ = strings.Cut(content, `"`)
		return "<|start|>" + content + "<|end|>", nil
	}
	p := prompter(t, nil, map[string]fakeTemplate{"default": wrap})
	for content, tokens := range map[string][]turn.TokenID{
		"Hi":        {256, 'H', 'i', 257},
		"<|end|>":   append(append([]turn.TokenID{256}, bytesOf("<|end|>")...), 257),
		"<|end|":    append(append([]turn.TokenID{256}, bytesOf("<|end|")...), 257),
		"a <think>": append(append([]turn.TokenID{256}, bytesOf("a ")...), 258, 257),
	} {
		body, _ := json.Marshal(map[string]any{"messages": []any{map[string]string{"role": "user", "content": content}}})
		body = []byte(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(body)))
		got, err := p.Chat(body, time.Time{})
		if err != nil || got.Text != "<|start|>"+content+"<|end|>" || !slices.Equal(got.Tokens, tokens) {
			t.Errorf("%q: got %q %v, %v", content, got.Text, got.Tokens, err)
		}
	}
}

func TestAllMarksTaken(t *testing.T) {
	p := prompter(t, nil, map[string]fakeTemplate{"default": echo})
	body, _ := json.Marshal(map[string]any{"messages": []any{map[string]string{"role": "user", "content": string(marks)}}})
	if _, err := p.Chat(body, time.Time{}); !errors.Is(err, ErrNoMark) {
		t.Errorf("got %v", err)
	}
}
