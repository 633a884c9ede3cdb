package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/renameio/v2"
)

// NameError says that a name can't be one of a model or an alias.
type NameError struct{ Name, Why string }

func (e *NameError) Error() string { return fmt.Sprintf("%q %s", e.Name, e.Why) }

// element is one part of a name: what every file system takes and no shell
// trips over.
var element = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$`)

// Split checks a new model's name and returns ORG and NAME; a bare name is a
// local one.
func Split(name string) (org, model string, err error) {
	org, model, ok := strings.Cut(name, "/")
	if !ok {
		org, model = Local, name
	}
	if !element.MatchString(org) || !element.MatchString(model) {
		return "", "", &NameError{name, "is no name for a model: use NAME or ORG/NAME of letters, digits, '.', '_' and '-'"}
	}
	return org, model, nil
}

func (s *Store) aliasFile() string { return filepath.Join(s.root, "aliases.json") }

// Aliases returns the aliases: alias to ORG/NAME.
func (s *Store) Aliases() (map[string]string, error) {
	body, err := os.ReadFile(s.aliasFile())
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read aliases: %w", err)
	}
	all := map[string]string{}
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, fmt.Errorf("read aliases: %s: %w", s.aliasFile(), err)
	}
	return all, nil
}

// Alias makes a name mean a model of the catalogue; with an empty model it
// removes the alias.
func (s *Store) Alias(alias, model string) error {
	if !element.MatchString(alias) {
		return &NameError{alias, "is no name for an alias: use letters, digits, '.', '_' and '-'"}
	}
	var target string
	if model != "" {
		e, err := s.Find(model)
		if err != nil {
			return err
		}
		if e.Full == "" {
			return &NameError{model, "is not in the catalogue, so it can't have an alias"}
		}
		target = e.Full
		if o, err := s.Find(alias); err == nil && strings.EqualFold(last(o.Full), alias) {
			return &NameError{alias, "is the name of a model already"}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeAliasLocked(alias, target)
}

func (s *Store) writeAliasLocked(alias, target string) error {
	all, err := s.Aliases()
	if err != nil {
		return err
	}
	had := len(all)
	maps.DeleteFunc(all, func(a, _ string) bool { return strings.EqualFold(a, alias) })
	if target == "" && len(all) == had {
		return &NotFoundError{Name: alias}
	}
	if target != "" {
		all[alias] = target
	}
	return s.saveLocked(all)
}

func (s *Store) saveLocked(all map[string]string) error {
	body, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.root, 0o700); err != nil {
		return fmt.Errorf("write aliases: %w", err)
	}
	if err := renameio.WriteFile(s.aliasFile(), append(body, '\n'), 0o600); err != nil {
		return fmt.Errorf("write aliases: %w", err)
	}
	return nil
}

// Remove deletes a model of the catalogue and the aliases that mean it.
func (s *Store) Remove(name string) error {
	e, err := s.Find(name)
	if err != nil {
		return err
	}
	if e.Full == "" {
		return &NameError{name, "is a folder outside the catalogue: delete it yourself"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cache, e.Folder)
	// Out of the catalogue in one step, then gone: what is half deleted is never seen as a model.
	grave := filepath.Join(s.root, ".removed-"+hash(e.Folder)[:12])
	if err := os.RemoveAll(grave); err != nil {
		return fmt.Errorf("remove %s: %w", e.Name, err)
	}
	if err := os.Rename(e.Folder, grave); err != nil {
		return fmt.Errorf("remove %s: %w", e.Name, err)
	}
	if err := os.RemoveAll(grave); err != nil {
		return fmt.Errorf("remove %s: %w", e.Name, err)
	}
	os.Remove(filepath.Dir(e.Folder)) // the ORG, if that was its last; else it stays
	return s.forgetLocked(e.Full)
}

func (s *Store) forgetLocked(full string) error {
	all, err := s.Aliases()
	if err != nil {
		return err
	}
	had := len(all)
	maps.DeleteFunc(all, func(_, target string) bool { return strings.EqualFold(target, full) })
	if len(all) == had {
		return nil
	}
	return s.saveLocked(all)
}

// Add makes a new model: fill writes its files into an empty folder, which
// becomes ORG/NAME once fill has succeeded. A model that is there already is
// not replaced.
func (s *Store) Add(name string, fill func(folder string) error) (Entry, error) {
	org, model, err := Split(name)
	if err != nil {
		return Entry{}, err
	}
	final := filepath.Join(s.root, org, model)
	if _, err := os.Stat(final); err == nil {
		return Entry{}, &NameError{name, "is here already"}
	}
	if err := os.MkdirAll(filepath.Dir(final), 0o700); err != nil {
		return Entry{}, fmt.Errorf("add %s: %w", name, err)
	}
	tmp, err := os.MkdirTemp(s.root, ".adding-*")
	if err != nil {
		return Entry{}, fmt.Errorf("add %s: %w", name, err)
	}
	defer os.RemoveAll(tmp) // nothing is left there once it is renamed
	if err := fill(tmp); err != nil {
		return Entry{}, err
	}
	if err := os.Rename(tmp, final); err != nil {
		return Entry{}, fmt.Errorf("add %s: %w", name, err)
	}
	return s.Find(org + "/" + model)
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
