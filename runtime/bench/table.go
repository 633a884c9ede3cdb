package main

import (
	"fmt"
	"io"
	"slices"
)

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// rates turns timings into tokens per second. The first token counts as the
// last one of the prompt: a prefill of n tokens ends with it.
func rates(ts []timing, prompt, tokens int) (prefill, decode []float64) {
	for _, t := range ts {
		prefill = append(prefill, float64(prompt)/t.First)
		decode = append(decode, float64(tokens-1)/t.Rest)
	}
	return prefill, decode
}

// ratio is the median of the ratios run by run, which holds when the
// machine's speed drifts.
func ratio(a, b []float64) float64 {
	var r []float64
	for i := range a {
		r = append(r, a[i]/b[i])
	}
	return median(r)
}

// print writes a row for each side; the first one is ours.
func print(w io.Writer, names []string, got [][]timing, prompt, tokens int) {
	fmt.Fprintf(w, "\n%d prompt tokens, %d generated, medians of %d interleaved runs (min-max)\n", prompt, tokens, len(got[0]))
	fmt.Fprintf(w, "%-12s %28s %10s %28s %10s\n", "", "prefill tok/s", "ingot is", "decode tok/s", "ingot is")
	ours, oursD := rates(got[0], prompt, tokens)
	for i, name := range names {
		p, d := rates(got[i], prompt, tokens)
		fmt.Fprintf(w, "%-12s %28s %9.2fx %28s %9.2fx\n", name, spread(p), ratio(ours, p), spread(d), ratio(oursD, d))
	}
}

func spread(v []float64) string {
	return fmt.Sprintf("%.1f (%.1f-%.1f)", median(v), slices.Min(v), slices.Max(v))
}
