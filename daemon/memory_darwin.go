package daemon

import (
	"golang.org/x/sys/unix"

	"ingot/runtime/turn"
)

// physicalMemory is what the machine has, in bytes.
func physicalMemory() turn.Bytes {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return fallbackMemory
	}
	return turn.Bytes(n)
}
