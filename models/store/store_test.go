package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingot/models/index"
)

// put writes a small model folder.
func put(t *testing.T, folder string) {
	t.Helper()
	head := `{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`
	weights := append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...)
	if err := errors.Join(
		os.MkdirAll(folder, 0o700),
		os.WriteFile(filepath.Join(folder, "config.json"), []byte(`{"model_type":"llama"}`), 0o600),
		os.WriteFile(filepath.Join(folder, "tokenizer.json"), []byte("{}"), 0o600),
		os.WriteFile(filepath.Join(folder, "model.safetensors"), append(weights, make([]byte, 8)...), 0o600),
	); err != nil {
		t.Fatal(err)
	}
}

func fill(t *testing.T, names ...string) *Store {
	t.Helper()
	root := filepath.Join(t.TempDir(), "models")
	for _, n := range names {
		put(t, filepath.Join(root, filepath.FromSlash(n)))
	}
	return Open(root)
}

func listed(t *testing.T, s *Store) string {
	t.Helper()
	all, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names(all), " ")
}

func TestList(t *testing.T) {
	s := fill(t, "local/tiny", "acme/big", "bare", ".adding-1/x", "acme/.hidden")
	if got := listed(t, s); got != "acme/big bare tiny" {
		t.Error(got)
	}
	if got := listed(t, Open(filepath.Join(t.TempDir(), "none"))); got != "" {
		t.Errorf("no folder yet: %s", got)
	}
	put(t, filepath.Join(s.Root(), "acme", "TINY")) // now the last element means two
	if got := listed(t, s); got != "acme/TINY acme/big bare local/tiny" {
		t.Error(got)
	}
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o600)
	if _, err := Open(file).List(); err == nil {
		t.Error("a file was read as a catalogue")
	}
}

func TestFind(t *testing.T) {
	s := fill(t, "local/tiny", "acme/big", "acme/twin", "other/twin")
	if err := s.Alias("fast", "TINY"); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "far")
	twin := filepath.Join(t.TempDir(), "twin")
	put(t, elsewhere)
	put(t, twin)
	for name, want := range map[string]string{
		"tiny": "tiny", "Tiny": "tiny", "local/TINY": "tiny", "fast": "tiny", "FAST": "tiny",
		"big": "acme/big", "Acme/Big": "acme/big", "acme/twin": "acme/twin",
		elsewhere: "far", twin: twin,
		filepath.Join(s.Root(), "acme", "big"): "acme/big",
	} {
		if e, err := s.Find(name); err != nil || e.Name != want || e.Problem != nil || e.Model.Type != "llama" {
			t.Errorf("%s: %q %v %v, want %q", name, e.Name, err, e.Problem, want)
		}
	}
	var many *AmbiguousError
	if _, err := s.Find("twin"); !errors.As(err, &many) || len(many.Could) != 2 {
		t.Errorf("twin: %v", err)
	}
	var none *NotFoundError
	if _, err := s.Find("tin"); !errors.As(err, &none) || !slices.Equal(none.Near, []string{"tiny"}) {
		t.Errorf("tin: %v", err)
	}
	for _, name := range []string{"", "acme/none", "/no/such/folder", filepath.Join(elsewhere, "config.json")} {
		if _, err := s.Find(name); !errors.As(err, &none) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestWhatIsWrongWithAFolderIsTold(t *testing.T) {
	s := fill(t, "a/whole", "a/half", "a/empty", "a/cut")
	os.WriteFile(filepath.Join(s.Root(), "a", "half", "model.safetensors.index.json"), []byte(`{"weight_map":{"x":"two.safetensors"}}`), 0o600)
	os.Remove(filepath.Join(s.Root(), "a", "half", "model.safetensors"))
	os.Remove(filepath.Join(s.Root(), "a", "empty", "config.json"))
	os.Truncate(filepath.Join(s.Root(), "a", "cut", "model.safetensors"), 66)
	for name, want := range map[string]error{"whole": nil, "empty": index.ErrNoConfig, "cut": index.ErrTruncated} {
		if e, err := s.Find(name); err != nil || !errors.Is(e.Problem, want) {
			t.Errorf("%s: %v %v", name, err, e.Problem)
		}
	}
	var lacking *index.IncompleteError
	if e, _ := s.Find("half"); !errors.As(e.Problem, &lacking) || !slices.Contains(lacking.Files, "two.safetensors") {
		t.Errorf("half: %v", e.Problem)
	}
}

func TestAChangedFolderIsReadAgain(t *testing.T) {
	s := fill(t, "local/m")
	a, _ := s.Find("m")
	if b, _ := s.Find("m"); b.Model != a.Model {
		t.Error("read again though nothing has changed")
	}
	os.WriteFile(filepath.Join(a.Folder, "config.json"), []byte(`{"model_type":"qwen3"}`), 0o600)
	if b, _ := s.Find("m"); b.Model.Type != "qwen3" || b.Fingerprint == a.Fingerprint || b.Size != a.Size {
		t.Errorf("%+v", b)
	}
}

func TestAliases(t *testing.T) {
	s := fill(t, "local/m", "acme/n")
	outside := filepath.Join(t.TempDir(), "out")
	put(t, outside)
	for alias, model := range map[string]string{"a b": "m", "": "m", "../x": "m", "n": "m", "x": outside} {
		var odd *NameError
		if err := s.Alias(alias, model); !errors.As(err, &odd) {
			t.Errorf("%q for %s: %v", alias, model, err)
		}
	}
	var none *NotFoundError
	for alias, model := range map[string]string{"x": "none", "gone": ""} {
		if err := s.Alias(alias, model); !errors.As(err, &none) {
			t.Errorf("%q for %q: %v", alias, model, err)
		}
	}
	if err := errors.Join(s.Alias("x", "m"), s.Alias("X", "n"), s.Alias("y", "n"), s.Alias("Y", "")); err != nil {
		t.Fatal(err)
	}
	again := Open(s.Root()) // they are on disk
	if got, err := again.Aliases(); err != nil || fmt.Sprint(got) != "map[X:acme/n]" {
		t.Errorf("%v, %v", got, err)
	}
	if err := s.Remove("n"); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Aliases(); len(got) != 0 {
		t.Errorf("an alias outlives its model: %v", got)
	}
	os.WriteFile(s.aliasFile(), []byte("{"), 0o600)
	if _, err := s.List(); err == nil || !strings.Contains(err.Error(), "aliases.json") {
		t.Errorf("%v", err)
	}
}

func TestRemove(t *testing.T) {
	s := fill(t, "local/m", "acme/n")
	outside := filepath.Join(t.TempDir(), "out")
	put(t, outside)
	var odd *NameError
	if err := s.Remove(outside); !errors.As(err, &odd) {
		t.Errorf("a folder outside: %v", err)
	}
	if err := s.Remove("ACME/n"); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, s); got != "m" {
		t.Error(got)
	}
	if left, _ := os.ReadDir(s.Root()); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAdd(t *testing.T) {
	s := fill(t)
	e, err := s.Add("new", func(folder string) error { put(t, folder); return nil })
	if err != nil || e.Name != "new" || e.Full != "local/new" {
		t.Fatalf("%+v, %v", e, err)
	}
	if _, err := s.Add("acme/new", func(folder string) error { put(t, folder); return nil }); err != nil {
		t.Fatal(err)
	}
	var odd *NameError
	for _, name := range []string{"LOCAL/../x", "a/b/c", "", "local/new", "new "} {
		if _, err := s.Add(name, func(string) error { t.Error("filled"); return nil }); !errors.As(err, &odd) {
			t.Errorf("%q: %v", name, err)
		}
	}
	broken := errors.New("broken off")
	if _, err := s.Add("half", func(folder string) error { put(t, folder); return broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if got := listed(t, s); got != "acme/new local/new" {
		t.Error(got)
	}
	if left, _ := os.ReadDir(s.Root()); len(left) != 2 {
		t.Errorf("left behind: %v", left)
	}
}
