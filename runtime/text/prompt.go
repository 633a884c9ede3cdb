package text

import (
	"bytes"
	"encoding/json"
	"errors"
	"sort"
	"time"

	"ingot/runtime/turn"
)

// Encoder is a tokenizer for prompts: textkit.Tokenizer.
type Encoder interface {
	// EncodeMarked encodes a rendered chat. Spellings of control tokens are those
	// tokens, but for any with a mark (an ascending byte offset) inside.
	EncodeMarked(text string, marks []int) ([]turn.TokenID, error)
	// ControlTokens spells the special tokens, AddedWords the other added tokens.
	ControlTokens() []string
	AddedWords() []string
}

// Template is a compiled chat template: textkit.Template.
type Template interface {
	// Render takes a JSON object of variables and the time that the template tells.
	Render(variables []byte, now time.Time) (string, error)
	Close()
}

// ErrNoTemplate is returned for a chat with a model that has no chat template.
var ErrNoTemplate = errors.New("model has no chat template")

// ErrNoMark is returned for a chat that holds every private mark there is.
var ErrNoMark = errors.New("chat holds all private marks U+10FFF6 to U+10FFFD")

// TemplateError is a chat that its template refused or choked on. The request is
// at fault as far as anyone can tell.
type TemplateError struct{ Err error }

func (e *TemplateError) Error() string { return "chat template: " + e.Err.Error() }
func (e *TemplateError) Unwrap() error { return e.Err }

// Prompt is a prompt in both forms.
type Prompt struct {
	Text   string
	Tokens []turn.TokenID
}

// Prompter turns chats into prompts. Any goroutine may use it.
type Prompter struct {
	enc       Encoder
	special   []field
	templates map[string]dressed
}

// dressed is a template with the guard of the model under it, or why it does not
// compile.
type dressed struct {
	Template
	err    error
	source string
	guard  *Guard
}

// NewPrompter compiles the templates of a model; one that does not compile is an
// error of the chats that need it. The caller closes the Prompter.
func NewPrompter(enc Encoder, cfg *Config, compile func(source string) (Template, error)) *Prompter {
	p := &Prompter{enc: enc, templates: map[string]dressed{}}
	for name, text := range cfg.Special {
		p.special = append(p.special, field{name, str(text)})
	}
	sort.Slice(p.special, func(i, j int) bool { return p.special[i].key < p.special[j].key })
	for name, source := range cfg.Templates {
		t, err := compile(source)
		p.templates[name] = dressed{t, err, source, NewGuard(enc.ControlTokens(), enc.AddedWords(), source)}
	}
	return p
}

// Close frees the templates.
func (p *Prompter) Close() {
	for _, t := range p.templates {
		if t.err == nil {
			t.Close()
		}
	}
}

// Chat renders and encodes {"messages", "tools"?, "documents"?, "template_kwargs"?}, ready for
// the assistant's answer. No special token is added: the template writes them all.
// Control tokens in people's words are encoded as plain text. Errors: *turn.FieldError for
// a malformed chat, *TemplateError for one that the template refuses, ErrNoTemplate.
func (p *Prompter) Chat(body json.RawMessage, now time.Time) (Prompt, error) {
	c, err := parseChat(body)
	if err != nil {
		return Prompt{}, err
	}
	t, ok := p.template(!c.tools.isNull())
	if !ok {
		return Prompt{}, ErrNoTemplate
	}
	if t.err != nil {
		return Prompt{}, &TemplateError{t.err}
	}
	text, marks, err := p.render(t, c, now)
	if err != nil {
		return Prompt{}, err
	}
	ids, err := p.enc.EncodeMarked(text, marks)
	return Prompt{text, ids}, err
}

// template picks as transformers does: one named tool_use if there are tools.
func (p *Prompter) template(tools bool) (dressed, bool) {
	if t, ok := p.templates["tool_use"]; ok && tools {
		return t, true
	}
	t, ok := p.templates["default"]
	return t, ok
}

// render returns the text without marks and where they stood.
func (p *Prompter) render(t dressed, c *chat, now time.Time) (string, []int, error) {
	plain := encode(c.variables(p.special, func(s string, _ bool) string { return s }))
	mark, err := unusedMark(string(plain), t.source)
	if err != nil {
		return "", nil, err
	}
	touched := false
	variables := c.variables(p.special, func(s string, assistant bool) string {
		m := t.guard.Mark(s, assistant, mark)
		touched = touched || len(m) != len(s)
		return m
	})
	if touched {
		plain = encode(variables)
	}
	text, err := t.Render(plain, now)
	if err != nil {
		return "", nil, &TemplateError{err}
	}
	if !touched {
		return text, nil, nil
	}
	text, marks := Strip(text, mark)
	return text, marks, nil
}

func encode(v value) []byte {
	var b bytes.Buffer
	v.write(&b)
	return b.Bytes()
}
