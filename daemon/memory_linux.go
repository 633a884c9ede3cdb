package daemon

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"ingot/daemon/lifecycle"
	"ingot/runtime/turn"
)

// physicalMemory is what the machine has, in bytes.
func physicalMemory() turn.Bytes {
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) != nil {
		return fallbackMemory
	}
	return turn.Bytes(uint64(si.Totalram) * uint64(si.Unit))
}

// systemPressure reads the kernel's pressure stall information: the share of
// the last ten seconds that some tasks, or all, waited for memory.
func systemPressure() lifecycle.Level {
	body, err := os.ReadFile("/proc/pressure/memory")
	if err != nil { // a kernel without it
		return lifecycle.Calm
	}
	return pressureOf(string(body))
}

func pressureOf(psi string) lifecycle.Level {
	level := lifecycle.Calm
	for line := range strings.Lines(psi) {
		var kind string
		var avg10 float64
		if n, _ := fmt.Sscanf(line, "%s avg10=%f", &kind, &avg10); n != 2 || avg10 < 10 {
			continue
		}
		if kind == "full" {
			return lifecycle.Critical
		}
		level = lifecycle.Short
	}
	return level
}
