package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"ingot/runtime/turn"
)

// Terminal returns the IO of this process.
func Terminal(interrupts <-chan os.Signal) IO {
	tty := func(f *os.File) bool { return isatty.IsTerminal(f.Fd()) }
	return IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTTY: tty(os.Stdin), OutTTY: tty(os.Stdout), ErrTTY: tty(os.Stderr), Interrupts: interrupts}
}

// Colours, for standard error.
const (
	red   = "31"
	dim   = "2"
	green = "32"
)

// paint colours s when a person reads standard error.
func (a *app) paint(colour, s string) string {
	if !a.ErrTTY || os.Getenv("NO_COLOR") != "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

// line is a line on a terminal that is written over: progress.
type line struct {
	w     io.Writer
	on    bool // a person reads it
	shown bool
}

func (l *line) set(format string, args ...any) {
	if !l.on {
		return
	}
	l.shown = true
	fmt.Fprintf(l.w, "\r\x1b[K\x1b[2m%s\x1b[0m", fmt.Sprintf(format, args...))
}

// clear takes the line away.
func (l *line) clear() {
	if l.shown {
		fmt.Fprint(l.w, "\r\x1b[K")
		l.shown = false
	}
}

// bar draws a gauge of n cells.
func bar(part float64, n int) string {
	full := min(max(int(part*float64(n)+0.5), 0), n)
	return strings.Repeat("█", full) + strings.Repeat("░", n-full)
}

// gauge is "live/limit", with a bar where there is a limit.
func gauge[T ~int64](live, limit T, show func(T) string) string {
	if limit <= 0 {
		return show(live)
	}
	return fmt.Sprintf("%s %s/%s", bar(float64(live)/float64(limit), 8), show(live), show(limit))
}

func count(n turn.Buffers) string { return fmt.Sprint(int64(n)) }

// size writes bytes for people, in binary units.
func size(b turn.Bytes) string {
	f, unit := float64(b), "B"
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if f < 1024 {
			break
		}
		f, unit = f/1024, u
	}
	if unit == "B" || f >= 100 {
		return fmt.Sprintf("%.0f %s", f, unit)
	}
	return fmt.Sprintf("%.1f %s", f, unit)
}

// amount writes a count of parameters: 135M, 35.1B.
func amount(n int64) string {
	switch {
	case n <= 0:
		return "-"
	case n >= 1e9:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/1e9), ".0") + "B"
	case n >= 1e6:
		return fmt.Sprintf("%.0fM", float64(n)/1e6)
	}
	return fmt.Sprint(n)
}

// span writes seconds for people: 45s, 3m, 2h10m.
func span(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	}
	return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
}

// or is s, or other when s is empty.
func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
