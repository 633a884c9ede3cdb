// Package cli is the command line of Ingot: arguments in, calls of the
// daemon's socket, words for people (or JSON for scripts) out.
//
// It owns the terminal: what goes to standard output is the answer, what goes
// to standard error is about it. Main may be called once at a time. It never
// touches a model itself: everything is asked of the daemon, which it starts
// when a command needs one and none runs.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"

	"ingot/ipc"
	"ingot/ipc/client"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNoDaemon    = 3   // the command does not start one, and none runs
	exitInterrupted = 130 // Ctrl-C ended the turn
)

// IO is where a command reads and writes.
type IO struct {
	In         io.Reader
	Out, Err   io.Writer
	InTTY      bool             // a person types
	OutTTY     bool             // a person reads the answer
	ErrTTY     bool             // a person reads progress
	Interrupts <-chan os.Signal // Ctrl-C
}

// grammar is the command line as kong reads it.
type grammar struct {
	JSON   bool   `help:"Print JSON, for scripts."`
	Socket string `help:"Path of the daemon's socket." placeholder:"PATH" env:"INGOT_SOCKET"`

	Run     runCmd     `cmd:"" help:"Chat with a model, or ask it one thing."`
	Serve   serveCmd   `cmd:"" help:"Run the daemon in the foreground."`
	Status  statusCmd  `cmd:"" help:"Show what the daemon is doing."`
	Ls      lsCmd      `cmd:"" aliases:"list" help:"List the models that are here."`
	Show    showCmd    `cmd:"" help:"Describe one model."`
	Ps      psCmd      `cmd:"" help:"List the loaded models."`
	Load    loadCmd    `cmd:"" help:"Load a model and wait until it is ready."`
	Unload  unloadCmd  `cmd:"" help:"Unload a model."`
	Pin     pinCmd     `cmd:"" help:"Keep a model loaded, or no longer (--off)."`
	Alias   aliasCmd   `cmd:"" help:"Give a model another name; without a model, take it away."`
	Pull    pullCmd    `cmd:"" help:"Fetch a model, or import a GGUF file."`
	Rm      rmCmd      `cmd:"" help:"Delete a model from disk."`
	Logs    logsCmd    `cmd:"" help:"Show the end of the daemon's log."`
	Stop    stopCmd    `cmd:"" help:"Stop the daemon."`
	Version versionCmd `cmd:"" help:"Print the versions of client and daemon."`
}

// app is what every command is given.
type app struct {
	IO
	json   bool
	socket string
	client *client.Client
	ctx    context.Context
}

// Main runs one command and returns its exit code.
func Main(args []string, std IO) int {
	var g grammar
	left := -1 // the code kong left with: help, say
	parser, err := kong.New(&g,
		kong.Name("ingot"),
		kong.Description("Large language models on this machine, without the resource limit's death."),
		kong.Writers(std.Out, std.Err),
		kong.Exit(func(code int) { left = code }),
		kong.WithHyphenPrefixedParameters(true), // --keep-alive -1
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil { // the grammar above is wrong: a test parses every command
		fmt.Fprintln(std.Err, "ingot:", err)
		return exitFailed
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if left >= 0 {
		return left
	}
	if err != nil {
		fmt.Fprintf(std.Err, "ingot: %s\nTry: ingot --help\n", err)
		return exitUsage
	}
	a := &app{IO: std, json: g.JSON, socket: g.Socket, ctx: context.Background()}
	a.client = &client.Client{Socket: a.socket}
	return a.finish(parsed.Run(a))
}

// code is an exit code that needs no words.
type code int

func (c code) Error() string { return fmt.Sprintf("exit %d", int(c)) }

// finish says what went wrong, and returns the exit code.
func (a *app) finish(err error) int {
	if err == nil {
		return exitOK
	}
	var c code
	if errors.As(err, &c) {
		return int(c)
	}
	if errors.Is(err, context.Canceled) { // by Ctrl-C, before there was a turn to cancel
		return exitInterrupted
	}
	a.report(err)
	switch {
	case errors.Is(err, errNoDaemon):
		return exitNoDaemon
	case errors.Is(err, ipc.InvalidParams), errors.Is(err, ipc.Unsupported), errors.Is(err, errUsage):
		return exitUsage
	}
	return exitFailed
}

// report writes an error: as one JSON object on standard output for scripts,
// else as a sentence and advice on standard error.
func (a *app) report(err error) {
	if a.json {
		e := ipc.AsError(err)
		_ = a.print(map[string]any{"error": map[string]any{"message": e.Message, "data": e.RawData(), "code": e.Code()}})
		return
	}
	fmt.Fprintln(a.Err, a.paint(red, "ingot:"), err)
	if h := hint(err); h != "" {
		fmt.Fprintln(a.Err, h)
	}
}

// print writes v as JSON, one line.
func (a *app) print(v any) error {
	enc := json.NewEncoder(a.Out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// show writes v as JSON for scripts, or lets words write it for people.
func (a *app) show(v any, words func()) error {
	if a.json {
		return a.print(v)
	}
	words()
	return nil
}

// say writes a line for people; scripts get v.
func (a *app) say(v any, format string, args ...any) error {
	return a.show(v, func() { fmt.Fprintf(a.Out, format+"\n", args...) })
}
