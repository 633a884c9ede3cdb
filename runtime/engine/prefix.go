package engine

import (
	"slices"

	"ingot/runtime/kv"
	"ingot/runtime/mlx"
	"ingot/runtime/step"
	"ingot/runtime/turn"
)

const (
	defaultEntries = 6
	worthReuse     = 16 // tokens; less is computed again as fast
)

// sequence is tokens with what the model remembers of them.
type sequence struct {
	kv     *kv.Sequence
	mark   *kv.Mark       // near the end of the prompt, where kv can't be trimmed; nil: none
	tokens []turn.TokenID // committed
	grid   int            // steps were laid on this grid of tokens; 0: on none
	onGrid int            // so many tokens, whole steps of the grid from the start
}

// offers returns how many of the tokens the sequence can give, at most want;
// on a grid only those computed on it.
func (q *sequence) offers(tokens []turn.TokenID, want, grid int) int {
	n := common(q.tokens, tokens[:want])
	if grid > 0 {
		if q.grid != grid {
			return 0
		}
		n = min(n, q.onGrid)
		n -= n % grid
	}
	switch {
	case n > 0 && q.kv.CanTrim(n):
		return n
	case grid == 0 && q.mark != nil && q.mark.Len() <= n && q.kv.CanReturn(q.mark):
		return q.mark.Len()
	}
	return 0
}

func common(a, b []turn.TokenID) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// cut forgets all but n tokens, which offers must have returned.
func (q *sequence) cut(n int) error {
	if err := q.goBack(n); err != nil {
		return err
	}
	q.tokens = q.tokens[:n]
	q.onGrid = min(q.onGrid, n)
	if q.mark != nil && q.mark.Len() > n {
		q.setMark(nil)
	}
	return nil
}

func (q *sequence) goBack(n int) error {
	if q.kv.CanTrim(n) {
		return q.kv.Trim(n)
	}
	return q.kv.Return(q.mark)
}

func (q *sequence) fork(s *mlx.Scope, n int) (*kv.Sequence, error) {
	if q.kv.CanTrim(n) {
		return q.kv.ForkAt(s, n)
	}
	return q.kv.ForkMark(s, q.mark)
}

func (q *sequence) setMark(m *kv.Mark) {
	q.mark.Free()
	q.mark = m
}

func (q *sequence) free() {
	q.setMark(nil)
	q.kv.Free()
}

// grew books a committed row.
func (q *sequence) grew(tokens []turn.TokenID, deterministic bool) {
	if deterministic && q.grid == len(tokens) && q.onGrid == len(q.tokens) {
		q.onGrid += len(tokens)
	}
	q.tokens = append(q.tokens, tokens...)
}

func (q *sequence) cost() step.Kept {
	buffers, bytes := q.mark.Cost()
	return step.Kept{Buffers: turn.Buffers(q.kv.Buffers() + buffers), Bytes: turn.Bytes(q.kv.Bytes() + bytes)}
}

// prefixes keeps the sequences of finished turns, the least recently used
// first, within bounds. Device thread, but for kept and count.
type prefixes struct {
	entries []*sequence
	costs   []step.Kept // of entries; handed out, so replaced and never changed
	most    int
	room    step.Kept // zero fields: no bound
}

func (p *prefixes) bounds(most int, room step.Kept) {
	p.most, p.room = most, room
	p.shrink()
}

func (p *prefixes) count() int { return len(p.entries) }

func (p *prefixes) kept() []step.Kept { return p.costs }

// best returns the entry that offers most, the last used of equals.
func (p *prefixes) best(tokens []turn.TokenID, want, grid int) (at, n int) {
	at = -1
	for i, q := range p.entries {
		if m := q.offers(tokens, want, grid); m > 0 && m >= n {
			at, n = i, m
		}
	}
	return at, n
}

// take moves an entry out.
func (p *prefixes) take(at int) *sequence {
	q := p.entries[at]
	p.remove(at)
	return q
}

// use marks an entry as the last used.
func (p *prefixes) use(at int) {
	q, c := p.entries[at], p.costs[at]
	p.remove(at)
	p.append(q, c)
}

// put keeps a sequence.
func (p *prefixes) put(q *sequence) {
	p.append(q, q.cost())
	p.shrink()
}

func (p *prefixes) append(q *sequence, c step.Kept) {
	p.entries = append(p.entries, q)
	p.costs = append(slices.Clone(p.costs), c)
}

func (p *prefixes) remove(at int) {
	p.entries = slices.Delete(p.entries, at, at+1)
	p.costs = slices.Delete(slices.Clone(p.costs), at, at+1)
}

// evict gives up the n least recently used.
func (p *prefixes) evict(n int) {
	for range min(n, len(p.entries)) {
		p.take(0).free()
	}
}

// shrink evicts until the bounds hold.
func (p *prefixes) shrink() {
	for len(p.entries) > 0 && p.beyond() {
		p.evict(1)
	}
}

func (p *prefixes) beyond() bool {
	var sum step.Kept
	for _, c := range p.costs {
		sum.Buffers += c.Buffers
		sum.Bytes += c.Bytes
	}
	return len(p.entries) > p.most ||
		p.room.Buffers > 0 && sum.Buffers > p.room.Buffers ||
		p.room.Bytes > 0 && sum.Bytes > p.room.Bytes
}
