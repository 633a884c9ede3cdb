package textkit

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"ingot/runtime/turn"
)

// deps is where `make fixtures` puts real tokenizers and templates.
const deps = "../../.deps/text"

// names of the real tokenizers, all in deps.
var names = []string{"claude", "deepseek_v3", "gemma3", "gptoss", "llama2", "llama3_1", "qwen3", "smollm2"}

// fixture reads a file that `make fixtures` fetches.
func fixture(t testing.TB, path ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{deps}, path...)...))
	if err != nil {
		t.Fatalf("run `make fixtures` first: %v", err)
	}
	return b
}

func openReal(t testing.TB, name string) *Tokenizer {
	t.Helper()
	tok, err := OpenTokenizer(fixture(t, "tokenizers", name, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tok.Close)
	return tok
}

// golden reads compressed JSON from testdata.
func golden[T any](t testing.TB, name string) (v T) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(z).Decode(&v)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// corpusText is one hard text of the corpus.
type corpusText struct{ Name, Text string }

func corpus(t testing.TB) []corpusText { return golden[[]corpusText](t, "corpus.json.gz") }

// short is the form of the golden hashes: 16 hex digits of a sha256.
func short(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// pyString is Python's json.dumps of a string.
func pyString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case strings.ContainsRune("\b\f\n\r\t", r):
			b.WriteByte('\\')
			b.WriteByte("btn-fr"[r-'\b'])
		case r < ' ' || r > '~' && r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		case r >= 0x10000:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// pyIDs is Python's json.dumps of a list of numbers.
func pyIDs(ids []turn.TokenID) string {
	return strings.ReplaceAll(fmt.Sprint(ids), " ", ", ")
}
