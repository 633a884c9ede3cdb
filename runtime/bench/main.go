// Command bench measures Ingot beside mlx-lm on the same machine, the same
// weights and the same MLX, in turns (A B A B ...), and prints the medians
// of both sides and their ratio.
//
// It owns no engine: it starts bin/ingot-runner as the daemon would and the
// reference as a Python process (make ref), and times both from outside.
// Nothing here is a test; the numbers are read by people.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
)

type options struct {
	runner, folder, python, peer string
	dtypes                       []string
	prompts                      []int
	tokens, runs, vocab          int
}

func main() {
	o, err := parse()
	if err == nil {
		err = run(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse() (*options, error) {
	var o options
	var prompts, dtypes string
	flag.StringVar(&o.runner, "runner", "bin/ingot-runner", "Ingot's runner")
	flag.StringVar(&o.folder, "model", ".deps/fixtures/smollm2-135m", "model folder")
	flag.StringVar(&o.python, "python", ".deps/ref/bin/python", "Python with mlx-lm")
	flag.StringVar(&o.peer, "peer", "runtime/bench/peer.py", "the reference's script")
	flag.StringVar(&dtypes, "dtypes", "f32", "types the reference computes in: f16, f32 (f16 crawls on a CPU); empty: no reference")
	flag.StringVar(&prompts, "prompts", "128,1024", "prompt lengths in tokens")
	flag.IntVar(&o.tokens, "tokens", 32, "tokens to generate")
	flag.IntVar(&o.runs, "runs", 5, "interleaved runs")
	flag.IntVar(&o.vocab, "vocab", 40000, "prompt ids stay below this")
	flag.Parse()
	if dtypes != "" {
		o.dtypes = strings.Split(dtypes, ",")
	}
	for p := range strings.SplitSeq(prompts, ",") {
		n, err := strconv.Atoi(p)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-prompts: %q is no token count", p)
		}
		o.prompts = append(o.prompts, n)
	}
	if o.tokens < 2 || o.runs < 1 {
		return nil, fmt.Errorf("-tokens must be at least 2 and -runs at least 1")
	}
	return &o, nil
}

// timing is one generation: seconds to the first token, and from there to
// the last.
type timing struct {
	First float64 `json:"first_s"`
	Rest  float64 `json:"rest_s"`
}

// side is one contender.
type side interface {
	generate(prompt, tokens, vocab int) (timing, error)
	close()
}

func run(o *options) error {
	names := []string{"ingot"}
	ours, err := startRunner(o.runner, o.folder)
	if err != nil {
		return err
	}
	defer ours.close()
	sides := []side{ours}
	for _, d := range o.dtypes {
		p, err := startPeer(o.python, o.peer, o.folder, d)
		if err != nil {
			return err
		}
		defer p.close()
		sides, names = append(sides, p), append(names, "mlx-lm "+d)
	}
	for _, n := range o.prompts {
		got, err := interleave(sides, n, o)
		if err != nil {
			return err
		}
		print(os.Stdout, names, got, n, o.tokens)
	}
	return nil
}

// interleave warms every side up once and then takes turns.
func interleave(sides []side, prompt int, o *options) ([][]timing, error) {
	got := make([][]timing, len(sides))
	for r := range o.runs + 1 {
		for i, s := range sides {
			t, err := s.generate(prompt, o.tokens, o.vocab)
			if err != nil {
				return nil, err
			}
			if r > 0 {
				got[i] = append(got[i], t)
			}
		}
	}
	return got, nil
}
