package ipc

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the generated parts of docs/protocol.md")

const protocolPage = "../docs/protocol.md"

// section replaces what stands between a mark and the next end.
func section(t *testing.T, page, mark, body string) string {
	t.Helper()
	before, rest, ok := strings.Cut(page, "<!-- "+mark+":")
	head, rest, ok2 := strings.Cut(rest, "-->\n")
	_, after, ok3 := strings.Cut(rest, "<!-- end -->")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("%s has no section %q", protocolPage, mark)
	}
	return before + "<!-- " + mark + ":" + head + "-->\n" + body + "<!-- end -->" + after
}

func errorTable() string {
	var b strings.Builder
	b.WriteString("| name | JSON-RPC | HTTP | data | means |\n| --- | --- | --- | --- | --- |\n")
	for _, r := range Table {
		fmt.Fprintf(&b, "| `%s` | %d | %d | %s | %s |\n", r.Name, r.Code, r.HTTP, r.Data, r.Means)
	}
	return b.String()
}

func methodTable() string {
	var b strings.Builder
	b.WriteString("| method | params | result | does |\n| --- | --- | --- | --- |\n")
	for _, m := range Methods {
		required, optional := m.Names()
		for i, o := range optional {
			optional[i] = o + "?"
		}
		params := strings.Join(append(required, optional...), ", ")
		if m.Name == ChatCreate || m.Name == CompletionCreate {
			params = strings.Join(required, ", ") + ", model?, and the parameters below"
		}
		result := strings.Join(fields(m.Result), ", ")
		if m.Name == RPCDiscover {
			result = "an OpenRPC document"
		}
		if m.Stream != nil {
			result += "; streamed: " + strings.Join(fields(m.Stream), ", ")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, params, result, m.Summary)
	}
	return b.String()
}

// The page and the code say the same.
func TestProtocolPage(t *testing.T) {
	raw, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	want := section(t, section(t, string(raw), "errors", errorTable()), "methods", methodTable())
	if want == string(raw) {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date: run go test ./ipc -update", protocolPage)
	}
	if err := os.WriteFile(protocolPage, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every parameter that is documented is read, and the other way round.
func TestProtocolPageNamesEveryParameter(t *testing.T) {
	raw, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []Params{new(ChatRequest), new(CompletionRequest)} {
		for _, r := range p.rules() {
			if r.schema["description"] == "only the neutral value is supported" || r.name == "stream_options" {
				continue
			}
			if !strings.Contains(string(raw), r.name) {
				t.Errorf("%s does not mention %q", protocolPage, r.name)
			}
		}
	}
}

func TestDiscoverIsADocumentOfEveryMethod(t *testing.T) {
	raw, err := json.Marshal(Discover())
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		OpenRPC string
		Methods []struct {
			Name   string
			Params []struct {
				Name     string
				Required bool
				Schema   map[string]any
			}
			Result struct{ Schema map[string]any }
		}
		Components struct{ Errors map[string]any }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Methods) != len(Methods) || len(doc.Components.Errors) != len(Table) || doc.OpenRPC == "" {
		t.Fatalf("%s", raw)
	}
	for _, m := range doc.Methods {
		if m.Result.Schema == nil {
			t.Errorf("%s has no result", m.Name)
		}
		for _, p := range m.Params {
			if p.Schema == nil {
				t.Errorf("%s.%s has no schema", m.Name, p.Name)
			}
		}
	}
}
