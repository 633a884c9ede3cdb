package textkit

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// noon is the time that the reference renders were made at.
var noon = time.Date(2024, 7, 26, 12, 0, 0, 0, time.UTC)

// escaped are the renders that differ from the reference: there Jinja's |safe turns
// on HTML escaping for what is added to it, which the template's author can't have
// meant.
var escaped = map[string][]string{
	"meetkai-functionary-medium-v3.1.jinja": {
		"args_string", "parallel_calls", "reason_tool", "tool_call_noargs", "tool_call_result", "tools_first", "tools_nosys",
	},
}

// lenient counts, per template, the chats that the reference refuses and we render:
// templates that iterate over tools without asking whether there are any, or print
// an iterator as JSON.
var lenient = map[string]int{
	"CohereForAI-c4ai-command-r-plus-tool_use.jinja":      11,
	"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja": 11,
	"NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja":   11,
	"llama-cpp-deepseek-r1.jinja":                         7,
}

// verdicts sorts the renders of all chats by one template.
type verdicts struct {
	same, refused, lenient int
	differ                 []string
}

func TestRendersAsReference(t *testing.T) {
	want := golden[map[string]map[string]string](t, "jinja_hashes.json.gz")
	chats := golden[map[string]conversation](t, "convs.json.gz")
	files, _ := filepath.Glob(filepath.Join(deps, "templates", "*.jinja"))
	if len(files) != len(want) {
		t.Fatalf("%d templates, want %d: run `make fixtures` first", len(files), len(want))
	}
	same, refused := 0, 0
	for _, file := range files {
		name := filepath.Base(file)
		v := renderAll(t, name, chats, want[name])
		same, refused = same+v.same, refused+v.refused
		if !slices.Equal(v.differ, escaped[name]) {
			t.Errorf("%s: %v differ, want %v", name, v.differ, escaped[name])
		}
		if v.lenient != lenient[name] {
			t.Errorf("%s: %d renders that the reference refuses, want %d", name, v.lenient, lenient[name])
		}
	}
	if t.Logf("%d identical, %d refused by both", same, refused); same != 1144 || refused != 139 {
		t.Error("want 1144 and 139")
	}
}

func renderAll(t *testing.T, name string, chats map[string]conversation, want map[string]string) (v verdicts) {
	tpl, err := CompileTemplate(string(fixture(t, "templates", name)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer tpl.Close()
	for _, chat := range slices.Sorted(maps.Keys(chats)) {
		text, err := tpl.Render(chats[chat], noon)
		switch refused := want[chat] == "ERR"; {
		case err != nil && refused:
			v.refused++
		case refused:
			v.lenient++
		case err == nil && short(text) == want[chat]:
			v.same++
		default:
			v.differ = append(v.differ, chat)
		}
	}
	return v
}
