package ipc

import (
	"strings"

	"ingot/runtime/turn"
)

// Results of chat.create and completion.create without stream, in OpenAI's
// shape with Ingot's report beside.
type (
	// ChatCompletion answers chat.create.
	ChatCompletion struct {
		ID      string       `json:"id"`
		Object  string       `json:"object"`  // chat.completion
		Created int64        `json:"created"` // Unix seconds
		Model   string       `json:"model"`
		Choices []ChatChoice `json:"choices"`
		Usage   turn.Usage   `json:"usage"`
		Report  turn.Report  `json:"ingot"`
	}

	// ChatChoice is one answer of a chat.
	ChatChoice struct {
		Index        int            `json:"index"`
		Message      AnswerMessage  `json:"message"`
		FinishReason turn.Finish    `json:"finish_reason"`
		Logprobs     *ChatLogprobs  `json:"logprobs"`
		TokenIDs     []turn.TokenID `json:"token_ids,omitempty"`
	}

	// AnswerMessage is the message of a ChatChoice.
	AnswerMessage struct {
		Role             string `json:"role"`
		Content          string `json:"content"`
		ReasoningContent string `json:"reasoning_content,omitempty"`
	}

	// ChatLogprobs is one record for each token.
	ChatLogprobs struct {
		Content []turn.Logprob `json:"content"`
	}

	// Completion answers completion.create.
	Completion struct {
		ID      string       `json:"id"`
		Object  string       `json:"object"`  // text_completion
		Created int64        `json:"created"` // Unix seconds
		Model   string       `json:"model"`
		Choices []TextChoice `json:"choices"`
		Usage   turn.Usage   `json:"usage"`
		Report  turn.Report  `json:"ingot"`
	}

	// TextChoice is one answer of a completion.
	TextChoice struct {
		Index        int            `json:"index"`
		Text         string         `json:"text"`
		FinishReason turn.Finish    `json:"finish_reason"`
		Logprobs     *TextLogprobs  `json:"logprobs"`
		TokenIDs     []turn.TokenID `json:"token_ids,omitempty"`
	}

	// TextLogprobs is OpenAI's older form: parallel arrays, an element a
	// token.
	TextLogprobs struct {
		Tokens        []string             `json:"tokens"`
		TokenLogprobs []float64            `json:"token_logprobs"`
		TopLogprobs   []map[string]float64 `json:"top_logprobs"`
	}
)

// Answer gathers the events of one turn into a whole. Add every event in
// order; once one was final, Err says whether it failed, and Chat and
// Completion return the result. The zero Answer is ready for use.
type Answer struct {
	choices []gathered
	done    *turn.Done
	failure *turn.Failure
	turn    turn.ID
}

type gathered struct {
	text, reasoning strings.Builder
	tokens          []turn.TokenID
	logprobs        []turn.Logprob
}

// Add takes the next event.
func (a *Answer) Add(e turn.Event) {
	a.turn = e.Turn
	switch e.Type {
	case turn.EventText, turn.EventReasoning:
		if e.Text != nil {
			a.add(e)
		}
	case turn.EventDone:
		a.done = e.Done
	case turn.EventError:
		a.failure = e.Failure
	}
}

func (a *Answer) add(e turn.Event) {
	n := 0
	if e.Choice != nil && *e.Choice > 0 && *e.Choice < turn.MaxChoices {
		n = *e.Choice
	}
	for len(a.choices) <= n {
		a.choices = append(a.choices, gathered{})
	}
	c := &a.choices[n]
	if e.Type == turn.EventText {
		c.text.WriteString(e.Delta)
	} else {
		c.reasoning.WriteString(e.Delta)
	}
	c.tokens = append(c.tokens, e.TokenIDs...)
	c.logprobs = append(c.logprobs, e.Logprobs...)
}

// Err returns the error the turn ended with, or nil.
func (a *Answer) Err() error {
	if f := a.failure; f != nil {
		return FromWire(f.Code, f.Message, f.Data)
	}
	if a.done == nil {
		return Errorf(EngineFailed, "turn %s has no end", a.turn)
	}
	return nil
}

// Text returns the text of one choice.
func (a *Answer) Text(choice int) string {
	if choice >= len(a.choices) {
		return ""
	}
	return a.choices[choice].text.String()
}

// finish returns the choices padded to what Done reports, with their ends.
func (a *Answer) finish(i int) turn.Finish {
	if i < len(a.done.FinishReasons) {
		return a.done.FinishReasons[i]
	}
	return a.done.FinishReason
}

func (a *Answer) padded() []gathered {
	for len(a.choices) < max(1, len(a.done.FinishReasons)) {
		a.choices = append(a.choices, gathered{})
	}
	return a.choices
}

// Chat returns the whole as a chat completion. Err must be nil.
func (a *Answer) Chat(model string, created int64) *ChatCompletion {
	r := &ChatCompletion{ID: "chatcmpl-" + string(a.turn), Object: "chat.completion", Created: created,
		Model: model, Usage: a.done.Usage, Report: a.done.Report}
	for i := range a.padded() {
		c := &a.choices[i]
		choice := ChatChoice{Index: i, FinishReason: a.finish(i), TokenIDs: c.tokens,
			Message: AnswerMessage{Role: "assistant", Content: c.text.String(), ReasoningContent: c.reasoning.String()}}
		if c.logprobs != nil {
			choice.Logprobs = &ChatLogprobs{Content: c.logprobs}
		}
		r.Choices = append(r.Choices, choice)
	}
	return r
}

// Completion returns the whole as a completion. Err must be nil.
func (a *Answer) Completion(model string, created int64) *Completion {
	r := &Completion{ID: "cmpl-" + string(a.turn), Object: "text_completion", Created: created,
		Model: model, Usage: a.done.Usage, Report: a.done.Report}
	for i := range a.padded() {
		c := &a.choices[i]
		r.Choices = append(r.Choices, TextChoice{Index: i, Text: c.text.String(), FinishReason: a.finish(i),
			TokenIDs: c.tokens, Logprobs: older(c.logprobs)})
	}
	return r
}

func older(ls []turn.Logprob) *TextLogprobs {
	if ls == nil {
		return nil
	}
	t := &TextLogprobs{}
	for _, l := range ls {
		top := make(map[string]float64, len(l.Top))
		for _, alt := range l.Top {
			top[alt.Token] = alt.Logprob
		}
		t.Tokens = append(t.Tokens, l.Token)
		t.TokenLogprobs = append(t.TokenLogprobs, l.Logprob)
		t.TopLogprobs = append(t.TopLogprobs, top)
	}
	return t
}
