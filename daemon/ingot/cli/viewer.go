package cli

import (
	"fmt"
	"strings"

	"ingot/ipc"
	"ingot/runtime/turn"
)

// viewer shows one turn: text on standard output as it comes, progress on
// standard error while nothing else moves, and at the end how fast it went.
type viewer struct {
	a        *app
	model    string
	stats    bool
	progress line
	gathered ipc.Answer
	last     *turn.Event
	open     bool // the terminal's cursor is behind text
	thinking bool
}

func newViewer(a *app, model string, stats bool) *viewer {
	return &viewer{a: a, model: model, stats: (stats || a.ErrTTY) && !a.json, progress: line{w: a.Err, on: a.ErrTTY && !a.json}}
}

func (v *viewer) see(e turn.Event) {
	v.gathered.Add(e)
	switch e.Type {
	case turn.EventQueued:
		if e.Queued.Position > 0 {
			v.progress.set("%s: %d turns ahead", v.model, e.Position)
		}
	case turn.EventLoading:
		v.progress.set("loading %s %s %3.0f%%", v.model, bar(e.Progress, 20), 100*e.Progress)
	case turn.EventPrefill:
		v.progress.set("reading %d of %d tokens %s width %d", e.Prefill.Done, e.Total, bar(float64(e.Prefill.Done)/float64(max(e.Total, 1)), 20), e.Width)
	case turn.EventWaiting:
		if !v.open {
			v.progress.set("%s: waiting (%s)", v.model, e.Phase)
		}
	case turn.EventResumed:
		v.progress.set("%s: its process was restarted; going on", v.model)
	case turn.EventReasoning:
		v.think(e.Delta)
	case turn.EventText:
		v.text(e.Delta)
	case turn.EventDone, turn.EventError:
		v.last = &e
		v.progress.clear()
	}
}

// think shows thinking to a person only.
func (v *viewer) think(s string) {
	if v.a.ErrTTY && !v.a.json {
		v.progress.clear()
		v.thinking = true
		fmt.Fprint(v.a.Err, v.a.paint(dim, s))
	}
}

func (v *viewer) text(s string) {
	if v.a.json || s == "" {
		return
	}
	v.progress.clear()
	if v.thinking {
		v.thinking = false
		fmt.Fprint(v.a.Err, "\n\n")
	}
	fmt.Fprint(v.a.Out, s)
	v.open = !strings.HasSuffix(s, "\n")
}

// newline puts the cursor at the start of a line.
func (v *viewer) newline() {
	v.progress.clear()
	if v.open {
		fmt.Fprintln(v.a.Out)
		v.open = false
	}
}

// fail ends the view of a turn that got no answer.
func (v *viewer) fail(err error) (string, error) {
	v.newline()
	if v.a.json && v.last != nil {
		if err := v.final(); err != nil {
			return "", err
		}
		return "", code(exitFailed)
	}
	return v.gathered.Text(0), err
}

// end closes the view of a turn that was answered.
func (v *viewer) end() (string, error) {
	v.newline()
	text := v.gathered.Text(0)
	if v.last == nil || v.last.Done == nil {
		return text, fmt.Errorf("the turn has no end: %w", v.gathered.Err())
	}
	if v.a.json {
		if err := v.final(); err != nil {
			return text, err
		}
	}
	if v.stats {
		fmt.Fprintln(v.a.Err, v.a.paint(dim, summary(v.last.Done)))
	}
	if v.last.Done.FinishReason == turn.FinishCancelled {
		return text, code(exitInterrupted)
	}
	return text, nil
}

// final prints the final event, with the text beside it.
func (v *viewer) final() error {
	return v.a.print(struct {
		turn.Event
		Answer string `json:"text"`
	}{*v.last, v.gathered.Text(0)})
}

// summary is one line about a finished turn.
func summary(d *turn.Done) string {
	r := &d.Report
	s := fmt.Sprintf("%d tokens, %.1f tok/s", d.Usage.CompletionTokens, r.Decode.TokS)
	s += fmt.Sprintf(" · prompt %d tokens", d.Usage.PromptTokens)
	if r.Prefill.TokS > 0 {
		s += fmt.Sprintf(", %.0f tok/s", r.Prefill.TokS)
	}
	if c := d.Usage.Prompt.CachedTokens; c > 0 {
		s += fmt.Sprintf(", %d cached", c)
	}
	if r.Buffers.Limit > 0 {
		s += fmt.Sprintf(" · buffers %d peak %d of %d", r.Buffers.Live, r.Buffers.Peak, r.Buffers.Limit)
	}
	if d.FinishReason != turn.FinishStop {
		s += " · " + string(d.FinishReason)
	}
	if r.Resumed > 0 {
		s += fmt.Sprintf(" · resumed %d times", r.Resumed)
	}
	return s
}
