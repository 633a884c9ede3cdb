package text

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Guard keeps people's words from becoming control tokens. Before a template is
// rendered, Mark puts a private mark inside each spelling of a control token in the
// strings that people gave, and inside each scrap of one at a place where the
// template might complete it; the template then works on text that differs from
// the original in nothing but marks. After rendering, Strip takes the marks out and
// tells where they were: there the tokenizer must not see a control token
// (textkit.Tokenizer.EncodeMarked). What the template writes itself has no marks.
//
// A Guard is immutable; any goroutine may use it.
type Guard struct {
	all   *spellings // of every control token
	firm  *spellings // less those that an assistant may have written: see markup
	loose []string   // those
}

// NewGuard returns the guard of a model: control are its special tokens, words its
// other added tokens, of which those count that the template writes or that look
// like control tokens.
func NewGuard(control, words []string, template string) *Guard {
	for _, w := range words {
		if strings.TrimSpace(w) != "" && (strings.Contains(template, w) || looksControl(w)) {
			control = append(control[:len(control):len(control)], w)
		}
	}
	g := &Guard{all: newSpellings(control)}
	var firm []string
	for _, c := range control {
		if markup(c) {
			g.loose = append(g.loose, c)
		} else {
			firm = append(firm, c)
		}
	}
	g.firm = newSpellings(firm)
	return g
}

// looksControl tells tokens such as <|fim_prefix|>, which some vocabularies do not
// call special.
func looksControl(w string) bool {
	return strings.HasPrefix(w, "<|") && strings.HasSuffix(w, "|>") ||
		strings.HasPrefix(w, "<｜") && strings.HasSuffix(w, "｜>")
}

// markup tells tokens that structure an answer rather than a chat. Clients send
// them back inside what the assistant said, and templates look for them there.
func markup(token string) bool {
	t := strings.ToLower(strings.ReplaceAll(token, "▁", "_"))
	return strings.Contains(t, "think") || strings.Contains(t, "tool_call")
}

// Mark returns s with mark put inside every control token and every scrap of one.
// assistant admits what an assistant may have written.
func (g *Guard) Mark(s string, assistant bool, mark rune) string {
	where := g.places(s, assistant)
	if len(where) == 0 {
		return s
	}
	var b strings.Builder
	done := 0
	for _, at := range where {
		b.WriteString(s[done:at])
		b.WriteRune(mark)
		done = at
	}
	b.WriteString(s[done:])
	return b.String()
}

// places lists where marks go, ascending, without repetition.
func (g *Guard) places(s string, assistant bool) []int {
	set := map[int]bool{}
	whole, cuts := g.all, []string(nil)
	if assistant {
		whole, cuts = g.firm, g.loose
	}
	whole.inside(s, set)
	for _, p := range parts(s, cuts) {
		g.all.scraps(s[p.start:p.end], p.start, set)
	}
	out := make([]int, 0, len(set))
	for at := range set {
		out = append(out, at)
	}
	sort.Ints(out)
	return out
}

// Strip takes the marks, plain or as tojson escapes them, out of rendered text and
// returns the byte offsets where they stood, ascending.
func Strip(s string, mark rune) (string, []int) {
	plain, escaped := string(mark), escape(mark)
	var b strings.Builder
	var marks []int
	for {
		at, n := strings.Index(s, plain), len(plain)
		if e := strings.Index(s, escaped); e >= 0 && (at < 0 || e < at) {
			at, n = e, len(escaped)
		}
		if at < 0 {
			break
		}
		b.WriteString(s[:at])
		if m := b.Len(); len(marks) == 0 || marks[len(marks)-1] != m {
			marks = append(marks, m)
		}
		s = s[at+n:]
	}
	if marks == nil {
		return s, nil
	}
	b.WriteString(s)
	return b.String(), marks
}

// part is a range of bytes.
type part struct{ start, end int }

// parts cuts s at white space and at the words given: templates trim the one and
// split at or remove the other, and what is left may then meet.
func parts(s string, words []string) []part {
	var out []part
	start := 0
	cut := func(at, n int) {
		if at > start {
			out = append(out, part{start, at})
		}
		start = at + n
	}
	for i := 0; i < len(s); {
		if w := prefixOf(s[i:], words); w > 0 {
			cut(i, w)
			i += w
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if unicode.IsSpace(r) {
			cut(i, n)
		}
		i += n
	}
	cut(len(s), 0)
	return out
}

// prefixOf is the length of the longest of words that s begins with.
func prefixOf(s string, words []string) (n int) {
	for _, w := range words {
		if len(w) > n && strings.HasPrefix(s, w) {
			n = len(w)
		}
	}
	return n
}
