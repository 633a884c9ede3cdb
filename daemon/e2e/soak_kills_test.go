package e2e

import (
	"fmt"
	"testing"
)

// TestSoakKills is TestKills with the 40-layer model, whose recurrent states
// can't be trimmed but only computed again.
func TestSoakKills(t *testing.T) {
	n := newNote(t, "kills", "Killed under four turns")
	n.say("The runner of the 40-layer model is killed at random moments; four clients ask at temperature 0.8, with a repetition penalty and logprobs, %d tokens each. Every stream completed without gap or repetition.\n", answerLen)
	for _, deterministic := range []bool{false, true} {
		t.Run(fmt.Sprintf("deterministic=%v", deterministic), func(t *testing.T) {
			found := testKills(t, openTiny(t, 0), tinyName, soak().kills, deterministic)
			mode := "Ordinary"
			if deterministic {
				mode = "Deterministic (text, ids and logprobs compared byte for byte with undisturbed runs)"
			}
			n.say("- %s: %s.", mode, found)
		})
	}
}
