package text

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"ingot/runtime/turn"
)

// Config is what a model's folder says about its text.
type Config struct {
	TokenizerJSON []byte            // the content of tokenizer.json
	Templates     map[string]string // sources by name; the usual one is "default"
	Special       map[string]string // "bos_token" and the like to their spelling
	StopIDs       []turn.TokenID    // ids that end an answer, from generation_config.json, else config.json
}

// special token names that a tokenizer_config.json may set and templates may read.
var specialNames = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

// ReadConfig reads a model's folder: tokenizer.json must be there, all else may be
// missing. Templates are looked for as transformers does it: chat_template.jinja and
// additional_chat_templates/NAME.jinja before tokenizer_config.json (a string, or a
// list of named ones), then chat_template.json.
func ReadConfig(folder fs.FS) (*Config, error) {
	c := &Config{Templates: map[string]string{}, Special: map[string]string{}}
	var err error
	if c.TokenizerJSON, err = fs.ReadFile(folder, "tokenizer.json"); err != nil {
		return nil, fmt.Errorf("read tokenizer: %w", err)
	}
	for _, read := range []func(fs.FS) error{c.readJinja, c.readTokenizerConfig, c.readSpecialMap, c.readTemplateJSON, c.readStops} {
		if err := read(folder); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Stops are the ids that end an answer: StopIDs, and the eos token, which some
// folders name in tokenizer_config.json alone. find looks up a token by its spelling.
func (c *Config) Stops(find func(token string) (turn.TokenID, bool)) []turn.TokenID {
	stops := slices.Clone(c.StopIDs)
	if id, ok := find(c.Special["eos_token"]); ok && !slices.Contains(stops, id) {
		stops = append(stops, id)
	}
	return stops
}

func (c *Config) readJinja(folder fs.FS) error {
	if b, err := fs.ReadFile(folder, "chat_template.jinja"); err == nil {
		c.Templates["default"] = string(b)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read chat template: %w", err)
	}
	more, err := fs.Glob(folder, "additional_chat_templates/*.jinja")
	if err != nil {
		return fmt.Errorf("list chat templates: %w", err)
	}
	for _, file := range more {
		b, err := fs.ReadFile(folder, file)
		if err != nil {
			return fmt.Errorf("read chat template: %w", err)
		}
		c.Templates[strings.TrimSuffix(path.Base(file), ".jinja")] = string(b)
	}
	return nil
}

func (c *Config) readTokenizerConfig(folder fs.FS) error {
	var raw map[string]json.RawMessage
	if err := readJSON(folder, "tokenizer_config.json", &raw); err != nil {
		return err
	}
	c.readSpecial(raw)
	if len(c.Templates) > 0 || raw["chat_template"] == nil {
		return nil
	}
	return c.addTemplates("tokenizer_config.json", raw["chat_template"])
}

// addTemplates takes a string or a list of {name, template}.
func (c *Config) addTemplates(file string, raw json.RawMessage) error {
	var one *string
	if json.Unmarshal(raw, &one) == nil {
		if one != nil {
			c.Templates["default"] = *one
		}
		return nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &named); err != nil {
		return fmt.Errorf("%s: chat_template: neither a string nor a list of named templates", file)
	}
	for _, t := range named {
		c.Templates[t.Name] = t.Template
	}
	return nil
}

// readSpecial takes the spellings of special tokens, given as strings or as
// {"content": ...}. What is set already stays.
func (c *Config) readSpecial(raw map[string]json.RawMessage) {
	for _, name := range specialNames {
		var text string
		var token struct{ Content string }
		if json.Unmarshal(raw[name], &text) != nil && json.Unmarshal(raw[name], &token) == nil {
			text = token.Content
		}
		if _, set := c.Special[name]; !set && text != "" {
			c.Special[name] = text
		}
	}
}

func (c *Config) readSpecialMap(folder fs.FS) error {
	var raw map[string]json.RawMessage
	err := readJSON(folder, "special_tokens_map.json", &raw)
	c.readSpecial(raw)
	return err
}

func (c *Config) readTemplateJSON(folder fs.FS) error {
	if len(c.Templates) > 0 {
		return nil
	}
	var raw map[string]json.RawMessage
	if err := readJSON(folder, "chat_template.json", &raw); err != nil || raw["chat_template"] == nil {
		return err
	}
	return c.addTemplates("chat_template.json", raw["chat_template"])
}

func (c *Config) readStops(folder fs.FS) error {
	for _, file := range []string{"generation_config.json", "config.json"} {
		var raw struct {
			EOS json.RawMessage `json:"eos_token_id"`
		}
		if err := readJSON(folder, file, &raw); err != nil {
			return err
		}
		if ids, err := idList(raw.EOS); err != nil {
			return fmt.Errorf("%s: eos_token_id: %w", file, err)
		} else if len(ids) > 0 {
			c.StopIDs = ids
			return nil
		}
	}
	return nil
}

// idList takes an id, a list of ids, or nothing.
func idList(raw json.RawMessage) (ids []turn.TokenID, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var one turn.TokenID
	if json.Unmarshal(raw, &one) == nil {
		return []turn.TokenID{one}, nil
	}
	if err := json.Unmarshal(raw, &ids); err != nil {
		return nil, errors.New("neither an id nor a list of ids")
	}
	return ids, nil
}

// readJSON reads a file that may be missing.
func readJSON(folder fs.FS, name string, to any) error {
	b, err := fs.ReadFile(folder, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}
