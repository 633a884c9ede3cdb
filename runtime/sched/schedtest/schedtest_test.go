package schedtest_test

import (
	"strings"
	"testing"

	"ingot/runtime/sched"
	"ingot/runtime/sched/schedtest"
)

func TestTheFakePassesTheSuite(t *testing.T) {
	script := "context 600\nkeep 3\nresident 20\nsequence 4\nwidth 2"
	schedtest.Suite(t, func(testing.TB) sched.Engine { return schedtest.New(schedtest.Must(script)) })
}

func TestScriptsThatAreNonsense(t *testing.T) {
	for _, text := range []string{"contest 5", "context", "context five", "cost 1ms", "cost 1 2", "say 1 2", "say x: 1", "say 1: x", "fault step 2", "fault step x buffers", "fault step 2..x bytes", "eos x"} {
		if _, err := schedtest.Parse("# fine\n" + text); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
