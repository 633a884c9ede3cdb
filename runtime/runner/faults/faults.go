// Package faults is the text language of INGOT_FAULTS: faults that a test
// has a runner suffer on purpose, each at a known moment and counted, so that
// a test can prove that its fault fired.
//
// It owns the parsing, the counting and the wrapper that makes an engine
// suffer. A Set belongs to the scheduler's goroutine once its engine runs;
// Load comes before. It never fires what the text does not say.
//
// The text is a list separated by semicolons (or lines) of
//
//	throw malloc 500      the 500th allocation of the steps throws (the ledger's own throw)
//	throw eval 3          the 3rd step fails for want of buffers
//	throw bytes 3..5      the 3rd to 5th fail for want of memory
//	throw launch 4        the 4th is refused by the device as too wide
//	device step 6         the 6th fails as a lost device does: the process exits
//	kill token 12         SIGKILL, with the 12th sampled token not yet delivered
//	kill step 7           SIGKILL before the 7th step
//	stall step 5 10s      the 5th step takes so much longer
//	slow step 1..20 50ms  each of these does
//	fail load 2           the 2nd load of the model fails
//
// Steps, tokens and allocations are counted from the start of the process,
// loads over the life of the daemon. A range fires once for each number in
// it. Two faults that say the same are one.
package faults

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault is one line of the text.
type Fault struct {
	Name     string // the line: how it is reported
	verb     string
	what     string
	from, to int // numbers at which it fires, inclusive
	delay    time.Duration
	fired    int
}

// Set is a parsed text.
type Set struct {
	faults []*Fault
	report func(name string, left int)
}

// verbs are the words that may follow each verb.
var verbs = map[string][]string{
	"throw":  {"malloc", "eval", "bytes", "launch"},
	"device": {"step"},
	"kill":   {"token", "step"},
	"stall":  {"step"},
	"slow":   {"step"},
	"fail":   {"load"},
}

// Parse reads the text; the empty one is a Set without faults. report hears
// of each fault that fires and how often it may fire yet, before it does its
// harm.
func Parse(text string, report func(name string, left int)) (*Set, error) {
	s := &Set{report: report}
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		f, err := parse(words)
		if err != nil {
			return nil, fmt.Errorf("fault %q: %w", strings.TrimSpace(line), err)
		}
		f.Name = strings.TrimSpace(line)
		s.faults = append(s.faults, f)
	}
	return s, nil
}

func parse(words []string) (*Fault, error) {
	want := 3
	if words[0] == "stall" || words[0] == "slow" {
		want = 4
	}
	if len(words) != want {
		return nil, fmt.Errorf("%d words, want %d", len(words), want)
	}
	if !slices.Contains(verbs[words[0]], words[1]) {
		return nil, fmt.Errorf("%q can't %s %q", words[0], words[0], words[1])
	}
	f := &Fault{verb: words[0], what: words[1]}
	if err := f.span(words[2]); err != nil {
		return nil, err
	}
	if want == 4 {
		d, err := time.ParseDuration(words[3])
		if err != nil || d < 0 {
			return nil, fmt.Errorf("%q is no duration", words[3])
		}
		f.delay = d
	}
	return f, nil
}

func (f *Fault) span(word string) error {
	from, to, wide := strings.Cut(word, "..")
	if !wide {
		to = from
	}
	var err1, err2 error
	f.from, err1 = strconv.Atoi(from)
	f.to, err2 = strconv.Atoi(to)
	if err1 != nil || err2 != nil || f.from < 1 || f.to < f.from {
		return fmt.Errorf("%q is neither a number from 1 nor a range", word)
	}
	return nil
}

// Empty reports whether there is nothing to suffer.
func (s *Set) Empty() bool { return len(s.faults) == 0 }

// LoadError is a load that failed on purpose.
type LoadError struct{ Nth int }

func (e *LoadError) Error() string { return fmt.Sprintf("faults: load %d fails on purpose", e.Nth) }

// Load reports whether the nth load of the model must fail.
func (s *Set) Load(nth int) error {
	if s.hit("fail", "load", nth, nth) == nil {
		return nil
	}
	return &LoadError{Nth: nth}
}

// hit fires the first fault of a kind that a count, which went from lo to hi,
// has reached. nil: none.
func (s *Set) hit(verb, what string, lo, hi int) *Fault {
	for _, f := range s.faults {
		if f.verb == verb && f.what == what && !f.spent() && lo <= f.to && hi >= f.from {
			s.fire(f)
			return f
		}
	}
	return nil
}

func (s *Set) fire(f *Fault) {
	f.fired++
	s.report(f.Name, f.left())
}

// left is how often the fault may fire yet.
func (f *Fault) left() int { return f.to - f.from + 1 - f.fired }

func (f *Fault) spent() bool { return f.left() <= 0 }
