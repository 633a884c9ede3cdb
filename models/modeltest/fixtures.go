// Package modeltest is the suite that every model family passes, and the
// checkpoints and reference answers it compares with.
//
// It is for tests only. Checkpoints and answers are made once by mlx-lm (make
// ref) and kept in .deps/fixtures by what made them. A test binary that uses it
// calls Main: one device for all its tests.
package modeltest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ingot/models/store"
)

// root is the folder of the module.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = up
	}
}

// once fills a folder under .deps/fixtures, unless a folder of that name is
// there. Processes may race: the first to finish wins.
func once(name string, fill func(root, tmp string) error) (string, error) {
	top, err := root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(top, ".deps", "fixtures", name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".making-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	made := filepath.Join(tmp, "it")
	if err := fill(top, made); err != nil {
		return "", err
	}
	if err := os.Rename(made, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, there := os.Stat(dir); there != nil {
			return "", err
		}
	}
	return dir, nil
}

// python runs one of the package's scripts with the reference's Python.
func python(top, script, stdin string, args ...string) error {
	cmd := exec.Command(filepath.Join(top, ".deps", "ref", "bin", "python"), append([]string{scriptPath(top, script)}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w (is the reference there? make ref)\n%s", script, args, err, out)
	}
	return nil
}

func scriptPath(top, script string) string {
	return filepath.Join(top, "models", "modeltest", "testdata", script)
}

// key names a fixture by everything that made it.
func key(top, script string, parts ...string) (string, error) {
	body, err := os.ReadFile(scriptPath(top, script))
	if err != nil {
		return "", err
	}
	h := sha256.New()
	h.Write(body)
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// Tiny returns the folder of a tiny checkpoint made by mktiny.py with the
// arguments (FAMILY first, without OUT).
func Tiny(tb testing.TB, family string, args ...string) string {
	tb.Helper()
	top, err := root()
	if err != nil {
		tb.Fatal(err)
	}
	k, err := key(top, "mktiny.py", append([]string{family}, args...)...)
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := once(family+"-"+k, func(top, tmp string) error {
		return python(top, "mktiny.py", "", append([]string{family, tmp}, args...)...)
	})
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

// Starter returns the folder of the starter model.
func Starter(tb testing.TB) string {
	tb.Helper()
	dir, err := once("smollm2-135m", func(top, tmp string) error {
		return store.ImportGGUF(filepath.Join(top, ".deps", "starter", "SmolLM2-135M-Instruct.Q4_1.gguf"), tmp)
	})
	if err != nil {
		tb.Fatalf("%v (is the starter model there? make deps)", err)
	}
	return dir
}

// Reference is what mlx-lm says in f32.
type Reference struct {
	Prompts [][]int32     `json:"-"`
	Greedy  [][]int32     `json:"greedy"` // continuation of each prompt
	Margin  [][]float32   `json:"margin"` // gap between the two best logits at each of its steps
	Vocab   int           `json:"vocab"`
	Logits  [][][]float32 `json:"-"` // [prompt][row][vocab]
}

// Ask returns mlx-lm's answers for prompts, each continued by steps greedy
// tokens.
func Ask(tb testing.TB, folder string, steps int, prompts ...[]int32) *Reference {
	tb.Helper()
	req, err := json.Marshal(map[string]any{"prompts": prompts, "steps": steps})
	if err != nil {
		tb.Fatal(err)
	}
	top, err := root()
	if err != nil {
		tb.Fatal(err)
	}
	k, err := key(top, "reference.py", string(req))
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := once(filepath.Base(folder)+"-ref-"+k, func(top, tmp string) error {
		return python(top, "reference.py", string(req), folder, tmp)
	})
	if err != nil {
		tb.Fatal(err)
	}
	r := &Reference{Prompts: prompts}
	if err := r.read(dir); err != nil {
		tb.Fatal(err)
	}
	return r
}

func (r *Reference) read(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "reference.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, r); err != nil {
		return err
	}
	raw, err := os.ReadFile(filepath.Join(dir, "logits.f32"))
	if err != nil {
		return err
	}
	for _, p := range r.Prompts {
		rows := make([][]float32, len(p))
		for i := range rows {
			rows[i] = make([]float32, r.Vocab)
			for j := range rows[i] {
				rows[i][j] = math.Float32frombits(binary.LittleEndian.Uint32(raw))
				raw = raw[4:]
			}
		}
		r.Logits = append(r.Logits, rows)
	}
	return nil
}
