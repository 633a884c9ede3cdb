package textkit

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Bounds that a hostile template may reach on a busy machine.
const (
	hostileTime   = 15 * time.Second
	hostileMemory = 800 << 20 // bytes of peak resident memory: two that are stopped keep theirs
)

// grown are templates too long to keep as files: repetition nests expressions as deep
// as the source allows. Some are odd but right, so they only have to end.
var grown = map[string]string{
	"parentheses": "{{ " + strings.Repeat("(", 60_000) + "1" + strings.Repeat(")", 60_000) + " }}",
	"minus":       "{{ " + strings.Repeat("- ", 120_000) + "1 }}",
	"not":         "{{ " + strings.Repeat("not ", 60_000) + "1 }}",
	"sum":         "{{ 1" + strings.Repeat("+1", 120_000) + " }}",
	"tilde":       "{{ 1" + strings.Repeat("~1", 120_000) + " }}",
	"filters":     "{{ 1" + strings.Repeat("|e", 120_000) + " }}",
	"attributes":  "{{ a" + strings.Repeat(".a", 120_000) + " }}",
	"calls":       "{{ a" + strings.Repeat("()", 120_000) + " }}",
	"ifs":         strings.Repeat("{% if 1 %}", 11_000) + strings.Repeat("{% endif %}", 11_000),
	"elifs":       "{% if 0 %}" + strings.Repeat("{% elif 0 %}", 20_000) + "{% endif %}",
	"lists":       "{{ " + strings.Repeat("[", 60_000) + strings.Repeat("]", 60_000) + " }}",
	"too long":    strings.Repeat("x", 300<<10),
	"unclosed":    "{% for i in",
	"bytes":       "\xff\xfe",
}

// sources lists every hostile template by name.
func sources(t *testing.T) map[string]string {
	out := map[string]string{}
	files, _ := filepath.Glob("testdata/hostile/*.jinja")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(file)] = string(b)
	}
	for name, src := range grown {
		out[name] = src
	}
	return out
}

func TestHostileTemplatesEndInAnError(t *testing.T) {
	// Linux counts the peak anew from here.
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	before := resident(t)
	for name, src := range sources(t) {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			err := try(src)
			if took := time.Since(start); took > hostileTime {
				t.Errorf("took %v", took)
			}
			if _, odd := grown[name]; err == nil && !odd {
				t.Error("ended without an error")
			} else if err != nil && (errors.Is(err, ErrInternal) || len(err.Error()) > 5_000) {
				t.Errorf("got %.200v", err)
			}
			t.Logf("%v: %.120v", time.Since(start).Round(time.Millisecond), err)
		})
	}
	peak := peakResident(t) - before
	t.Logf("at most %d MB more than before", peak>>20)
	if peak > hostileMemory {
		t.Error("that is too much")
	}
}

func try(src string) error {
	tpl, err := CompileTemplate(src)
	if err != nil {
		return err
	}
	defer tpl.Close()
	_, err = tpl.Render([]byte(`{"messages":[{"role":"user","content":"hi"}]}`), noon)
	return err
}

// peakResident is the most memory the process has held, in bytes.
func peakResident(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0 // not Linux
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	return 0
}
