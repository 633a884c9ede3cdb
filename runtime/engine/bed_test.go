package engine

import (
	"math/rand/v2"
	"testing"

	_ "ingot/models/all"
	"ingot/models/modeltest"
	"ingot/runtime/sample"
	"ingot/runtime/step"
	"ingot/runtime/turn"
)

func TestMain(m *testing.M) { modeltest.Main(m) }

// bed is an engine under test with short ways to use it.
type bed struct {
	*Engine
	t testing.TB
}

// load opens a tiny model until the test ends, and checks then that nothing
// of it is left on the device.
func load(t testing.TB, opt Options, args ...string) *bed {
	t.Helper()
	return open(t, opt, modeltest.Tiny(t, "llama", append([]string{"--layers", "3", "--vocab", "384"}, args...)...))
}

func open(t testing.TB, opt Options, folder string) *bed {
	t.Helper()
	dev := modeltest.Device()
	quiet(t)
	live, _ := dev.Ledger().Live()
	handles := dev.Handles()
	e, err := Open(dev, folder, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.SetGrant(0, 0)
		if err := e.Unload(); err != nil {
			t.Error(err)
		}
		quiet(t)
		if now, _ := dev.Ledger().Live(); now != live || dev.Handles() != handles {
			t.Errorf("%d buffers and %d handles left on the device", now-live, dev.Handles()-handles)
		}
	})
	return &bed{e, t}
}

// quiet has the device let go of what is not held: MLX keeps an operation's
// temporaries until the next one, and a stream's last task what it read.
func quiet(t testing.TB) {
	t.Helper()
	modeltest.Quiet(t, modeltest.Device())
}

// words returns n random tokens.
func (b *bed) words(seed uint64, n int) []turn.TokenID {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]turn.TokenID, n)
	for i := range out {
		out[i] = turn.TokenID(r.IntN(b.Info().Vocab))
	}
	return out
}

// greedy and sampled make samplers.
func greedy(set ...func(*turn.Params)) *sample.Sampler {
	return sampled(append([]func(*turn.Params){func(p *turn.Params) { p.Temperature = 0 }}, set...)...)
}

func sampled(set ...func(*turn.Params)) *sample.Sampler {
	p := turn.Neutral()
	p.Seed = 5
	for _, f := range set {
		f(&p)
	}
	return sample.New(&p, nil, 0)
}

func logprobs(p *turn.Params) { p.Logprobs, p.TopLogprobs = true, 3 }

// talk is one answer in the making.
type talk struct {
	id     step.SeqID
	s      *sample.Sampler
	next   []turn.TokenID // to be fed
	all    []turn.TokenID
	probs  []float64
	cached int
}

func (b *bed) talk(prompt []turn.TokenID, s *sample.Sampler, grid int) *talk {
	b.t.Helper()
	id, cached, err := b.Open(prompt, grid)
	if err != nil {
		b.t.Fatal(err)
	}
	return &talk{id: id, s: s, next: prompt[cached:], cached: cached}
}

// feed takes n tokens off what is to be fed.
func (k *talk) feed(n int) step.Row {
	r := step.Row{Seq: k.id, Tokens: k.next[:n]}
	if n == len(k.next) {
		r.Sampler = k.s
	}
	return r
}

// step runs one step of all talks: the width at most of each.
func (b *bed) step(st step.Step, width int, ks ...*talk) *step.Result {
	b.t.Helper()
	for _, k := range ks {
		st.Rows = append(st.Rows, k.feed(min(width, len(k.next))))
	}
	res, err := b.Step(&st)
	if err != nil {
		b.t.Fatal(err)
	}
	picked := res.Picked
	for i, k := range ks {
		if k.next = k.next[len(st.Rows[i].Tokens):]; len(k.next) > 0 {
			continue
		}
		if picked[0].Err != nil {
			b.t.Fatal(picked[0].Err)
		}
		k.heard(picked[0])
		picked = picked[1:]
	}
	return res
}

func (k *talk) heard(p sample.Picked) {
	k.s.Accept(p.Token)
	k.all = append(k.all, p.Token)
	k.probs = append(k.probs, p.Logprob)
	k.next = []turn.TokenID{p.Token}
}

// until steps the talks together until each has said n tokens.
func (b *bed) until(n int, st step.Step, width int, ks ...*talk) {
	b.t.Helper()
	for {
		var open []*talk
		for _, k := range ks {
			if len(k.all) < n {
				open = append(open, k)
			}
		}
		if len(open) == 0 {
			return
		}
		b.step(st, width, open...)
	}
}

// alone is what a prompt is answered on an engine that holds nothing else.
func (b *bed) alone(prompt []turn.TokenID, s *sample.Sampler, n int) *talk {
	b.t.Helper()
	k := b.talk(prompt, s, 0)
	b.until(n, step.Step{}, 1<<20, k)
	b.Close(k.id, false)
	return k
}

func (b *bed) live() turn.Buffers {
	n, _ := b.ledger.Live()
	return n
}
