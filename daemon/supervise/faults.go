package supervise

import (
	"maps"
	"strings"
	"sync"
)

// Faults are the faults of INGOT_FAULTS, counted over all runners: what has
// fired is not handed to the next one. Any goroutine may call.
type Faults struct {
	mu    sync.Mutex
	items []fault
	fired map[string]int
}

type fault struct {
	text string
	left int // how often it may fire yet; -1: it has not fired
}

// NewFaults reads the text of INGOT_FAULTS: faults separated by ";" or lines.
// Their language is the runner's; here only their number matters.
func NewFaults(text string) *Faults {
	f := &Faults{fired: map[string]int{}}
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		if part = strings.TrimSpace(part); part != "" {
			f.items = append(f.items, fault{text: part, left: -1})
		}
	}
	return f
}

// Fired notes that a fault fired. left is how often it may fire again, by
// the count of a runner that knows of no earlier ones.
func (f *Faults) Fired(name string, left int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fired[name]++
	for i := range f.items {
		switch it := &f.items[i]; {
		case it.text != name:
		case it.left < 0:
			it.left = left
		case it.left > 0:
			it.left--
		}
	}
}

// Text returns the faults that may still fire, for the next runner.
func (f *Faults) Text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var left []string
	for _, it := range f.items {
		if it.left != 0 {
			left = append(left, it.text)
		}
	}
	return strings.Join(left, ";")
}

// Count returns how often each fault has fired, by name.
func (f *Faults) Count() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.fired)
}
