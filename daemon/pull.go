package daemon

import (
	"context"
	"os"
	"path/filepath"

	"ingot/ipc"
	"ingot/models/store"
	"ingot/runtime/turn"
)

// importGGUF fills an empty folder of the catalogue from a GGUF file.
func importGGUF(ctx context.Context, file, folder string, progress func(ipc.PullProgress)) error {
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	p := ipc.PullProgress{File: filepath.Base(file), Total: turn.Bytes(st.Size())}
	progress(p)
	if err := os.Remove(folder); err != nil { // ImportGGUF makes it, whole
		return err
	}
	if err := store.ImportGGUF(file, folder); err != nil {
		return err
	}
	p.Done = p.Total
	progress(p)
	return ctx.Err()
}
