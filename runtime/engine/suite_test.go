package engine

import (
	"testing"

	"ingot/models/modeltest"
	"ingot/runtime/sched"
	"ingot/runtime/sched/schedtest"
)

// families are tiny checkpoints with every kind of cache.
var families = map[string][]string{
	"llama":       {"llama", "--layers", "3", "--vocab", "512"},
	"mistral":     {"mistral", "--layers", "2", "--vocab", "512"},
	"qwen3_5_moe": {"qwen3_5_moe", "--layers", "8", "--experts", "8", "--hidden", "128", "--vocab", "512"},
	"qwen3_next":  {"qwen3_next", "--layers", "4", "--experts", "4", "--hidden", "128", "--vocab", "512"},
}

// TestSuite holds the engine to what the scheduler expects of every one.
func TestSuite(t *testing.T) {
	for name, args := range families {
		t.Run(name, func(t *testing.T) {
			b := open(t, Options{}, modeltest.Tiny(t, args[0], args[1:]...))
			schedtest.Suite(t, func(testing.TB) sched.Engine { return b.Engine })
		})
	}
}
