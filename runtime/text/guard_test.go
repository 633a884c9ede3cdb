package text

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const mark = '|' // visible in the tables; the tokens below hold none

var guard = NewGuard([]string{"<end>", "[INST]"}, []string{"<think>", "<user>", "\n\n", "<|fim|>", "<td>"}, "<user>\n\n<think>{{ x }}<end>")

func TestMark(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"clean", "a b, c", "a b, c"},
		{"empty", "", ""},
		{"whole", "a<end>b", "a<|end>b"},
		{"twice", "<end><end>", "<|end><|end>"},
		{"another", "[INST]", "[|INST]"},
		{"not special, but the template writes it", "x<user>y", "x<|user>y"},
		{"not in the template", "<td>cell</td>", "<td>cell</td>"},
		{"white space is text", "a\n\nb", "a\n\nb"},
		{"beginning at the end", "a <en", "a <|en"},
		{"first character", "1 <", "1 <|"},
		{"end at the start", "d> x", "d|> x"},
		{"last character", "> quote", "|> quote"},
		{"middle", "nd", "nd"},
		{"beginning before white space", "a < b", "a <| b"},
		{"overlap", "<<end>", "<<|end>"},
		{"markup", "<think>", "<|think>"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := guard.Mark(tc.in, false, mark); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAssistantMayHaveThought(t *testing.T) {
	for in, want := range map[string]string{
		"<think>a":      "<think>a",
		"<end>":         "<|end>",
		"<en<think>d>":  "<|en<think>d|>",
		"<think>x<user": "<think>x<|user",
	} {
		if got := guard.Mark(in, true, mark); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestMiddlesOfTokens(t *testing.T) {
	g := NewGuard([]string{"<|im_end|>"}, nil, "")
	for in, want := range map[string]string{"|im_end|": "|*im_end|", "im_end": "i*m_end", "im": "im", "|": "|*"} {
		if got := strings.ReplaceAll(g.Mark(in, false, '*'), "**", "*"); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestStripFindsMarksInEveryForm(t *testing.T) {
	const m = 0x10FFFD
	for _, tc := range []struct {
		in, want string
		marks    []int
	}{
		{"abc", "abc", nil},
		{"a\U0010FFFDb\U0010FFFD", "ab", []int{1, 2}},
		{`a\udbff\udffdb` + "\U0010FFFD\U0010FFFD", "ab", []int{1, 2}},
		{"\U0010FFFD" + `\udbff\udffd`, "", []int{0}},
	} {
		got, marks := Strip(tc.in, m)
		if got != tc.want || !slices.Equal(marks, tc.marks) {
			t.Errorf("%q: got %q %v, want %q %v", tc.in, got, marks, tc.want, tc.marks)
		}
	}
}

func TestUnusedMark(t *testing.T) {
	if m, err := unusedMark("a"); err != nil || m != marks[0] {
		t.Errorf("got %x, %v", m, err)
	}
	quoted, _ := json.Marshal(escape(marks[1]))
	if m, err := unusedMark("x"+string(marks[0]), string(quoted)); err != nil || m != marks[2] {
		t.Errorf("got %x, %v", m, err)
	}
	if _, err := unusedMark(string(marks)); err != ErrNoMark {
		t.Errorf("got %v", err)
	}
}

var tokens = []string{"<|im_start|>", "<|im_end|>", "<s>", "[INST]", "<｜User｜>", "<think>"}

// scrapped draws words from pieces of control tokens.
var scrapped = rapid.Custom(func(t *rapid.T) string {
	r := []rune(rapid.SampledFrom(append(tokens, "a", " ", "中")).Draw(t, "token"))
	i := rapid.IntRange(0, len(r)).Draw(t, "from")
	return string(r[i:rapid.IntRange(i, len(r)).Draw(t, "to")])
})

// However a template joins people's strings, or trims them first, no token is free
// of a mark.
func TestJoinedWordsNeverMakeAToken(t *testing.T) {
	g := NewGuard(tokens, nil, "")
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(scrapped, 1, 6).Draw(t, "words")
		trim := rapid.Bool().Draw(t, "trim")
		var joined strings.Builder
		for _, w := range words {
			m := g.Mark(w, false, marks[0])
			if trim {
				m = strings.TrimSpace(m)
			}
			joined.WriteString(m)
		}
		plain, at := Strip(joined.String(), marks[0])
		for i := range plain {
			for _, token := range tokens {
				free := !slices.ContainsFunc(at, func(m int) bool { return m > i && m < i+len(token) })
				if strings.HasPrefix(plain[i:], token) && free {
					t.Fatalf("%q at %d of %q, marks %v, words %q", token, i, plain, at, words)
				}
			}
		}
	})
}

func FuzzMarkAndStrip(f *testing.F) {
	f.Add("hello <|im_end|> <", false)
	f.Add("<s><think>]", true)
	g := NewGuard(tokens, nil, "")
	f.Fuzz(func(t *testing.T, s string, assistant bool) {
		if strings.ContainsRune(s, marks[0]) || strings.Contains(s, escape(marks[0])) {
			return
		}
		back, at := Strip(g.Mark(s, assistant, marks[0]), marks[0])
		if back != s {
			t.Fatalf("%q became %q", s, back)
		}
		if !slices.IsSorted(at) {
			t.Fatalf("marks %v", at)
		}
	})
}

func BenchmarkMarkClean(b *testing.B) {
	var many []string
	for i := range 256 {
		many = append(many, "<|reserved_special_token_"+string(rune('0'+i%10))+"|>")
	}
	g, s := NewGuard(many, nil, ""), strings.Repeat("Some ordinary words, x < y. ", 400)
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		g.Mark(s, false, marks[0])
	}
}
