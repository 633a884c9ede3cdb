package sample

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sync"

	"ingot/runtime/turn"
)

// candidate is a token that may still be drawn.
type candidate struct {
	token  int32
	logit  float32
	weight float64 // its probability over that of the likeliest
}

// better orders candidates: likelier first, then the lower index.
func better(a, b candidate) int {
	if a.logit != b.logit {
		return cmp.Compare(b.logit, a.logit)
	}
	return cmp.Compare(a.token, b.token)
}

// draw is temperature and everything behind it.
func (s *Sampler) draw(w *workspace, logits []float32, top float32, u float64) turn.TokenID {
	sc := scale{top: float64(top), by: min(1/s.p.Temperature, coldest)}
	k, p, floor := s.p.TopK, s.p.TopP, s.p.MinP
	var cs []candidate
	switch {
	case k > 0 && k < len(logits):
		cs = w.topK(logits, sc, k)
		if p < 1 {
			cs = topP(cs, p*total(cs))
		}
	case p < 1:
		cs = w.nucleus(logits, sc, p)
	case floor > 0:
		cs = w.above(logits, sc, floor)
	default:
		return w.drawAll(logits, sc, u)
	}
	return pickOne(minP(cs, floor), u)
}

// topP keeps the fewest likeliest candidates, in order, that hold the wanted
// weight.
func topP(cs []candidate, want float64) []candidate {
	sum := 0.0
	for i, c := range cs {
		if sum += c.weight; sum >= want {
			return cs[:i+1]
		}
	}
	return cs
}

// minP keeps the candidates, in order, that are at least p times as likely as
// the likeliest.
func minP(cs []candidate, p float64) []candidate {
	for i, c := range cs {
		if c.weight < p && i > 0 {
			return cs[:i]
		}
	}
	return cs
}

// pickOne is the candidate under the point u of their weights.
func pickOne(cs []candidate, u float64) turn.TokenID {
	at, sum := u*total(cs), 0.0
	last := cs[0]
	for _, c := range cs {
		if c.weight == 0 {
			continue
		}
		last = c
		if sum += c.weight; sum > at {
			break
		}
	}
	return turn.TokenID(last.token)
}

func total(cs []candidate) (sum float64) {
	for _, c := range cs {
		sum += c.weight
	}
	return sum
}

// scale turns logits into weights: exp((logit - top) / temperature).
type scale struct{ top, by float64 }

// dist is how far below the top a logit is, in units of e; at most 0.
func (s scale) dist(v float32) float64 { return float64((float64(v) - s.top) * s.by) }

func (s scale) weight(v float32) float64 {
	if x := s.dist(v); x >= negligible {
		return exp(x)
	}
	return 0
}

const (
	block      = 256 // logits summed together
	leastShare = 100 // blocks worth a goroutine
	binsPer    = 32  // bins of the histogram per unit of e
	bins       = -negligible*binsPer + 1
	fewBest    = 256  // up to so many are kept in a heap
	coldest    = 1e30 // one over the least temperature
)

// workspace is memory for one Pick.
type workspace struct {
	edited []float32
	cs     []candidate
	sums   []float64
	count  [bins]int
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

func borrow() *workspace { return workspaces.Get().(*workspace) }

func (w *workspace) giveBack() { workspaces.Put(w) }

func (w *workspace) copyOf(logits []float32) []float32 {
	w.edited = append(w.edited[:0], logits...)
	return w.edited
}

// drawAll draws from every token, in the order of the vocabulary: block sums
// first, then within the block.
func (w *workspace) drawAll(logits []float32, sc scale, u float64) turn.TokenID {
	all := w.sum(logits, sc)
	at := float64(u * all)
	b, _ := slices.BinarySearchFunc(w.sums, at, func(sum, at float64) int {
		if sum > at {
			return 1
		}
		return -1
	})
	b = min(b, len(w.sums)-1)
	for ; b > 0 && w.sums[b] == w.sums[b-1]; b-- { // only where rounding put u at the very end
	}
	before := 0.0
	if b > 0 {
		before = w.sums[b-1]
	}
	return w.drawBlock(logits, sc, b*block, at-before)
}

// sum is the weight of all tokens, added up by blocks: w.sums[b] is that of
// the blocks up to b. The blocks of a large vocabulary are shared out among
// processors, which changes no sum.
func (w *workspace) sum(logits []float32, sc scale) float64 {
	n := (len(logits) + block - 1) / block
	w.sums = slices.Grow(w.sums[:0], n)[:n]
	workers := min(runtime.GOMAXPROCS(0), n/leastShare)
	if workers <= 1 {
		w.share(logits, sc, 0, n)
	} else {
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() { w.share(logits, sc, i*n/workers, (i+1)*n/workers) })
		}
		all.Wait()
	}
	for b := 1; b < n; b++ {
		w.sums[b] += w.sums[b-1]
	}
	return w.sums[n-1]
}

func (w *workspace) share(logits []float32, sc scale, from, to int) {
	for b := from; b < to; b++ {
		w.sums[b] = sc.sum(logits[b*block : min((b+1)*block, len(logits))])
	}
}

func (sc scale) sum(logits []float32) (sum float64) {
	for _, v := range logits {
		if x := sc.dist(v); x >= negligible {
			sum += exp(x)
		}
	}
	return sum
}

func (w *workspace) drawBlock(logits []float32, sc scale, from int, at float64) turn.TokenID {
	sum, last := 0.0, -1
	for i := from; i < min(from+block, len(logits)); i++ {
		x := sc.weight(logits[i])
		if x == 0 {
			continue
		}
		last = i
		if sum += x; sum > at {
			break
		}
	}
	return turn.TokenID(last)
}

// above gathers what min_p leaves, in order.
func (w *workspace) above(logits []float32, sc scale, floor float64) []candidate {
	cs := w.within(logits, sc, max(negligible, math.Log(floor)-1e-3))
	return minP(cs, floor)
}

// nucleus gathers what top_p leaves of all tokens, in order. A nucleus is
// most often near the top: it is looked for there first.
func (w *workspace) nucleus(logits []float32, sc scale, p float64) []candidate {
	want := float64(p * w.sum(logits, sc))
	for _, reach := range [...]float64{-5, -10, -18} {
		if cs := w.within(logits, sc, reach); total(cs) >= want {
			return topP(cs, want)
		}
	}
	return topP(w.within(logits, sc, negligible), want)
}

// within gathers, in order, the candidates at most so far below the top.
func (w *workspace) within(logits []float32, sc scale, reach float64) []candidate {
	w.cs = w.cs[:0]
	least := float32(sc.top + reach/sc.by - 1e-3*(1+math.Abs(sc.top))) // a little too low, whatever the rounding
	for i, v := range logits {
		if v < least {
			continue
		}
		if x := sc.dist(v); x >= reach {
			w.cs = append(w.cs, candidate{int32(i), v, exp(x)})
		}
	}
	slices.SortFunc(w.cs, better)
	return w.cs
}

// topK gathers the k likeliest, in order.
func (w *workspace) topK(logits []float32, sc scale, k int) []candidate {
	if k > fewBest {
		return w.manyBest(logits, sc, k)
	}
	w.best(logits, k)
	for i := range w.cs {
		w.cs[i].weight = sc.weight(w.cs[i].logit)
	}
	return w.cs
}

// manyBest finds the k likeliest through a histogram of distances.
func (w *workspace) manyBest(logits []float32, sc scale, k int) []candidate {
	w.count = [bins]int{}
	for _, v := range logits {
		if x := sc.dist(v); x >= negligible {
			w.count[int(x*-binsPer)]++
		}
	}
	n, cut := 0, 0
	for cut = range w.count {
		if n += w.count[cut]; n >= k {
			break
		}
	}
	cs := w.within(logits, sc, max(negligible, -float64(cut+1)/binsPer))
	return cs[:min(k, len(cs))]
}

// best leaves in w.cs the k largest logits, in order, without weights: a
// heap whose root is the worst of them.
func (w *workspace) best(logits []float32, k int) {
	h := w.cs[:0]
	for i, v := range logits {
		if len(h) < k {
			h = append(h, candidate{token: int32(i), logit: v})
			if len(h) == k {
				for j := k/2 - 1; j >= 0; j-- {
					sink(h, j)
				}
			}
		} else if v > h[0].logit {
			h[0] = candidate{token: int32(i), logit: v}
			sink(h, 0)
		}
	}
	slices.SortFunc(h, better)
	w.cs = h
}

// sink restores the heap below i.
func sink(h []candidate, i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && better(h[c+1], h[c]) > 0 {
			c++
		}
		if better(h[c], h[i]) < 0 {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}
