package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table of docs/configuration.md")

const page = "../../docs/configuration.md"

// Marks around the table that is made from the keys.
const tableFrom, tableTo = "<!-- keys -->\n", "<!-- end of keys -->\n"

// TestThePageListsEveryKey: the table in the documentation is made from keys.
func TestThePageListsEveryKey(t *testing.T) {
	body, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(body), tableFrom)
	_, tail, ok2 := strings.Cut(rest, tableTo)
	if !ok || !ok2 {
		t.Fatalf("%s has no %q ... %q", page, tableFrom, tableTo)
	}
	want := head + tableFrom + table() + tableTo + tail
	if string(body) == want {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date: run go test ./daemon/config -update", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func table() string {
	c := Default()
	var b strings.Builder
	b.WriteString("\n| key | for a model | may be | default |\n| --- | --- | --- | --- |\n")
	for _, k := range keys {
		model := ""
		if k.model != nil {
			model = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.name, model, k.allowed, spell(k.name, k.show(c, &c.Model)))
	}
	b.WriteString("\n")
	return b.String()
}

// spell writes a default as a person would say it.
func spell(key string, v any) string {
	switch v := v.(type) {
	case nil:
		return "the model's own"
	case Budget:
		return fmt.Sprintf("%.0f%%", 100*v.Share)
	case string:
		if v == "" {
			return "none"
		}
	}
	switch s := fmt.Sprint(v); {
	case key == "prefill_step":
		return "auto"
	case s == "0":
		return "the model's or the device's own"
	default:
		return s
	}
}
