package text

import (
	"unicode/utf8"

	"ingot/runtime/turn"
)

// Stream decodes the ids of one choice: textkit.Stream. Step and Flush return whole
// characters only, and Flush leaves out a character that the ids only begin.
type Stream interface {
	Step(turn.TokenID) (string, error)
	Flush() (string, error)
	Close()
}

// Options of one choice.
type Options struct {
	Choice   int
	Stop     []string // strings that end the choice; neither they nor what follows is given out
	IDs      bool     // events carry token ids
	Logprobs bool     // events carry logprobs
	Stages   []Stage  // what the answer passes through on its way to events
}

// Sampled is a token as it was drawn.
type Sampled struct {
	ID      turn.TokenID
	Logprob float64
	Top     []Alternative // the likeliest, most likely first
}

// Alternative is a token that might have been drawn.
type Alternative struct {
	ID      turn.TokenID
	Logprob float64
}

// Output is what a token brought.
type Output struct {
	// Events are the pieces of the answer that became certain, with their choice
	// and without turn and seq.
	Events []turn.Event
	// Offset is where the token's text begins in the answer, in characters, stop
	// strings and held-back text included.
	Offset int
	// Stopped reports that a stop string was met: the choice is over.
	Stopped bool
}

// Assembler turns the tokens of one choice into events.
type Assembler struct {
	stream Stream
	vocab  Vocabulary
	opt    Options
	match  *Matcher

	sampled int // tokens, the one that ended the choice included
	chars   int // characters decoded
	over    bool
	out     []turn.Event // being made
	news    turn.Text    // ids and logprobs that no event has carried yet
}

// NewAssembler returns the assembler of one choice. It owns the stream and closes it.
func NewAssembler(s Stream, v Vocabulary, o Options) *Assembler {
	return &Assembler{stream: s, vocab: v, opt: o, match: NewMatcher(o.Stop)}
}

// Close frees the stream.
func (a *Assembler) Close() { a.stream.Close() }

// Tokens counts the tokens of the choice, those of a stop string and the one that
// ended it included.
func (a *Assembler) Tokens() int { return a.sampled }

// Over reports that the choice has ended; later tokens are ignored.
func (a *Assembler) Over() bool { return a.over }

// Step takes a sampled token. finish is why the choice ended with it, or "" if it
// goes on; a token that ended it with turn.FinishStop is a control token and has no
// text.
func (a *Assembler) Step(t Sampled, finish turn.Finish) (Output, error) {
	if a.over {
		return Output{Stopped: a.match.Found() >= 0}, nil
	}
	at := a.chars
	a.sampled++
	a.record(t)
	if finish != turn.FinishStop {
		piece, err := a.stream.Step(t.ID)
		if err != nil {
			return Output{}, err
		}
		a.push(piece)
	}
	if finish != "" && !a.over {
		if err := a.end(); err != nil {
			return Output{}, err
		}
	}
	return a.output(at), nil
}

// Finish ends the choice without a token: a cancel, or a limit found late.
func (a *Assembler) Finish() (Output, error) {
	at := a.chars
	if !a.over {
		if err := a.end(); err != nil {
			return Output{}, err
		}
	}
	return a.output(at), nil
}

// Replay takes tokens whose events were delivered before.
func (a *Assembler) Replay(ids []turn.TokenID) error {
	for _, id := range ids {
		if _, err := a.Step(Sampled{ID: id}, ""); err != nil {
			return err
		}
	}
	return nil
}

// push sends decoded text through the matcher and the stages.
func (a *Assembler) push(piece string) {
	a.chars += utf8.RuneCountInString(piece)
	if sure := a.match.Push(piece); sure != "" {
		a.pass(0, Piece{Type: turn.EventText, Text: sure})
	}
	if a.match.Found() >= 0 {
		a.close()
	}
}

// end gives out what is held back: no stop string will come of it.
func (a *Assembler) end() error {
	rest, err := a.stream.Flush()
	if err != nil {
		return err
	}
	a.push(rest)
	if a.over {
		return nil
	}
	if tail := a.match.Flush(); tail != "" {
		a.pass(0, Piece{Type: turn.EventText, Text: tail})
	}
	a.close()
	return nil
}

// close ends the stages in order, each after what the one before it held back.
func (a *Assembler) close() {
	a.over = true
	for i, s := range a.opt.Stages {
		s.End(func(p Piece) { a.pass(i+1, p) })
	}
}

// pass hands a piece to stage i, or to the events behind the last.
func (a *Assembler) pass(i int, p Piece) {
	if i < len(a.opt.Stages) {
		a.opt.Stages[i].Push(p, func(p Piece) { a.pass(i+1, p) })
		return
	}
	a.out = append(a.out, p.event(a.opt.Choice))
}

// record notes what the next event has to carry.
func (a *Assembler) record(t Sampled) {
	if a.opt.IDs {
		a.news.TokenIDs = append(a.news.TokenIDs, t.ID)
	}
	if a.opt.Logprobs {
		a.news.Logprobs = append(a.news.Logprobs, logprob(a.vocab, t))
	}
}

// output takes the events made so far. Ids and logprobs ride on the first that can
// carry them, or on an empty one.
func (a *Assembler) output(at int) Output {
	events := a.out
	a.out = nil
	if a.news.TokenIDs != nil || a.news.Logprobs != nil {
		events = a.attach(events)
	}
	return Output{Events: events, Offset: at, Stopped: a.match.Found() >= 0}
}

func (a *Assembler) attach(events []turn.Event) []turn.Event {
	news := a.news
	a.news = turn.Text{}
	for i := range events {
		if t := events[i].Text; t != nil {
			t.TokenIDs, t.Logprobs = news.TokenIDs, news.Logprobs
			return events
		}
	}
	empty := Piece{Type: turn.EventText}.event(a.opt.Choice)
	empty.Text.TokenIDs, empty.Text.Logprobs = news.TokenIDs, news.Logprobs
	return append(events, empty)
}
