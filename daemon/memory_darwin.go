package daemon

import (
	"golang.org/x/sys/unix"

	"ingot/daemon/lifecycle"
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

// systemPressure asks the kernel: 1 is normal, 2 a warning, 4 critical.
func systemPressure() lifecycle.Level {
	n, err := unix.SysctlUint32("kern.memorystatus_vm_pressure_level")
	switch {
	case err != nil || n < 2:
		return lifecycle.Calm
	case n < 4:
		return lifecycle.Short
	}
	return lifecycle.Critical
}
