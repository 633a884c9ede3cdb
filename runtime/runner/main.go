package runner

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/rs/zerolog"

	"ingot/runtime/wire"
)

// usage of the command line; 2 is what flag.ExitOnError uses too.
const exitUsage = 2

// Main is the program, less what needs cgo: it parses the arguments, serves
// or inspects, and returns the exit code. It must be called from main's own
// goroutine.
func Main(args []string, stdout, stderr io.Writer, l Loader, known []string) int {
	fs := flag.NewFlagSet("ingot-runner", flag.ContinueOnError)
	fs.SetOutput(stderr)
	folder := fs.String("inspect", "", "print what the model in `FOLDER` is, as JSON, and exit")
	words := fs.Bool("text", false, "tokenizer and template only, whatever the daemon says")
	if err := fs.Parse(args); err != nil || fs.NArg() > 0 {
		return exitUsage
	}
	if *folder != "" {
		if err := Inspect(stdout, *folder, known); err != nil {
			fmt.Fprintln(stderr, err)
			return wire.ExitLoad
		}
		return wire.ExitOK
	}
	conn := os.NewFile(3, "daemon")
	if st, err := conn.Stat(); err != nil || st.Mode()&os.ModeSocket == 0 {
		fmt.Fprintln(stderr, "ingot-runner is started by ingotd, which speaks to it over file descriptor 3")
		return exitUsage
	}
	runtime.LockOSThread() // what dieWithParent asks for holds as long as the thread
	dieWithParent()
	code := make(chan int, 1)
	go func() { code <- Run(conn, l, Options{Log: logger(stderr), TextOnly: *words}) }() // free to change threads
	return <-code
}

// logger writes lines of JSON, which the daemon passes on to its own log.
func logger(w io.Writer) zerolog.Logger {
	return zerolog.New(w).With().Timestamp().Int("pid", os.Getpid()).Logger()
}
