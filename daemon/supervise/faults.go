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
	left int // -1: as often as the runner's own count says
}

// NewFaults reads the text of INGOT_FAULTS: faults separated by ";". Their
// language is the runner's; here only their number matters.
func NewFaults(text string) *Faults {
	f := &Faults{fired: map[string]int{}}
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part != "" {
			f.items = append(f.items, fault{text: part, left: -1})
		}
	}
	return f
}

// Fired notes that a fault fired and may fire so often again.
func (f *Faults) Fired(name string, left int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fired[name]++
	for i := range f.items {
		if f.items[i].text == name {
			f.items[i].left = left
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
