package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ingot/ipc"
	"ingot/runtime/turn"
)

func contextWith(a *app) (context.Context, context.CancelFunc) { return context.WithCancel(a.ctx) }

type serveCmd struct {
	Verbose bool `short:"v" help:"Log to standard error too."`
}

// Run implements kong's command: this process becomes the daemon.
func (c *serveCmd) Run(a *app) error {
	program, err := daemonProgram()
	if err != nil {
		return err
	}
	args, env := []string{program}, os.Environ()
	if c.Verbose {
		args = append(args, "-v")
	}
	if a.socket != "" {
		path, err := a.path()
		if err != nil {
			return err
		}
		env = append(env, "INGOT_SOCKET="+path)
	}
	return fmt.Errorf("run %s: %w", program, syscall.Exec(program, args, env))
}

type statusCmd struct{}

// Run implements kong's command.
func (*statusCmd) Run(a *app) error {
	if err := a.running(); err != nil {
		return err
	}
	st, err := a.client.Status(a.ctx)
	if err != nil {
		return err
	}
	return a.show(st, func() {
		fmt.Fprintf(a.Out, "ingotd %s   pid %d   up %s   %s\n", st.Version, st.PID, span(st.UptimeS), st.Socket)
		fmt.Fprintf(a.Out, "memory  %s   peak %s\n", gauge(st.Memory.Active, st.Memory.Limit, size), size(st.Memory.Peak))
		if e := st.LastError; e != nil {
			fmt.Fprintf(a.Out, "last error  %s %s: %s\n", time.Unix(e.At, 0).Format(time.DateTime), e.Name, e.Message)
		}
		if len(st.Models) > 0 {
			fmt.Fprintln(a.Out)
			a.modelTable(st.Models)
		}
		if len(st.Recent) > 0 {
			fmt.Fprintln(a.Out)
			a.turnTable(st.Recent)
		}
	})
}

type psCmd struct{}

// Run implements kong's command.
func (*psCmd) Run(a *app) error {
	if err := a.running(); err != nil {
		return err
	}
	st, err := a.client.Status(a.ctx)
	if err != nil {
		return err
	}
	loaded := []ipc.ModelStatus{}
	for _, m := range st.Models {
		if m.State != ipc.StateCold {
			loaded = append(loaded, m)
		}
	}
	return a.show(map[string]any{"models": loaded}, func() {
		if len(loaded) == 0 {
			fmt.Fprintln(a.Out, "No model is loaded.")
			return
		}
		a.modelTable(loaded)
	})
}

func (a *app) modelTable(models []ipc.ModelStatus) {
	var rows [][]string
	for _, m := range models {
		rows = append(rows, []string{m.Name, stateOf(m), fmt.Sprintf("%d+%d", m.Turns, m.Queued), width(m),
			fmt.Sprintf("%.1f", m.TokS), gauge(m.Buffers.Live, m.Buffers.Limit, count),
			gauge(m.Memory.Active, m.Memory.Limit, size), fmt.Sprint(m.Restarts), expires(m)})
	}
	a.table("NAME\tSTATE\tRUN+WAIT\tWIDTH\tTOK/S\tBUFFERS\tMEMORY\tRESTARTS\tUNLOADS", rows)
	for _, m := range models { // too long for a column
		if m.Error != "" {
			fmt.Fprintf(a.Out, "%s: %s\n", m.Name, m.Error)
		}
	}
}

func stateOf(m ipc.ModelStatus) string {
	s := string(m.State)
	if m.State == ipc.StateLoading {
		s += fmt.Sprintf(" %.0f%%", 100*m.Progress)
	}
	return s
}

// width is the last prefill width against the widest so far, and why.
func width(m ipc.ModelStatus) string {
	if m.PrefillWidth == 0 {
		return "-"
	}
	s := fmt.Sprintf("%d/%d", m.PrefillWidth, m.PrefillWidthMax)
	if m.Reason != "" {
		s += " (" + string(m.Reason) + ")"
	}
	return s
}

func expires(m ipc.ModelStatus) string {
	switch {
	case m.Pinned:
		return "pinned"
	case m.ExpiresS == nil:
		return "-"
	}
	return "in " + span(*m.ExpiresS)
}

func (a *app) turnTable(turns []ipc.TurnReport) {
	var rows [][]string
	for _, t := range turns {
		end := string(t.FinishReason)
		if t.Error != nil {
			end = string(t.Error.Name)
		}
		rows = append(rows, []string{string(t.Turn), t.Model, end, fmt.Sprint(t.Usage.PromptTokens),
			fmt.Sprint(t.Usage.CompletionTokens), fmt.Sprintf("%.1f", t.Report.Decode.TokS), widths(t.Report.Prefill.Steps)})
	}
	a.table("TURN\tMODEL\tEND\tPROMPT\tANSWER\tTOK/S\tPREFILL WIDTHS", rows)
}

// widths lists the widths of the prefill steps, runs counted: 2048x4 512.
func widths(steps []turn.PrefillStep) string {
	var out []string
	for i := 0; i < len(steps); {
		n := 1
		for i+n < len(steps) && steps[i+n].Width == steps[i].Width {
			n++
		}
		s := fmt.Sprint(steps[i].Width)
		if n > 1 {
			s += fmt.Sprintf("x%d", n)
		}
		out = append(out, s)
		i += n
	}
	if len(out) > 6 {
		out = append(out[:6], "...")
	}
	return or(strings.Join(out, " "), "-")
}

type stopCmd struct{}

// stopPatience bounds the wait for a daemon that drains.
const stopPatience = 60 * time.Second

// Run implements kong's command: it returns when the daemon's process has
// ended.
func (*stopCmd) Run(a *app) error {
	if err := a.running(); errors.Is(err, errNoDaemon) {
		return a.say(map[string]bool{"stopped": false}, "No daemon is running.")
	} else if err != nil {
		return err
	}
	st, err := a.client.Status(a.ctx)
	if err != nil {
		return err
	}
	if err := a.client.Stop(a.ctx); err != nil {
		return err
	}
	for deadline := time.Now().Add(stopPatience); alive(st.PID); {
		if time.Now().After(deadline) {
			return fmt.Errorf("the daemon (pid %d) was told to stop but still runs after %s", st.PID, stopPatience)
		}
		select {
		case <-a.Interrupts:
			return code(exitInterrupted)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return a.say(map[string]bool{"stopped": true}, "The daemon has stopped.")
}

// alive reports whether a process runs. One that has ended but that nobody has
// waited for (its parent is gone, and this machine's first process waits for
// none) does not.
func alive(pid int) bool {
	if err := unix.Kill(pid, 0); err != nil {
		return errors.Is(err, unix.EPERM)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // Linux; absent elsewhere
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

type logsCmd struct {
	Lines int    `short:"n" default:"100" help:"How many lines."`
	Model string `help:"Only lines about this model."`
}

// Run implements kong's command. Without a daemon it has nobody to ask.
func (c *logsCmd) Run(a *app) error {
	if err := a.running(); err != nil {
		return err
	}
	res, err := a.client.Logs(a.ctx, ipc.LogsParams{Lines: c.Lines, Model: c.Model})
	if err != nil {
		return err
	}
	return a.show(res, func() {
		for _, l := range res.Lines {
			fmt.Fprintln(a.Out, l)
		}
	})
}

type versionCmd struct{}

// Run implements kong's command. It does not start a daemon to ask its
// version.
func (*versionCmd) Run(a *app) error {
	v := map[string]any{"client": ipc.Version, "protocol": ipc.Protocol, "daemon": nil}
	if a.running() == nil {
		if st, err := a.client.Status(a.ctx); err == nil {
			v["daemon"] = st.Version
		}
	}
	return a.show(v, func() {
		fmt.Fprintf(a.Out, "ingot %s (protocol %d)\n", ipc.Version, ipc.Protocol)
		if d := v["daemon"]; d != nil {
			fmt.Fprintf(a.Out, "ingotd %s\n", d)
		}
	})
}
