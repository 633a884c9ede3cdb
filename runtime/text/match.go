package text

import "slices"

// Matcher finds the first of several stop strings in text that comes in pieces. It
// gives text out as soon as it can't be part of a stop string any more. The match
// that is completed first wins; of those completed by the same byte, the longest.
// The zero Matcher looks for nothing. (Aho and Corasick, "Efficient string
// matching", 1975.)
type Matcher struct {
	nodes []node // nodes[0] is the root
	state int    // the longest tail of the text that begins a stop string
	held  []byte // that tail
	found int    // index of the stop string, from 1; 0: none yet
}

// node is a prefix of some stop string.
type node struct {
	next  map[byte]int
	fail  int // the longest proper tail of this prefix that is a prefix too
	depth int // length of the prefix
	stop  int // index from 1 of the longest stop string that ends here, 0 for none
	size  int // its length
}

// NewMatcher returns a matcher for stop strings; empty ones are ignored.
func NewMatcher(stops []string) *Matcher {
	m := &Matcher{nodes: []node{{next: map[byte]int{}}}}
	for i, s := range stops {
		if s != "" {
			m.add(s, i+1)
		}
	}
	m.link()
	return m
}

func (m *Matcher) add(s string, index int) {
	at := 0
	for i := range len(s) {
		next, ok := m.nodes[at].next[s[i]]
		if !ok {
			next = len(m.nodes)
			m.nodes = append(m.nodes, node{next: map[byte]int{}, depth: i + 1})
			m.nodes[at].next[s[i]] = next
		}
		at = next
	}
	if m.nodes[at].stop == 0 {
		m.nodes[at].stop, m.nodes[at].size = index, len(s)
	}
}

// link sets the failure links, breadth first, so that a node's are set before its
// children's.
func (m *Matcher) link() {
	for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
		parent := queue[0]
		for c, child := range m.nodes[parent].next {
			queue = append(queue, child)
			n := &m.nodes[child]
			if parent != 0 {
				n.fail = m.step(m.nodes[parent].fail, c)
			}
			if f := m.nodes[n.fail]; n.stop == 0 {
				n.stop, n.size = f.stop, f.size
			}
		}
	}
}

func (m *Matcher) step(at int, c byte) int {
	for {
		if next, ok := m.nodes[at].next[c]; ok {
			return next
		}
		if at == 0 {
			return 0
		}
		at = m.nodes[at].fail
	}
}

// Push takes the next piece and returns the text that is certain. After a match it
// returns what stood before it, and from then on nothing.
func (m *Matcher) Push(piece string) string {
	if m.found != 0 {
		return ""
	}
	if len(m.nodes) <= 1 {
		return piece
	}
	m.held = append(m.held, piece...)
	for i := range len(piece) {
		m.state = m.step(m.state, piece[i])
		if n := m.nodes[m.state]; n.stop != 0 {
			m.found = n.stop
			end := len(m.held) - len(piece) + i + 1
			out := string(m.held[:end-n.size])
			m.held = nil
			return out
		}
	}
	sure := len(m.held) - m.nodes[m.state].depth
	out := string(m.held[:sure])
	m.held = slices.Delete(m.held, 0, sure)
	return out
}

// Flush returns the tail that was held back: no stop string came of it.
func (m *Matcher) Flush() string {
	out := string(m.held)
	m.held, m.state = nil, 0
	return out
}

// Found is the index of the stop string that was met, -1 before.
func (m *Matcher) Found() int { return m.found - 1 }
