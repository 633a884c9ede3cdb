package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"ingot/ipc"
	"ingot/ipc/client"
)

// table writes rows under a heading, in columns.
func (a *app) table(heading string, rows [][]string) {
	w := tabwriter.NewWriter(a.Out, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, heading)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	w.Flush()
}

type lsCmd struct{}

// Run implements kong's command.
func (*lsCmd) Run(a *app) error {
	if err := a.need(); err != nil {
		return err
	}
	list, err := a.client.Models(a.ctx)
	if err != nil {
		return err
	}
	return a.show(list, func() {
		if len(list.Models) == 0 {
			fmt.Fprintln(a.Out, "No models are here yet. Fetch one with: ingot pull")
			return
		}
		var rows [][]string
		for _, m := range list.Models {
			rows = append(rows, []string{named(m), or(m.Family, "-"), amount(m.Parameters), or(m.Quantization, "-"),
				size(m.Bytes), fmt.Sprint(m.Context), string(m.State) + problem(m)})
		}
		a.table("NAME\tFAMILY\tPARAMS\tQUANT\tSIZE\tCONTEXT\tSTATE", rows)
	})
}

func named(m ipc.Model) string {
	if len(m.Aliases) == 0 {
		return m.Name
	}
	return m.Name + " (" + strings.Join(m.Aliases, ", ") + ")"
}

func problem(m ipc.Model) string {
	if m.Problem == "" {
		return ""
	}
	return ": " + m.Problem
}

type showCmd struct {
	Model string `arg:"" help:"Name, alias or folder of a model."`
}

// Run implements kong's command.
func (c *showCmd) Run(a *app) error {
	if err := a.need(); err != nil {
		return err
	}
	d, err := a.client.Show(a.ctx, modelArg(c.Model))
	if err != nil {
		return err
	}
	return a.show(d, func() {
		rows := [][]string{{"family", or(d.Family, "-")}, {"architecture", or(d.Architecture, "-")},
			{"parameters", amount(d.Parameters)}, {"quantization", or(d.Quantization, "-")}, {"size", size(d.Bytes)},
			{"context", fmt.Sprint(d.Context) + " tokens"}, {"folder", d.Folder}, {"state", string(d.State)}}
		if len(d.Aliases) > 0 {
			rows = append(rows, []string{"aliases", strings.Join(d.Aliases, ", ")})
		}
		if d.Problem != "" {
			rows = append(rows, []string{"problem", d.Problem})
		}
		a.table(d.Name, rows)
	})
}

type loadCmd struct {
	Model     string `arg:"" help:"Name, alias or folder of a model."`
	KeepAlive string `help:"How long to keep it when idle: 5m, or -1 for ever." placeholder:"TIME"`
}

// Run implements kong's command.
func (c *loadCmd) Run(a *app) error {
	if err := a.need(); err != nil {
		return err
	}
	stop := a.followLoad(c.Model)
	st, err := a.client.Load(a.ctx, ipc.LoadParams{Model: modelArg(c.Model), KeepAlive: c.KeepAlive})
	stop()
	if err != nil {
		return err
	}
	return a.say(st, "%s is %s (pid %d, %s).", st.Name, st.State, st.PID, size(st.Memory.Active))
}

type unloadCmd struct {
	Model string `arg:"" help:"Name of a loaded model."`
}

// Run implements kong's command.
func (c *unloadCmd) Run(a *app) error {
	if err := a.running(); err != nil {
		return err
	}
	if err := a.client.Unload(a.ctx, modelArg(c.Model)); err != nil {
		return err
	}
	return a.say(ipc.Empty{}, "%s is unloaded.", c.Model)
}

type pinCmd struct {
	Model string `arg:"" help:"Name of a model."`
	Off   bool   `help:"Unpin it."`
}

// Run implements kong's command.
func (c *pinCmd) Run(a *app) error {
	if err := a.need(); err != nil {
		return err
	}
	if err := a.client.Pin(a.ctx, ipc.PinParams{Model: modelArg(c.Model), Pinned: !c.Off}); err != nil {
		return err
	}
	if c.Off {
		return a.say(ipc.Empty{}, "%s is no longer pinned.", c.Model)
	}
	return a.say(ipc.Empty{}, "%s stays loaded.", c.Model)
}

type aliasCmd struct {
	Alias string  `arg:"" help:"The new name."`
	Model *string `arg:"" optional:"" help:"Name of a model."`
}

// Run implements kong's command.
func (c *aliasCmd) Run(a *app) error {
	if err := a.need(); err != nil {
		return err
	}
	if err := a.client.Alias(a.ctx, ipc.AliasParams{Alias: c.Alias, Model: c.Model}); err != nil {
		return err
	}
	if c.Model == nil {
		return a.say(ipc.Empty{}, "%s is no alias any more.", c.Alias)
	}
	return a.say(ipc.Empty{}, "%s is now also %s.", *c.Model, c.Alias)
}

type pullCmd struct {
	Model    string `arg:"" help:"Name of a model (org/name), or a GGUF file."`
	As       string `help:"Name to run it by." placeholder:"NAME"`
	Revision string `help:"Branch, tag or commit to fetch."`
}

// Run implements kong's command.
func (c *pullCmd) Run(a *app) error {
	model := modelArg(c.Model)
	if st, err := os.Stat(c.Model); err == nil && st.Mode().IsRegular() {
		if model, err = filepath.Abs(c.Model); err != nil {
			return err
		}
	}
	if err := a.need(); err != nil {
		return err
	}
	l := line{w: a.Err, on: a.ErrTTY && !a.json}
	res, err := a.client.Pull(a.ctx, ipc.PullParams{Model: model, Revision: c.Revision, As: c.As}, func(p ipc.PullProgress) {
		l.set("%s %s %s", or(p.File, c.Model), bar(float64(p.Done)/float64(max(p.Total, 1)), 20), size(p.Done))
	})
	l.clear()
	if err != nil {
		return err
	}
	return a.say(res, "%s is here (%s). Try: ingot run %s", res.Model, size(res.Bytes), res.Model)
}

type rmCmd struct {
	Model string `arg:"" help:"Name of a model."`
}

// Run implements kong's command.
func (c *rmCmd) Run(a *app) error {
	if err := a.need(); err != nil {
		return err
	}
	if err := a.client.Remove(a.ctx, c.Model); err != nil {
		return err
	}
	return a.say(ipc.Empty{}, "%s is deleted.", c.Model)
}

// followLoad shows how far a load is until the returned func is called.
func (a *app) followLoad(model string) (stop func()) {
	if !a.ErrTTY || a.json {
		return func() {}
	}
	l := line{w: a.Err, on: true}
	ended := make(chan struct{})
	ctx, cancel := contextWith(a)
	go func() {
		defer close(ended)
		watcher := client.Client{Socket: a.socket}
		for e, err := range watcher.Watch(ctx) {
			if err != nil {
				return
			}
			if e.Model != nil && e.Model.State == ipc.StateLoading {
				l.set("loading %s %s %3.0f%%", model, bar(e.Model.Progress, 20), 100*e.Model.Progress)
			}
		}
	}()
	return func() { cancel(); <-ended; l.clear() }
}
