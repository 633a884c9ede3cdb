package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"ingot/models/store"
)

// inspectTime bounds a runner's look into a folder.
const inspectTime = 30 * time.Second

// inspections remembers what runners found in folders, by fingerprint.
type inspections struct {
	mu    sync.Mutex
	found map[string]json.RawMessage
}

func (i *inspections) get(print string) json.RawMessage {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.found[print]
}

func (i *inspections) put(print string, raw json.RawMessage) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.found == nil || len(i.found) > 256 {
		i.found = map[string]json.RawMessage{}
	}
	i.found[print] = raw
}

// inspectModel asks a runner what a folder holds. It loads no weights.
func (d *Daemon) inspectModel(ctx context.Context, e *store.Entry) (json.RawMessage, error) {
	if raw := d.inspect.get(e.Folder + e.Fingerprint); raw != nil {
		return raw, nil
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	argv := append(d.opt.Runner[1:len(d.opt.Runner):len(d.opt.Runner)], "--inspect", e.Folder)
	cmd := exec.CommandContext(ctx, d.opt.Runner[0], argv...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		why := strings.TrimSpace(errs.String())
		if why == "" {
			why = err.Error()
		}
		return nil, fmt.Errorf("inspect %s: %s", e.Name, why)
	}
	raw := json.RawMessage(bytes.TrimSpace(out.Bytes()))
	if !json.Valid(raw) {
		return nil, fmt.Errorf("inspect %s: the runner printed no JSON", e.Name)
	}
	d.inspect.put(e.Folder+e.Fingerprint, raw)
	return raw, nil
}
