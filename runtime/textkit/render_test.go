package textkit

import (
	"path/filepath"
	"sort"
	"testing"
	"time"
)

// noon is the time that the reference renders were made at.
var noon = time.Date(2024, 7, 26, 12, 0, 0, 0, time.UTC)

func TestRendersAsReference(t *testing.T) {
	want := golden[map[string]map[string]string](t, "jinja_hashes.json.gz")
	chats := golden[map[string]conversation](t, "convs.json.gz")
	files, _ := filepath.Glob(filepath.Join(deps, "templates", "*.jinja"))
	if len(files) != len(want) {
		t.Fatalf("%d templates, want %d: run `make fixtures` first", len(files), len(want))
	}
	same, errs, differ := 0, 0, []string{}
	for _, file := range files {
		name := filepath.Base(file)
		tpl, err := CompileTemplate(string(fixture(t, "templates", name)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for chat, ctx := range chats {
			text, err := tpl.Render(ctx, noon)
			switch {
			case err != nil && want[name][chat] == "ERR":
				errs++
			case err == nil && short(text) == want[name][chat]:
				same++
			default:
				differ = append(differ, name+" "+chat)
				t.Logf("%s %s: err %v, want %s", name, chat, err, want[name][chat])
			}
		}
		tpl.Close()
	}
	sort.Strings(differ)
	t.Logf("%d identical, %d errors in both, %d differ: %v", same, errs, len(differ), differ)
}
