package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// runner drives bin/ingot-runner over fd 3, as the daemon does.
type runner struct {
	cmd  *exec.Cmd
	conn *wire.Conn
	n    int
}

func startRunner(bin, folder string) (*runner, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "runner")
	mine := os.NewFile(uintptr(fds[0]), "bench")
	nc, err := net.FileConn(mine)
	if err != nil {
		return nil, err
	}
	mine.Close()
	cmd := exec.Command(bin)
	cmd.ExtraFiles, cmd.Stderr = []*os.File{theirs}, os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w (make build?)", bin, err)
	}
	theirs.Close()
	r := &runner{cmd: cmd, conn: wire.NewConn(nc)}
	return r, r.load(folder)
}

func (r *runner) load(folder string) error {
	if err := r.conn.Send(&wire.Hello{Version: wire.Version, Model: "bench", Folder: folder, Mode: wire.ModeFull, Nth: 1}); err != nil {
		return err
	}
	for {
		m, err := r.conn.Recv()
		switch m := m.(type) {
		case *wire.Ready:
			fmt.Printf("ingot: %s on %s, %d layers, loaded in %.0f ms\n", m.Info.Family, m.Info.Device, m.Info.Layers, m.Info.LoadMS)
			return nil
		case *wire.Failed:
			return &m.Error
		}
		if err != nil {
			return fmt.Errorf("runner went away while loading: %w", err)
		}
	}
}

func (r *runner) generate(prompt, tokens, vocab int) (timing, error) {
	r.n++
	p := turn.Neutral()
	p.Temperature, p.MaxTokens, p.IgnoreEOS = 0, tokens, true
	ids := make([]turn.TokenID, prompt)
	for i := range ids {
		ids[i] = turn.TokenID(i * 7919 % vocab)
	}
	// A turn of its own first id, so that no kept prefix helps.
	ids[0] = turn.TokenID(r.n % vocab)
	id := turn.ID(fmt.Sprint("bench-", r.n))
	start := time.Now()
	err := r.conn.Send(&wire.Submit{Turn: id, Tokens: ids, Params: p, Given: []string{"temperature"}})
	if err != nil {
		return timing{}, err
	}
	return r.follow(start, tokens)
}

func (r *runner) follow(start time.Time, tokens int) (t timing, err error) {
	var first time.Time
	n := 0
	for {
		m, err := r.conn.Recv()
		if err != nil {
			return t, fmt.Errorf("runner went away: %w", err)
		}
		switch m := m.(type) {
		case *wire.Step:
			for _, c := range m.Choices {
				n += len(c.Tokens)
			}
			if n > 0 && first.IsZero() {
				first = time.Now()
			}
		case *wire.End:
			if m.Error != nil {
				return t, m.Error
			}
			if n != tokens {
				return t, fmt.Errorf("%d tokens instead of %d", n, tokens)
			}
			return timing{First: first.Sub(start).Seconds(), Rest: time.Since(first).Seconds()}, nil
		}
	}
}

func (r *runner) close() {
	r.conn.Close()
	r.cmd.Wait()
}

// peer drives the reference over its standard input and output.
type peer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startPeer(python, script, folder, dtype string) (*peer, error) {
	cmd := exec.Command(python, script, folder, dtype)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the reference: %w (make ref?)", err)
	}
	p := &peer{cmd: cmd, in: in, out: bufio.NewReader(out)}
	if _, err := p.out.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("the reference did not load %s: %w", folder, err)
	}
	return p, nil
}

func (p *peer) generate(prompt, tokens, vocab int) (t timing, err error) {
	ask := map[string]int{"prompt": prompt, "tokens": tokens, "vocab": vocab}
	if err := json.NewEncoder(p.in).Encode(ask); err != nil {
		return t, err
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return t, fmt.Errorf("the reference died: %w", err)
	}
	return t, json.Unmarshal(line, &t)
}

func (p *peer) close() {
	p.in.Close()
	p.cmd.Wait()
}
