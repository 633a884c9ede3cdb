package engine

import (
	"testing"

	"ingot/models/modeltest"
	"ingot/runtime/step"
)

// BenchmarkDecode is a step of one row on the starter model: greedy on the
// device, and drawn on the host.
func BenchmarkDecode(b *testing.B) {
	e := open(b, Options{CacheEntries: -1}, modeltest.Starter(b))
	for name, k := range map[string]*talk{
		"greedy":  e.talk(e.words(1, 128), greedy(), 0),
		"sampled": e.talk(e.words(1, 128), sampled(logprobs), 0),
	} {
		e.step(step.Step{}, 128, k)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.step(step.Step{}, 1, k)
			}
		})
		e.Close(k.id, false)
	}
}
