package ipc

import (
	"encoding/json"
	"strings"
)

// Message is one message of a conversation, as templates see it.
type Message struct {
	Role    string `json:"role"` // system, developer, user, assistant
	Content string `json:"content"`
	Name    string `json:"name,omitempty"`

	// ReasoningContent is the thinking of an earlier answer, for templates
	// that render it.
	ReasoningContent string `json:"reasoning_content,omitempty"`
}

// ChatRequest is the params of chat.create: an OpenAI chat completion
// request. A client fills it in; the server decodes it with Decode.
type ChatRequest struct {
	Model          string          `json:"model,omitempty"`
	Messages       []Message       `json:"messages"`
	TemplateKwargs json.RawMessage `json:"chat_template_kwargs,omitempty"` // object given to the template
	Options

	raw json.RawMessage // normalized messages
}

func (r *ChatRequest) rules() []rule {
	return append(r.Options.rules(),
		text("model", &r.Model),
		need(conversation("messages", &r.raw)),
		anyObject("chat_template_kwargs", &r.TemplateKwargs),
		boolOptions(&r.Options),
		integerOrNil("max_completion_tokens", &r.maxCompletion, 1, 1<<30),
		accept("modalities", `["text"]`),
		accept("response_format", `{"type":"text"}`),
		accept("tools", "[]"), accept("tool_choice", `"none"`), accept("parallel_tool_calls"),
		accept("functions"), accept("function_call"),
		accept("reasoning_effort"), accept("verbosity"), accept("audio"),
		accept("prediction"), accept("web_search_options"),
	)
}

func (r *ChatRequest) check() *Error { return r.Options.check() }

// Turn returns the request in the backend's words.
func (r *ChatRequest) Turn() (*TurnRequest, error) {
	t := &TurnRequest{Model: r.Model, Chat: chatBody(r.raw, r.TemplateKwargs)}
	if err := r.fill(t); err != nil {
		return nil, err
	}
	return t, nil
}

// boolOptions is the chat's own form of logprobs.
func boolOptions(o *Options) rule { return booleanOrNil("logprobs", &o.Logprobs) }

func chatBody(messages, kwargs json.RawMessage) json.RawMessage {
	body, _ := json.Marshal(struct { // raw messages that were valid JSON before
		Messages json.RawMessage `json:"messages"`
		Kwargs   json.RawMessage `json:"template_kwargs,omitempty"`
	}{messages, kwargs})
	return body
}

// maxMessages bounds a conversation.
const maxMessages = 100_000

// conversation checks a list of messages and stores them normalized: content
// is one string, absent fields are left out.
func conversation(name string, to *json.RawMessage) rule {
	s := schema{"type": "array", "minItems": 1, "items": messageSchema}
	return rule{name: name, schema: s, set: func(path string, raw json.RawMessage) *Error {
		var ms []Message
		err := list(path, raw, maxMessages, func(path string, raw json.RawMessage) *Error {
			var m Message
			ms = append(ms, m)
			return message(path, raw, &ms[len(ms)-1])
		})
		if err != nil {
			return err
		}
		if len(ms) == 0 {
			return Invalid(path, "is empty; a conversation needs at least one message")
		}
		*to, _ = json.Marshal(ms) // strings only
		return nil
	}}
}

var messageSchema = schema{"type": "object", "required": []string{"role", "content"}, "properties": schema{
	"role":              schema{"enum": []string{"system", "developer", "user", "assistant"}},
	"content":           schema{"type": []string{"string", "array"}},
	"name":              schema{"type": "string"},
	"reasoning_content": schema{"type": "string"},
}}

func message(path string, raw json.RawMessage, m *Message) *Error {
	err := object(path, raw, []rule{
		need(role(&m.Role)),
		need(content(&m.Content)),
		text("name", &m.Name),
		text("reasoning_content", &m.ReasoningContent),
		accept("tool_calls", "[]"), accept("tool_call_id"), accept("function_call"),
		accept("refusal"), accept("audio"), accept("annotations", "[]"),
	})
	return err
}

func role(to *string) rule {
	r := text("role", to)
	set := r.set
	r.set = func(path string, raw json.RawMessage) *Error {
		if err := set(path, raw); err != nil {
			return err
		}
		switch *to {
		case "system", "developer", "user", "assistant":
			return nil
		case "tool", "function":
			return NotSupported(path, "%q is not supported", *to)
		}
		return Invalid(path, "%q is not one of system, developer, user, assistant", clip(json.RawMessage(*to)))
	}
	return r
}

// content is a string or an array of text parts, which are joined.
func content(to *string) rule {
	return rule{name: "content", set: func(path string, raw json.RawMessage) *Error {
		switch kindOf(raw) {
		case "a string":
			return text("", to).set(path, raw)
		case "an array":
			var b strings.Builder
			err := list(path, raw, maxMessages, func(path string, raw json.RawMessage) *Error {
				return part(path, raw, &b)
			})
			*to = b.String()
			return err
		}
		return mismatch(path, "a string or an array of text parts", raw)
	}}
}

func part(path string, raw json.RawMessage, b *strings.Builder) *Error {
	var kind struct{ Type json.RawMessage }
	if json.Unmarshal(raw, &kind) == nil && kindOf(kind.Type) == "a string" && string(kind.Type) != `"text"` {
		return NotSupported(at(path, "type"), "%s is not supported; only text is", clip(kind.Type))
	}
	var typ, s string
	err := object(path, raw, []rule{need(text("type", &typ)), need(text("text", &s)), neutral("cache_control")})
	b.WriteString(s)
	return err
}

func anyObject(name string, to *json.RawMessage) rule {
	return rule{name: name, schema: schema{"type": "object"}, set: func(path string, raw json.RawMessage) *Error {
		if kindOf(raw) != "an object" {
			return mismatch(path, "an object", raw)
		}
		*to = raw
		return nil
	}}
}
