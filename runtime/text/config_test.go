package text

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"ingot/runtime/turn"
)

// folder makes a model's folder of files given as name, content.
func folder(files ...string) fstest.MapFS {
	m := fstest.MapFS{"tokenizer.json": {Data: []byte("{}")}}
	for i := 0; i < len(files); i += 2 {
		m[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return m
}

func TestTemplatesAreFound(t *testing.T) {
	const inConfig = `{"chat_template":"C"}`
	for _, tc := range []struct {
		name  string
		files []string
		want  map[string]string
	}{
		{"nowhere", nil, map[string]string{}},
		{"null", []string{"tokenizer_config.json", `{"chat_template":null}`}, map[string]string{}},
		{"string", []string{"tokenizer_config.json", inConfig}, map[string]string{"default": "C"}},
		{"named", []string{"tokenizer_config.json", `{"chat_template":[{"name":"default","template":"D"},{"name":"tool_use","template":"T"}]}`},
			map[string]string{"default": "D", "tool_use": "T"}},
		{"jinja wins", []string{"tokenizer_config.json", inConfig, "chat_template.jinja", "J"}, map[string]string{"default": "J"}},
		{"more jinja", []string{"chat_template.jinja", "J", "additional_chat_templates/tool_use.jinja", "T"}, map[string]string{"default": "J", "tool_use": "T"}},
		{"json", []string{"chat_template.json", `{"chat_template":"P"}`}, map[string]string{"default": "P"}},
		{"json is last", []string{"tokenizer_config.json", inConfig, "chat_template.json", `{"chat_template":"P"}`}, map[string]string{"default": "C"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := ReadConfig(folder(tc.files...))
			if err != nil || !maps.Equal(c.Templates, tc.want) {
				t.Errorf("got %v, %v; want %v", c, err, tc.want)
			}
		})
	}
}

func TestSpecialTokensAndStops(t *testing.T) {
	c, err := ReadConfig(folder(
		"tokenizer_config.json", `{"bos_token":{"content":"<s>","lstrip":false},"eos_token":"</s>","pad_token":null}`,
		"special_tokens_map.json", `{"eos_token":"<other>","unk_token":"<unk>"}`,
		"generation_config.json", `{"eos_token_id":[2,7]}`,
		"config.json", `{"eos_token_id":9}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}; !maps.Equal(c.Special, want) {
		t.Errorf("special %v", c.Special)
	}
	if !slices.Equal(c.StopIDs, []turn.TokenID{2, 7}) {
		t.Errorf("stops %v", c.StopIDs)
	}
	c, err = ReadConfig(folder("config.json", `{"eos_token_id":9}`, "generation_config.json", `{"eos_token_id":null}`))
	if err != nil || !slices.Equal(c.StopIDs, []turn.TokenID{9}) {
		t.Errorf("got %v, %v", c, err)
	}
}

func TestStops(t *testing.T) {
	find := func(s string) (turn.TokenID, bool) {
		id, ok := map[string]turn.TokenID{"</s>": 2, "<end>": 7}[s]
		return id, ok
	}
	for _, tc := range []struct {
		c    Config
		want []turn.TokenID
	}{
		{Config{}, nil},
		{Config{StopIDs: []turn.TokenID{7}}, []turn.TokenID{7}},
		{Config{StopIDs: []turn.TokenID{7}, Special: map[string]string{"eos_token": "<end>"}}, []turn.TokenID{7}},
		{Config{StopIDs: []turn.TokenID{7}, Special: map[string]string{"eos_token": "</s>"}}, []turn.TokenID{7, 2}},
		{Config{Special: map[string]string{"eos_token": "<lost>"}}, nil},
	} {
		if got := tc.c.Stops(find); !slices.Equal(got, tc.want) {
			t.Errorf("%+v: got %v, want %v", tc.c, got, tc.want)
		}
	}
}

func TestBrokenFoldersAreNamed(t *testing.T) {
	for _, tc := range []struct {
		fs   fs.FS
		want string
	}{
		{fstest.MapFS{}, "read tokenizer: open tokenizer.json: file does not exist"},
		{folder("tokenizer_config.json", "{"), "read tokenizer_config.json: unexpected end of JSON input"},
		{folder("tokenizer_config.json", `{"chat_template":5}`), "tokenizer_config.json: chat_template: neither a string nor a list of named templates"},
		{folder("chat_template.json", `[]`), "read chat_template.json: json: cannot unmarshal array"},
		{folder("special_tokens_map.json", `x`), "read special_tokens_map.json"},
		{folder("generation_config.json", `{"eos_token_id":"x"}`), "generation_config.json: eos_token_id: neither an id nor a list of ids"},
		{folder("config.json", `{"eos_token_id":[1.5]}`), "config.json: eos_token_id"},
	} {
		if _, err := ReadConfig(tc.fs); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("got %v, want %s", err, tc.want)
		}
	}
	if _, err := ReadConfig(fstest.MapFS{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
