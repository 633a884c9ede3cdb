package daemon

import (
	"golang.org/x/sys/unix"

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
