package text

import (
	"encoding/json"
	"fmt"
	"slices"

	"ingot/runtime/turn"
)

// chat is a conversation as a template wants it.
type chat struct {
	messages  []value
	tools     value // an array, or null
	documents value // an array, or null
	kwargs    []field
}

// reserved are variables of the template that a request can't set, beside the
// special tokens.
var reserved = []string{"messages", "tools", "documents", "continue_final_message"}

// parseChat reads {"messages", "tools"?, "documents"?, "template_kwargs"?} and prepares it
// as transformers 5 does: keys of a message whose value is null are dropped, and
// reasoning is given under each of the names that templates read.
func parseChat(body json.RawMessage) (*chat, error) {
	v, err := parse(body)
	if err != nil {
		return nil, &turn.FieldError{Field: "messages", Why: "not JSON: " + err.Error()}
	}
	c := &chat{tools: null, documents: null}
	for _, f := range v.fields {
		switch f.key {
		case "messages":
			err = c.setMessages(f.value)
		case "tools":
			c.tools, err = listOrNull(f)
		case "documents":
			c.documents, err = listOrNull(f)
		case "template_kwargs":
			err = c.setKwargs(f.value)
		default:
			err = &turn.FieldError{Field: f.key, Why: "is not a part of a chat"}
		}
		if err != nil {
			return nil, err
		}
	}
	if len(c.messages) == 0 {
		return nil, &turn.FieldError{Field: "messages", Why: "is empty"}
	}
	return c, nil
}

// listOrNull takes an array; an empty one is null, as transformers' callers give it.
func listOrNull(f field) (value, error) {
	if f.value.isNull() || f.value.kind == '[' && len(f.value.items) == 0 {
		return null, nil
	}
	if f.value.kind != '[' {
		return null, &turn.FieldError{Field: f.key, Why: "is not an array"}
	}
	return f.value, nil
}

func (c *chat) setKwargs(v value) error {
	if v.kind != '{' && !v.isNull() {
		return &turn.FieldError{Field: "template_kwargs", Why: "is not an object"}
	}
	for _, f := range v.fields {
		if slices.Contains(reserved, f.key) || slices.Contains(specialNames, f.key) {
			return &turn.FieldError{Field: "template_kwargs." + f.key, Why: "can't be set"}
		}
		c.kwargs = append(c.kwargs, f)
	}
	return nil
}

func (c *chat) setMessages(v value) error {
	if v.kind != '[' {
		return &turn.FieldError{Field: "messages", Why: "is not an array"}
	}
	for i, m := range v.items {
		name := fmt.Sprintf("messages[%d]", i)
		if m.kind != '{' {
			return &turn.FieldError{Field: name, Why: "is not an object"}
		}
		if role, ok := m.get("role"); !ok || role.kind != '"' || !plainRole(role.text) {
			return &turn.FieldError{Field: name + ".role", Why: "is not a role"}
		}
		c.messages = append(c.messages, prepared(m))
	}
	return nil
}

// plainRole admits names only: templates build control tokens from the role.
func plainRole(role string) bool {
	for _, r := range role {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return false
		}
	}
	return role != "" && len(role) <= 64
}

// prepared is a message without nulls and with its reasoning under every name.
func prepared(m value) value {
	out := value{kind: '{'}
	for _, f := range m.fields {
		if !f.value.isNull() {
			out.fields = append(out.fields, f)
		}
	}
	for _, name := range []string{"reasoning_content", "thinking", "reasoning"} {
		if r, ok := out.get(name); ok {
			if _, ok := out.get("thinking"); !ok {
				out.set("thinking", r)
			}
			out.set("reasoning_content", r)
			break
		}
	}
	return out
}

// variables are what the template is rendered with. mark is applied to every string
// that people gave, with whether the assistant is said to have written it.
func (c *chat) variables(special []field, mark func(s string, assistant bool) string) value {
	words := func(s string) string { return mark(s, false) }
	v := value{kind: '{', fields: slices.Clone(special)}
	v.set("add_generation_prompt", value{raw: "true"})
	v.set("documents", c.documents.strings(words))
	for _, f := range c.kwargs {
		v.set(f.key, f.value.strings(words))
	}
	v.set("tools", c.tools.strings(words))
	messages := value{kind: '['}
	for _, m := range c.messages {
		messages.items = append(messages.items, marked(m, mark))
	}
	v.set("messages", messages)
	return v
}

// marked marks a message's strings, all but its role.
func marked(m value, mark func(string, bool) string) value {
	role, _ := m.get("role")
	assistant := role.text == "assistant"
	out := m.strings(func(s string) string { return mark(s, assistant) })
	out.set("role", role)
	return out
}
