package supervise

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ingot/runtime/turn"
)

// play runs a script of a plan: "+a" opens a turn, "-a" ends it, "a" is a
// token of it, "a." the end of its prefill, "!" a death; what is handed out
// and who is condemned comes back.
func play(p *Plan, script string) string {
	var out []string
	next := func() {
		for {
			id, ok := p.Next()
			if !ok {
				return
			}
			out = append(out, ">"+string(id))
		}
	}
	for _, w := range strings.Fields(script) {
		name := turn.ID(strings.Trim(w, "+-.!|"))
		switch {
		case w == "!":
			guilty, _ := p.Died()
			out = append(out, "!"+string(guilty))
		case w[0] == '+':
			p.Add(name)
		case w[0] == '-':
			p.Remove(name)
		case w[0] == '|':
			p.Park(name, true)
		case strings.HasSuffix(w, "."):
			p.Prefilled(name)
		default:
			p.Token(name)
		}
		next()
	}
	return strings.Join(out, " ")
}

func TestPlan(t *testing.T) {
	for name, tc := range map[string]struct{ script, want string }{
		"without deaths all go at once":              {"+a +b +c", ">a >b >c"},
		"resumed one at a time, oldest first":        {"+a +b ! a b", ">a >b ! >a >b"},
		"the first death accuses nobody":             {"+a ! a ! a", ">a ! >a ! >a"},
		"twice on probation is guilty":               {"+a ! ! !", ">a ! >a ! >a !a"},
		"a token between acquits":                    {"+a ! ! a ! ! a", ">a ! >a ! >a ! >a ! >a"},
		"others go on without the guilty":            {"+a +b ! ! ! b", ">a >b ! >a ! >a !a >b"},
		"prefill lets the next one follow":           {"+a +b ! a. b a", ">a >b ! >a >b"},
		"death at the first token after prefill":     {"+a ! a. ! a. !", ">a ! >a ! >a !a"},
		"two suspects: nobody, then a token each":    {"+a +b ! a. ! a. a b", ">a >b ! >a >b ! >a >b"},
		"the one with a strike goes first and alone": {"+a +b +c ! a ! b a c", ">a >b >c ! >a >b ! >b >a >c"},
		"a new turn waits for those before it":       {"+a ! +b a b", ">a ! >a >b"},
		"the end of a turn ends its probation":       {"+a +b ! -a b", ">a >b ! >a >b"},
		"a parked one holds nobody up":               {"+a +b ! |a b", ">a >b ! >a >b"},
		"a parked one is not resumed":                {"+a +b |a ! b", ">a >b ! >b"},
	} {
		if got := play(&Plan{}, tc.script); got != tc.want {
			t.Errorf("%s: %s\ngot  %s\nwant %s", name, tc.script, got, tc.want)
		}
	}
}

func TestAGuiltyTurnIsFoundAmongTheInnocent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "turns")
		bad := rapid.IntRange(0, n-1).Draw(t, "guilty")
		afterPrefill := rapid.Bool().Draw(t, "dies after its prefill")
		p := &Plan{}
		for i := range n {
			p.Add(turn.ID(fmt.Sprint(i)))
		}
		culprit := turn.ID(fmt.Sprint(bad))
		for deaths := 0; ; deaths++ {
			if deaths > 5 {
				t.Fatalf("not found after %d deaths", deaths)
			}
			dead := false
			for id, ok := p.Next(); ok; id, ok = p.Next() {
				if id != culprit {
					p.Token(id)
					continue
				}
				if dead = true; afterPrefill {
					p.Prefilled(id)
					continue // and those who may follow do
				}
				break
			}
			if !dead {
				t.Fatal("the culprit was not resumed")
			}
			if guilty, _ := p.Died(); guilty != "" {
				if guilty != culprit {
					t.Fatalf("%s condemned for %s", guilty, culprit)
				}
				return
			}
		}
	})
}

func TestProgressIsToldOnce(t *testing.T) {
	p := &Plan{}
	p.Add("a")
	p.Next()
	p.Token("a")
	if _, progress := p.Died(); !progress {
		t.Error("a token was delivered")
	}
	if _, progress := p.Died(); progress {
		t.Error("nothing was delivered since")
	}
}
