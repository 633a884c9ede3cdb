package text

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxDepth bounds the nesting of a chat.
const maxDepth = 100

// node kinds of JSON. Objects keep the order of their keys: templates print them.
type value struct {
	kind   byte // '{', '[', '"' or 0 for a number, bool or null
	raw    string
	text   string
	items  []value
	fields []field
}

type field struct {
	key   string
	value value
}

var null = value{raw: "null"}

func str(s string) value { return value{kind: '"', text: s} }

func (v value) isNull() bool { return v.kind == 0 && v.raw == "null" }

// get finds a key of an object.
func (v value) get(key string) (value, bool) {
	for _, f := range v.fields {
		if f.key == key {
			return f.value, true
		}
	}
	return value{}, false
}

// set replaces the value of a key in its place, or appends it.
func (v *value) set(key string, to value) {
	for i := range v.fields {
		if v.fields[i].key == key {
			v.fields[i].value = to
			return
		}
	}
	v.fields = append(v.fields, field{key, to})
}

// parse reads one JSON value; of a repeated key the last value counts.
func parse(data []byte) (value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := read(d, 0)
	if err != nil {
		return value{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return value{}, errors.New("more than one value")
	}
	return v, nil
}

func read(d *json.Decoder, depth int) (value, error) {
	if depth > maxDepth {
		return value{}, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return value{}, err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			return readList(d, depth)
		}
		return readObject(d, depth)
	case string:
		return str(t), nil
	case json.Number:
		return value{raw: t.String()}, nil
	default:
		raw, err := json.Marshal(t)
		return value{raw: string(raw)}, err
	}
}

func readList(d *json.Decoder, depth int) (value, error) {
	v := value{kind: '['}
	for d.More() {
		item, err := read(d, depth+1)
		if err != nil {
			return value{}, err
		}
		v.items = append(v.items, item)
	}
	_, err := d.Token()
	return v, err
}

func readObject(d *json.Decoder, depth int) (value, error) {
	v := value{kind: '{'}
	seen := map[string]int{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return value{}, err
		}
		key, _ := t.(string)
		item, err := read(d, depth+1)
		if err != nil {
			return value{}, err
		}
		if i, again := seen[key]; again {
			v.fields[i].value = item
			continue
		}
		seen[key] = len(v.fields)
		v.fields = append(v.fields, field{key, item})
	}
	_, err := d.Token()
	return v, err
}

// write appends the value as JSON.
func (v value) write(b *bytes.Buffer) {
	switch v.kind {
	case '{':
		b.WriteByte('{')
		for i, f := range v.fields {
			if i > 0 {
				b.WriteByte(',')
			}
			quote(b, f.key)
			b.WriteByte(':')
			f.value.write(b)
		}
		b.WriteByte('}')
	case '[':
		b.WriteByte('[')
		for i, item := range v.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.write(b)
		}
		b.WriteByte(']')
	case '"':
		quote(b, v.text)
	default:
		b.WriteString(v.raw)
	}
}

// quote writes a string; the encoder's escaping for HTML is off, and its newline cut.
func quote(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string into memory
	b.Truncate(b.Len() - 1)
}

// strings maps every string and key of a value.
func (v value) strings(f func(string) string) value {
	switch v.kind {
	case '"':
		v.text = f(v.text)
	case '[':
		items := make([]value, len(v.items))
		for i, item := range v.items {
			items[i] = item.strings(f)
		}
		v.items = items
	case '{':
		fields := make([]field, len(v.fields))
		for i, m := range v.fields {
			fields[i] = field{f(m.key), m.value.strings(f)}
		}
		v.fields = fields
	}
	return v
}
