// Package text is both ways between people's words and a model's tokens: chats and
// prompts to ids ([Prompter]), sampled ids to text events ([Assembler]).
//
// It owns the rules: what a model's folder says about templates and special tokens
// ([ReadConfig]), how a chat is put to its template, that nobody's words become a
// control token ([Guard]), stop strings ([Matcher]), whole characters. It has no
// vocabulary and no Jinja: it asks package textkit, through the small interfaces
// declared here. A Prompter serves any number of goroutines at once; an Assembler
// is one choice's and belongs to one goroutine. It never touches a device, a socket
// or a clock.
//
//	cfg, err := text.ReadConfig(os.DirFS(folder))
//	tok, err := textkit.OpenTokenizer(cfg.TokenizerJSON)
//	p := text.NewPrompter(tok, cfg, func(src string) (text.Template, error) { return textkit.CompileTemplate(src) })
//	defer p.Close()
//	ids, err := p.Chat(json.RawMessage(`{"messages":[{"role":"user","content":"Hi"}]}`), time.Now())
//
//	a := text.NewAssembler(tok.NewStream(true), tok, text.Options{Stop: params.Stop})
//	defer a.Close()
//	for each sampled token {
//		out, err := a.Step(text.Sampled{ID: id}, finish) // finish is "" until the choice ends
//		send(out.Events)
//		if out.Stopped { // a stop string: the choice is over with turn.FinishStop
//			break
//		}
//	}
//
// After a runner's death [Assembler.Replay] takes the tokens that were delivered
// before; it gives no events and leaves the assembler as it was.
//
// Thinking and tool calls are split from the answer by [Stage] values in
// Options.Stages, a chain between the stop matcher and the events.
package text
