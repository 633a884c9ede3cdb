package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Parse reads a configuration. file names it in errors, each of which is an
// *Error; all that are wrong are joined.
func Parse(file, body string) (*Config, error) {
	var tree map[string]any
	if _, err := toml.Decode(body, &tree); err != nil {
		return nil, syntax(file, err)
	}
	p := &parser{file: file, body: body, c: Default()}
	models, _ := tree["models"].(map[string]any)
	if _, ok := tree["models"]; ok && models == nil {
		p.bad("models", `must be sections: [models."NAME"]`)
	}
	delete(tree, "models")
	p.walk("", tree)
	for _, name := range sorted(models) {
		p.section(name, models[name])
	}
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return p.c, nil
}

func syntax(file string, err error) error {
	var pe toml.ParseError
	if errors.As(err, &pe) {
		return &Error{File: file, Line: pe.Position.Line, Why: pe.Message}
	}
	return &Error{File: file, Why: err.Error()}
}

type parser struct {
	file, body string
	c          *Config
	errs       []error
}

func (p *parser) bad(name, format string, args ...any) {
	p.errs = append(p.errs, &Error{File: p.file, Line: lineOf(p.body, name), Key: name, Why: fmt.Sprintf(format, args...)})
}

// walk takes the keys of one table; tables that are no key are sections.
func (p *parser) walk(prefix string, tree map[string]any) {
	for _, k := range sorted(tree) {
		name := prefix + k
		sub, isTable := tree[k].(map[string]any)
		if isTable && isSection(name) {
			p.walk(name+".", sub)
			continue
		}
		if isSection(name) {
			p.bad(name, "must be a section: [%s]", name)
			continue
		}
		p.take(name, tree[k])
	}
}

func (p *parser) take(name string, v any) {
	k := find(name)
	switch {
	case k == nil:
		p.bad(name, "unknown key%s", suggest(name, false))
	case k.set != nil && !k.set(p.c, v), k.model != nil && !k.model(&p.c.Model, v):
		p.bad(name, "%s", k.wrong(v))
	}
}

// section takes [models."NAME"]. It starts from what holds for every model,
// which walk has read whole before.
func (p *parser) section(name string, v any) {
	path := "models." + quote(name)
	tree, ok := v.(map[string]any)
	if !ok {
		p.bad(path, `must be a section: [models.%s]`, quote(name))
		return
	}
	m := p.c.Model
	for _, k := range sorted(tree) {
		full := path + "." + k
		switch def := find(k); {
		case def == nil:
			p.bad(full, "unknown key%s", suggest(k, true))
		case def.model == nil:
			p.bad(full, "is not a model's key: it holds for the whole daemon")
		case !def.model(&m, tree[k]):
			p.bad(full, "%s", def.wrong(tree[k]))
		}
	}
	p.c.Models[strings.ToLower(name)] = m
}

func quote(s string) string { return `"` + s + `"` }

func sorted(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

func isSection(name string) bool {
	return slices.ContainsFunc(keys, func(k key) bool { return strings.HasPrefix(k.name, name+".") })
}

// suggest names the nearest key, where one is near.
func suggest(name string, model bool) string {
	best, dist := "", 4
	for _, k := range keys {
		if model && k.model == nil {
			continue
		}
		if d := distance(name, k.name); d < dist {
			best, dist = k.name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// distance is Levenshtein's, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diag, row[j+1] = row[j+1], min(diag+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// lineOf finds the line that sets a dotted key, for errors found after
// parsing; 0 where the file spells it in a way this does not see.
func lineOf(body, name string) int {
	section := ""
	for i, line := range strings.Split(body, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(strings.SplitN(line, "]", 2)[0], "[ ")
			if section == name {
				return i + 1
			}
			continue
		}
		k, _, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		k = strings.TrimSpace(k)
		if k == name || section+"."+k == name {
			return i + 1
		}
	}
	return 0
}

// Change is one setting that differs between two configurations.
type Change struct {
	Key      string
	Old, New any
}

// Diff lists what differs, by key; models' sections are written out whole.
func Diff(a, b *Config) []Change {
	out := diff("", a, b, &a.Model, &b.Model, false)
	names := maps.Clone(a.Models)
	maps.Copy(names, b.Models)
	for _, n := range slices.Sorted(maps.Keys(names)) {
		x, y := a.For(n), b.For(n)
		out = append(out, diff("models."+quote(n)+".", a, b, &x, &y, true)...)
	}
	return out
}

func diff(prefix string, a, b *Config, x, y *Model, model bool) []Change {
	var out []Change
	for _, k := range keys {
		if model && k.model == nil {
			continue
		}
		if p, q := k.show(a, x), k.show(b, y); p != q {
			out = append(out, Change{prefix + k.name, p, q})
		}
	}
	return out
}
