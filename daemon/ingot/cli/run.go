package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"ingot/ipc"
	"ingot/runtime/turn"
)

// runCmd asks a model one thing, or chats.
type runCmd struct {
	Model  string   `arg:"" help:"Name, alias or folder of a model."`
	Prompt []string `arg:"" optional:"" help:"What to ask; '-' or a pipe: standard input; nothing: chat."`

	System        string   `short:"s" help:"System message."`
	Raw           bool     `help:"Complete the prompt as it is, without the chat template."`
	MaxTokens     *int     `short:"n" help:"Longest answer, in tokens."`
	Temperature   *float64 `short:"t" help:"0 is greedy."`
	TopP          *float64 `help:"Nucleus sampling, above 0 to 1."`
	TopK          *int     `help:"Only the k likeliest tokens."`
	MinP          *float64 `help:"Only tokens this likely, relative to the likeliest."`
	Seed          *uint64  `help:"Seed of the sampling."`
	Stop          []string `help:"Text that ends the answer." sep:"none"`
	Deterministic bool     `help:"The same answer for the same seed, whatever else runs."`
	PrefillStep   *int     `help:"Cap on the width of a prefill step, in tokens."`
	Verbose       bool     `short:"v" help:"Print speed and buffers even when nobody watches."`
}

// Run implements kong's command.
func (r *runCmd) Run(a *app) error {
	r.Model = modelArg(r.Model)
	prompt, err := r.prompt(a)
	if err != nil {
		return err
	}
	if prompt == "" && (!a.InTTY || a.json) {
		return fmt.Errorf("%w: the prompt is empty", errUsage)
	}
	if err := a.need(); err != nil {
		return err
	}
	if prompt == "" {
		return r.chat(a)
	}
	if r.Raw {
		_, err = r.answer(a, func(ctx context.Context) iter.Seq2[turn.Event, error] {
			return a.client.Complete(ctx, &ipc.CompletionRequest{Model: r.Model, Prompt: ipc.Prompt{Text: prompt}, Options: r.options()})
		})
		return err
	}
	_, err = r.ask(a, append(r.opening(), ipc.Message{Role: "user", Content: prompt}))
	return err
}

// prompt is the words of the command line, or standard input where that is
// asked for or is all there is.
func (r *runCmd) prompt(a *app) (string, error) {
	words := strings.Join(r.Prompt, " ")
	if words != "-" && (words != "" || a.InTTY) {
		return words, nil
	}
	all, err := io.ReadAll(io.LimitReader(a.In, ipc.MaxMessage))
	if err != nil {
		return "", fmt.Errorf("read the prompt from standard input: %w", err)
	}
	return strings.TrimRight(string(all), "\r\n"), nil
}

// modelArg makes a folder that is named as one absolute: the daemon has
// another working folder.
func modelArg(s string) string {
	if strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") || s == "." || s == ".." {
		if abs, err := filepath.Abs(s); err == nil {
			return abs
		}
	}
	return s
}

func (r *runCmd) opening() []ipc.Message {
	if r.System == "" {
		return nil
	}
	return []ipc.Message{{Role: "system", Content: r.System}}
}

func (r *runCmd) options() ipc.Options {
	o := ipc.Options{MaxTokens: r.MaxTokens, Temperature: r.Temperature, TopP: r.TopP, TopK: r.TopK, MinP: r.MinP,
		Seed: r.Seed, Stop: r.Stop}
	if r.Deterministic || r.PrefillStep != nil {
		o.Extension = &ipc.Extension{PrefillStep: r.PrefillStep}
		if r.Deterministic {
			o.Extension.Deterministic = &r.Deterministic
		}
	}
	return o
}

// ask runs one chat turn and returns the answer's text.
func (r *runCmd) ask(a *app, messages []ipc.Message) (string, error) {
	return r.answer(a, func(ctx context.Context) iter.Seq2[turn.Event, error] {
		return a.client.Chat(ctx, &ipc.ChatRequest{Model: r.Model, Messages: messages, Options: r.options()})
	})
}

// answer shows the events of one turn as they come. Ctrl-C cancels the turn,
// and only that.
func (r *runCmd) answer(a *app, start func(context.Context) iter.Seq2[turn.Event, error]) (string, error) {
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		select {
		case <-a.Interrupts:
			cancel()
		case <-finished:
			return
		}
		select { // a second Ctrl-C waits for nobody
		case <-a.Interrupts:
			os.Exit(exitInterrupted)
		case <-finished:
		}
	}()
	v := newViewer(a, r.Model, r.Verbose)
	for e, err := range start(ctx) {
		if err != nil {
			return v.fail(err)
		}
		v.see(e)
	}
	return v.end()
}

// chat talks until the person leaves.
func (r *runCmd) chat(a *app) error {
	fmt.Fprintf(a.Err, "%s\n", a.paint(dim, "Chatting with "+r.Model+". /clear forgets, /bye or Ctrl-D leaves, Ctrl-C stops an answer."))
	messages := r.opening()
	left := make(chan struct{})
	defer close(left)
	in := lines(a.In, left)
	for {
		text, err := question(a, in)
		if err != nil || text == "/bye" || text == "/exit" {
			return endOfChat(a, err)
		}
		switch text {
		case "":
			continue
		case "/clear":
			messages = r.opening()
			continue
		case "/help", "/?":
			fmt.Fprintln(a.Err, "/clear   forget the conversation\n/bye     leave\n\\        at the end of a line: go on with the next")
			continue
		}
		answer, err := r.ask(a, append(messages, ipc.Message{Role: "user", Content: text}))
		if errors.Is(err, context.Canceled) {
			continue
		}
		if err != nil && !errors.Is(err, code(exitInterrupted)) {
			a.report(err)
			continue // the question is not part of the conversation
		}
		messages = append(messages, ipc.Message{Role: "user", Content: text}, ipc.Message{Role: "assistant", Content: answer})
	}
}

func endOfChat(a *app, err error) error {
	if errors.Is(err, io.EOF) {
		fmt.Fprintln(a.Err)
		return nil
	}
	return err
}

// lines reads lines beside the terminal's other events, until left is closed.
// A read that waits for a person can't be ended: it ends with the process.
func lines(in io.Reader, left <-chan struct{}) <-chan string {
	c := make(chan string)
	go func() {
		defer close(c)
		s := bufio.NewScanner(in)
		s.Buffer(nil, ipc.MaxMessage)
		for s.Scan() {
			select {
			case c <- s.Text():
			case <-left:
				return
			}
		}
	}()
	return c
}

// question reads what the person says next; a backslash at the end of a line
// goes on. io.EOF: they have left.
func question(a *app, in <-chan string) (string, error) {
	var b strings.Builder
	for sign := ">>> "; ; sign = "... " {
		fmt.Fprint(a.Err, a.paint(green, sign))
		select {
		case l, ok := <-in:
			if !ok {
				return "", io.EOF
			}
			if more, on := strings.CutSuffix(l, `\`); on {
				b.WriteString(more + "\n")
				continue
			}
			b.WriteString(l)
			return strings.TrimSpace(b.String()), nil
		case <-a.Interrupts:
			fmt.Fprintln(a.Err)
			return "", code(exitInterrupted)
		}
	}
}
