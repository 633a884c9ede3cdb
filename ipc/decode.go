package ipc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// rule is one parameter: its name, how it is described (JSON Schema, for
// rpc.discover), and how a value is checked and stored. A null value counts
// as absent.
type rule struct {
	name     string
	required bool
	schema   schema
	set      setter
}

// setter checks raw, found at path, and stores it.
type setter func(path string, raw json.RawMessage) *Error

// schema is a JSON Schema.
type schema map[string]any

// Params is a set of parameters that knows its rules. check is called when
// every rule held, for what spans more than one field.
type Params interface {
	rules() []rule
	check() *Error
}

// Decode fills p, one of this package's Params or Request types, from the
// params of a call. It fails with an *Error that names the field.
func Decode(raw json.RawMessage, p Params) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	if err := object("", raw, p.rules()); err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	return nil
}

// at joins a path and a field name.
func at(path, name string) string {
	if name == "" {
		name = `""`
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// kindOf names the JSON type of raw.
func kindOf(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

func mismatch(path, want string, raw json.RawMessage) *Error {
	if path == "" {
		path = "params"
	}
	return Invalid(path, "must be %s, not %s", want, kindOf(raw))
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

// object checks raw against rules: an unknown field is refused by its path,
// and so is a missing one that is required.
func object(path string, raw json.RawMessage, rules []rule) *Error {
	var m map[string]json.RawMessage
	if kindOf(raw) != "an object" || json.Unmarshal(raw, &m) != nil {
		return mismatch(path, "an object", raw)
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		i := slices.IndexFunc(rules, func(r rule) bool { return r.name == name })
		if i < 0 {
			return Invalid(at(path, name), "is not a known field")
		}
		if isNull(m[name]) {
			continue
		}
		if err := rules[i].set(at(path, name), m[name]); err != nil {
			return err
		}
	}
	for _, r := range rules {
		if v, ok := m[r.name]; r.required && (!ok || isNull(v)) {
			return Invalid(at(path, r.name), "is missing")
		}
	}
	return nil
}

// need marks a rule as required.
func need(r rule) rule { r.required = true; return r }

func text(name string, to *string) rule {
	return rule{name: name, schema: schema{"type": "string"}, set: func(path string, raw json.RawMessage) *Error {
		if kindOf(raw) != "a string" || json.Unmarshal(raw, to) != nil {
			return mismatch(path, "a string", raw)
		}
		return nil
	}}
}

func textOrNil(name string, to **string) rule {
	v := new(string)
	r := text(name, v)
	return stored(r, func() { *to = v })
}

// stored runs then when the rule's value was stored.
func stored(r rule, then func()) rule {
	set := r.set
	r.set = func(path string, raw json.RawMessage) *Error {
		if err := set(path, raw); err != nil {
			return err
		}
		then()
		return nil
	}
	return r
}

func boolean(name string, to *bool) rule {
	return rule{name: name, schema: schema{"type": "boolean"}, set: func(path string, raw json.RawMessage) *Error {
		if json.Unmarshal(raw, to) != nil {
			return mismatch(path, "true or false", raw)
		}
		return nil
	}}
}

func booleanOrNil(name string, to **bool) rule {
	v := new(bool)
	return stored(boolean(name, v), func() { *to = v })
}

// integers are the Go types that integer stores.
type integers interface{ ~int | ~int32 | ~int64 }

func integer[T integers](name string, to *T, lo, hi int64) rule {
	s := schema{"type": "integer", "minimum": lo, "maximum": hi}
	return rule{name: name, schema: s, set: func(path string, raw json.RawMessage) *Error {
		if kindOf(raw) != "a number" {
			return mismatch(path, "an integer", raw)
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(raw)), 10, 64)
		if err != nil && !isRange(err) {
			return Invalid(path, "must be an integer, not %s", clip(raw))
		}
		if err != nil || n < lo || n > hi {
			return Invalid(path, "%s is not between %d and %d", clip(raw), lo, hi)
		}
		*to = T(n)
		return nil
	}}
}

func integerOrNil(name string, to **int, lo, hi int64) rule {
	v := new(int)
	return stored(integer(name, v, lo, hi), func() { *to = v })
}

func number(name string, to *float64, lo, hi float64) rule {
	s := schema{"type": "number", "minimum": lo, "maximum": hi}
	return rule{name: name, schema: s, set: func(path string, raw json.RawMessage) *Error {
		if kindOf(raw) != "a number" {
			return mismatch(path, "a number", raw)
		}
		f, err := strconv.ParseFloat(string(bytes.TrimSpace(raw)), 64)
		if err != nil || math.IsInf(f, 0) || f < lo || f > hi {
			return Invalid(path, "%s is not between %v and %v", clip(raw), lo, hi)
		}
		*to = f
		return nil
	}}
}

func numberOrNil(name string, to **float64, lo, hi float64) rule {
	v := new(float64)
	return stored(number(name, v, lo, hi), func() { *to = v })
}

// list checks every element of an array of at most limit elements.
func list(path string, raw json.RawMessage, limit int, each setter) *Error {
	var elems []json.RawMessage
	if kindOf(raw) != "an array" || json.Unmarshal(raw, &elems) != nil {
		return mismatch(path, "an array", raw)
	}
	if len(elems) > limit {
		return Invalid(path, "%d elements, at most %d", len(elems), limit)
	}
	for i, e := range elems {
		if err := each(fmt.Sprintf("%s[%d]", path, i), e); err != nil {
			return err
		}
	}
	return nil
}

// accept lets the given JSON values through without effect, because they ask
// for what happens anyway; any other is unsupported.
func accept(name string, values ...string) rule {
	return rule{name: name, schema: schema{"description": "only the neutral value is supported"},
		set: func(path string, raw json.RawMessage) *Error {
			var b bytes.Buffer
			if json.Compact(&b, raw) == nil && slices.Contains(values, b.String()) {
				return nil
			}
			if len(values) == 0 {
				return NotSupported(path, "is not supported")
			}
			return NotSupported(path, "%s is not supported", clip(raw))
		}}
}

// neutral lets any value through without effect: the frozen list of fields
// that SDKs send and that ask nothing of a local model.
func neutral(name string) rule {
	return rule{name: name, schema: schema{"description": "accepted without effect"},
		set: func(string, json.RawMessage) *Error { return nil }}
}

func isRange(err error) bool {
	n, ok := err.(*strconv.NumError)
	return ok && n.Err == strconv.ErrRange
}

// clip shortens a value for a message.
func clip(raw json.RawMessage) string {
	s := string(bytes.TrimSpace(raw))
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}
