// Package store is the catalogue of models on disk: what is in
// INGOT_HOME/models, models in folders elsewhere, and aliases.
//
// It owns the models folder and aliases.json in it. Any goroutine may call.
// It reads the disk on every question, so that what a person copies in is
// there at once, but reads a model's files again only when they have
// changed. It never loads weights and never touches the network.
package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"ingot/models/index"
)

// Local is the ORG of models that came from this machine; they are called by
// the last element of their name where that is unique.
const Local = "local"

// Entry is one model.
type Entry struct {
	Name        string   // as people call it
	Full        string   // ORG/NAME; "" for a folder outside the catalogue
	Aliases     []string // sorted
	Folder      string   // absolute
	Fingerprint string   // changes when any of its files does
	Size        int64    // bytes of its weight files on disk
	Model       *index.Model
	Problem     error // why it can't be loaded; Model is nil then, or incomplete
}

// NotFoundError says that a name is no model here.
type NotFoundError struct {
	Name string
	Near []string // names that are alike
}

func (e *NotFoundError) Error() string {
	s := fmt.Sprintf("no model %q here", e.Name)
	if len(e.Near) > 0 {
		s += " (did you mean " + strings.Join(e.Near, " or ") + "?)"
	}
	return s
}

// AmbiguousError says that a short name means several models.
type AmbiguousError struct {
	Name  string
	Could []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%q could be %s", e.Name, strings.Join(e.Could, " or "))
}

// Store is a catalogue.
type Store struct {
	root string

	mu    sync.Mutex
	cache map[string]Entry // by folder; valid while the fingerprint holds
}

// Open returns the catalogue in root, which need not be there yet.
func Open(root string) *Store { return &Store{root: root, cache: map[string]Entry{}} }

// Root is the folder of the catalogue.
func (s *Store) Root() string { return s.root }

// List returns every model of the catalogue, by name.
func (s *Store) List() ([]Entry, error) {
	folders, err := s.folders()
	if err != nil {
		return nil, err
	}
	aliases, err := s.Aliases()
	if err != nil {
		return nil, err
	}
	lasts := map[string]int{}
	for full := range folders {
		lasts[strings.ToLower(last(full))]++
	}
	var out []Entry
	for full, folder := range folders {
		e := s.entry(folder)
		e.Full, e.Name = full, full
		if strings.HasPrefix(full, Local+"/") && lasts[strings.ToLower(last(full))] == 1 {
			e.Name = last(full)
		}
		for alias, target := range aliases {
			if strings.EqualFold(target, full) {
				e.Aliases = append(e.Aliases, alias)
			}
		}
		slices.Sort(e.Aliases)
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// Find returns the model a name means: the absolute path of a folder, an
// alias, ORG/NAME, or a last element that is unique. Case does not matter.
func (s *Store) Find(name string) (Entry, error) {
	if filepath.IsAbs(name) {
		return s.outside(filepath.Clean(name))
	}
	all, err := s.List()
	if err != nil {
		return Entry{}, err
	}
	var short []Entry
	for _, e := range all {
		switch {
		case strings.EqualFold(e.Full, name), slices.ContainsFunc(e.Aliases, func(a string) bool { return strings.EqualFold(a, name) }):
			return e, nil
		case strings.EqualFold(last(e.Full), name):
			short = append(short, e)
		}
	}
	switch len(short) {
	case 1:
		return short[0], nil
	case 0:
		return Entry{}, &NotFoundError{Name: name, Near: near(name, all)}
	}
	return Entry{}, &AmbiguousError{Name: name, Could: names(short)}
}

// outside returns the model in a folder given by path. One that lies in the
// catalogue keeps its name there.
func (s *Store) outside(folder string) (Entry, error) {
	if st, err := os.Stat(folder); err != nil || !st.IsDir() {
		return Entry{}, &NotFoundError{Name: folder}
	}
	all, err := s.List()
	if err != nil {
		return Entry{}, err
	}
	e := s.entry(folder)
	e.Name = filepath.Base(folder)
	for _, o := range all {
		switch {
		case same(o.Folder, folder):
			return o, nil
		case strings.EqualFold(last(o.Full), e.Name):
			e.Name = folder // its last element means another model
		}
	}
	return e, nil
}

func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// entry reads what a folder holds, or remembers it.
func (s *Store) entry(folder string) Entry {
	print, size := fingerprint(folder)
	s.mu.Lock()
	e, ok := s.cache[folder]
	s.mu.Unlock()
	if ok && e.Fingerprint == print {
		return e
	}
	e = Entry{Folder: folder, Fingerprint: print, Size: size}
	e.Model, e.Problem = index.Inspect(folder)
	if e.Problem == nil && len(e.Model.Missing) > 0 {
		e.Problem = &index.IncompleteError{Folder: folder, Files: e.Model.Missing}
	}
	s.mu.Lock()
	s.cache[folder] = e
	s.mu.Unlock()
	return e
}

// folders maps ORG/NAME to the folder. A folder with a config.json right in
// the catalogue counts as a local one.
func (s *Store) folders() (map[string]string, error) {
	found := map[string]string{}
	orgs, err := subfolders(s.root)
	if err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	for _, org := range orgs {
		dir := filepath.Join(s.root, org)
		if _, err := os.Stat(filepath.Join(dir, "config.json")); err == nil {
			found[Local+"/"+org] = dir
			continue
		}
		models, err := subfolders(dir)
		if err != nil {
			return nil, fmt.Errorf("read the catalogue: %w", err)
		}
		for _, m := range models {
			found[org+"/"+m] = filepath.Join(dir, m)
		}
	}
	return found, nil
}

// subfolders lists folders, links to folders included, less hidden ones.
func subfolders(dir string) ([]string, error) {
	items, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, it := range items {
		if strings.HasPrefix(it.Name(), ".") {
			continue
		}
		if st, err := os.Stat(filepath.Join(dir, it.Name())); err == nil && st.IsDir() {
			out = append(out, it.Name())
		}
	}
	return out, err
}

// fingerprint sums up the files of a folder without reading them, and the
// bytes of its weight files.
func fingerprint(folder string) (string, int64) {
	var b strings.Builder
	var size int64
	items, _ := os.ReadDir(folder) // a folder that can't be read has none, and Inspect says why
	for _, it := range items {
		st, err := os.Stat(filepath.Join(folder, it.Name()))
		if err != nil || !st.Mode().IsRegular() {
			continue
		}
		fmt.Fprintf(&b, "%s %d %d\n", it.Name(), st.Size(), st.ModTime().UnixNano())
		if strings.HasSuffix(it.Name(), ".safetensors") {
			size += st.Size()
		}
	}
	return hash(b.String()), size
}

func last(full string) string { return full[strings.LastIndexByte(full, '/')+1:] }

func names(es []Entry) []string {
	out := make([]string, len(es))
	for i, e := range es {
		out[i] = e.Name
	}
	return out
}

// near lists up to three names that contain the asked one, or the reverse.
func near(name string, all []Entry) []string {
	var out []string
	name = strings.ToLower(name)
	for _, e := range all {
		l := strings.ToLower(last(e.Full))
		if name != "" && len(out) < 3 && (strings.Contains(l, name) || strings.Contains(name, l)) {
			out = append(out, e.Name)
		}
	}
	return out
}
