package runner

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"ingot/runtime/turn"
)

// killSelf is what the fault "kill" does: no handler, no farewell.
func killSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // can't fail for oneself
	select {}
}

// limitVar sets the buffer limit that the runner enforces.
const limitVar = "INGOT_RSRC_LIMIT"

// limitFromEnv reads INGOT_RSRC_LIMIT. 0: not set.
func limitFromEnv() (turn.Buffers, error) {
	text := os.Getenv(limitVar)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s is %q, want a number of buffers from 1", limitVar, text)
	}
	return turn.Buffers(n), nil
}

// below is the lower of two limits, where 0 is none.
func below(a, b turn.Buffers) turn.Buffers {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
