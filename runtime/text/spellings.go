package text

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// spellings finds control tokens and scraps of them in text.
type spellings struct {
	heads [256][]string   // tokens by first byte
	tails [256]bool       // last bytes of tokens
	pre   map[string]bool // proper beginnings that hold more than letters and digits
	post  map[string]bool // proper ends likewise
	inner []string        // what is left of tokens less the first character, the next, ... and the last one; sorted
	long  int             // bytes of the longest token
}

func newSpellings(tokens []string) *spellings {
	s := &spellings{pre: map[string]bool{}, post: map[string]bool{}}
	for _, t := range tokens {
		if utf8.RuneCountInString(t) < 2 || !utf8.ValidString(t) {
			continue // no room for a mark inside
		}
		s.heads[t[0]] = append(s.heads[t[0]], t)
		s.tails[t[len(t)-1]] = true
		s.long = max(s.long, len(t))
		for i := range t {
			if i > 0 {
				note(s.pre, t[:i])
				note(s.post, t[i:])
				s.inner = append(s.inner, t[i:len(t)-lastLen(t)])
			}
		}
	}
	slices.Sort(s.inner)
	return s
}

func note(set map[string]bool, scrap string) {
	if telling(scrap) {
		set[scrap] = true
	}
}

// telling reports that a scrap has a character that ordinary words lack: else every
// word that ends like a token begins would be marked.
func telling(scrap string) bool {
	return strings.IndexFunc(scrap, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) >= 0
}

// inside adds a place in each whole token of text: after its first character.
func (s *spellings) inside(text string, set map[int]bool) {
	for i := range len(text) {
		for _, t := range s.heads[text[i]] {
			if strings.HasPrefix(text[i:], t) {
				set[i+firstLen(t)] = true
				break
			}
		}
	}
}

// scraps adds a place in each beginning of a token at the end of a part, in each
// end of one at its start, and in a part that is the middle of one. at is where the
// part begins.
func (s *spellings) scraps(p string, at int, set map[int]bool) {
	for i := max(0, len(p)-s.long); i < len(p); i++ {
		if s.heads[p[i]] != nil && s.pre[p[i:]] {
			set[at+i+firstLen(p[i:])] = true
		}
	}
	for i := 1; i <= min(len(p), s.long); i++ {
		if s.tails[p[i-1]] && s.post[p[:i]] {
			set[at+i-lastLen(p[:i])] = true
		}
	}
	if len(p) < s.long && telling(p) && s.middle(p) {
		set[at+firstLen(p)] = true
	}
}

// middle reports that p stands inside a token, at neither end.
func (s *spellings) middle(p string) bool {
	i, _ := slices.BinarySearch(s.inner, p)
	return i < len(s.inner) && strings.HasPrefix(s.inner[i], p)
}

func firstLen(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}

func lastLen(s string) int {
	_, n := utf8.DecodeLastRuneInString(s)
	return n
}

// marks are candidates for the mark: characters of private use that no normalizer,
// trim or case change touches.
var marks = []rune{0x10FFFD, 0x10FFFC, 0x10FFFB, 0x10FFFA, 0x10FFF9, 0x10FFF8, 0x10FFF7, 0x10FFF6}

// unusedMark returns a mark that the texts hold in no form: as a character, as an
// escape, or as an escape quoted in JSON.
func unusedMark(texts ...string) (rune, error) {
	for _, m := range marks {
		escaped := escape(m)
		if !holds(texts, string(m)) && !holds(texts, escaped) && !holds(texts, strings.ReplaceAll(escaped, `\`, `\\`)) {
			return m, nil
		}
	}
	return 0, ErrNoMark
}

func holds(texts []string, s string) bool {
	for _, t := range texts {
		if strings.Contains(t, s) {
			return true
		}
	}
	return false
}

// escape is a character as JSON escapes it, the way tojson writes it with
// ensure_ascii.
func escape(r rune) string {
	hi, lo := utf16.EncodeRune(r)
	return fmt.Sprintf(`\u%04x\u%04x`, hi, lo)
}
