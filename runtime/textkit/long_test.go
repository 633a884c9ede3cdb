package textkit

import (
	"strings"
	"testing"
	"time"
)

// Texts that split badly must neither end in an error nor take for ever: a prompt may
// have megabytes.
func TestLongTextsWithoutWords(t *testing.T) {
	for _, name := range []string{"llama3_1", "qwen3", "smollm2"} {
		tok := openReal(t, name)
		for kind, text := range map[string]string{
			"spaces":   strings.Repeat(" ", 1<<18) + "x",
			"newlines": strings.Repeat("\n", 1<<18),
			"mixed":    strings.Repeat(" \t\r\n", 1<<16),
			"letters":  strings.Repeat("a", 1<<18),
			"signs":    strings.Repeat("<|", 1<<17),
			"han":      strings.Repeat("中", 1<<16),
			"joined":   strings.Repeat("e\u0301", 1<<16),
			"digits":   strings.Repeat("7", 1<<18),
		} {
			start := time.Now()
			ids, err := tok.Encode(text, EncodeOptions{})
			if err != nil {
				t.Errorf("%s, %s: %v", name, kind, err)
				continue
			}
			took := time.Since(start)
			back, err := tok.Decode(ids, false)
			if name != "qwen3" && (err != nil || back != text) { // qwen3 normalizes
				t.Errorf("%s, %s: comes back differently (%v)", name, kind, err)
			}
			t.Logf("%s, %s: %d ids in %v", name, kind, len(ids), took.Round(time.Millisecond))
			if took > 20*time.Second {
				t.Errorf("%s, %s: took %v", name, kind, took)
			}
		}
	}
}
