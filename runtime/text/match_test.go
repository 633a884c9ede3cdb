package text

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// slowMatch is the rule in plain words: the stop string that ends first wins, the
// longest of those that end together.
func slowMatch(s string, stops []string) (before string, found bool) {
	for end := 1; end <= len(s); end++ {
		longest := 0
		for _, stop := range stops {
			if stop != "" && len(stop) > longest && strings.HasSuffix(s[:end], stop) {
				longest = len(stop)
			}
		}
		if longest > 0 {
			return s[:end-longest], true
		}
	}
	return s, false
}

// run pushes pieces and returns all that came out.
func run(m *Matcher, pieces ...string) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(m.Push(p))
	}
	if m.Found() < 0 {
		b.WriteString(m.Flush())
	}
	return b.String()
}

func TestMatcher(t *testing.T) {
	for _, tc := range []struct {
		name   string
		stops  []string
		pieces []string
		want   string
		found  int
	}{
		{"none", nil, []string{"abc", "", "def"}, "abcdef", -1},
		{"empty stop", []string{""}, []string{"abc"}, "abc", -1},
		{"whole", []string{"STOP"}, []string{"abSTOPcd"}, "ab", 0},
		{"across pieces", []string{"STOP"}, []string{"ab S", "T", "OP", "x"}, "ab ", 0},
		{"false start", []string{"STOP"}, []string{"STO", "STO", "P"}, "STO", 0},
		{"tail given back", []string{"STOP"}, []string{"abSTO"}, "abSTO", -1},
		{"overlap", []string{"aab"}, []string{"a", "a", "a", "b"}, "a", 0},
		{"first to end wins", []string{"abcd", "bc"}, []string{"abcd"}, "a", 1},
		{"longest of a common end", []string{"c", "abc", "bc"}, []string{"xabc"}, "x", 1},
		{"repeated stop", []string{"x", "x"}, []string{"ax"}, "a", 0},
		{"characters", []string{"。完"}, []string{"終わり", "。", "完"}, "終わり", 0},
		{"at once", []string{"a"}, []string{"a", "b"}, "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := NewMatcher(tc.stops)
			if got := run(m, tc.pieces...); got != tc.want || m.Found() != tc.found {
				t.Errorf("got %q, found %d; want %q, %d", got, m.Found(), tc.want, tc.found)
			}
		})
	}
}

func TestZeroMatcherLooksForNothing(t *testing.T) {
	var m Matcher
	if got := run(&m, "ab", "c"); got != "abc" || m.Found() != -1 {
		t.Errorf("got %q, found %d", got, m.Found())
	}
}

func TestMatcherHoldsBackNoMoreThanTheAmbiguousTail(t *testing.T) {
	m := NewMatcher([]string{"STOP"})
	for _, step := range [][2]string{{"hello", "hello"}, {" S", " "}, {"T", ""}, {"x", "STx"}, {"SSTO", "S"}, {"!", "STO!"}} {
		if got := m.Push(step[0]); got != step[1] {
			t.Errorf("after %q: got %q, want %q", step[0], got, step[1])
		}
	}
}

var (
	letters = rapid.StringOfN(rapid.RuneFrom([]rune("abé。")), 0, 12, -1)
	stops   = rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("abé。")), 0, 4, -1), 0, 4)
)

func TestAnyChunkingIsTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces, stops := rapid.SliceOf(letters).Draw(t, "pieces"), stops.Draw(t, "stops")
		m := NewMatcher(stops)
		got := run(m, pieces...)
		want, found := slowMatch(strings.Join(pieces, ""), stops)
		if got != want || found != (m.Found() >= 0) {
			t.Fatalf("got %q (%d), want %q (%v)", got, m.Found(), want, found)
		}
	})
}

func FuzzMatcher(f *testing.F) {
	f.Add("abSTOPcd", "STOP", "b", uint8(3))
	f.Add("aaab", "aab", "ab", uint8(1))
	f.Add("", "", "x", uint8(0))
	f.Fuzz(func(t *testing.T, s, stop1, stop2 string, cut uint8) {
		stops := []string{stop1, stop2}
		m := NewMatcher(stops)
		at := min(int(cut), len(s))
		got := run(m, s[:at], s[at:])
		if want, _ := slowMatch(s, stops); got != want {
			t.Fatalf("%q cut at %d, stops %q: got %q, want %q", s, at, stops, got, want)
		}
	})
}

func BenchmarkMatcher(b *testing.B) {
	m := NewMatcher([]string{"</answer>", "\n\nUser:", "STOP"})
	for b.Loop() {
		m.Push(" token")
	}
}
