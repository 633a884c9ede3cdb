package mlx

import (
	"ingot/runtime/mlx/internal/cabi"
	"ingot/runtime/turn"
)

// Info is what a device says of itself; 0 or "" where it says nothing.
type Info struct {
	ResourceLimit uint64 // live and cached buffers that Metal hands to a process
	Memory        uint64 // bytes of the machine or the card
	WorkingSet    uint64 // bytes that Metal recommends at most
	Architecture  string
}

func deviceInfo() Info {
	i, st, _ := cabi.DeviceInfo()
	if st != cabi.OK {
		return Info{} // the CPU backend of some builds has no answer
	}
	return Info{i.ResourceLimit, i.Memory, i.WorkingSet, i.Architecture}
}

// ActiveMemory is MLX's own count of bytes in use. Any goroutine.
func ActiveMemory() uint64 { return cabi.MemoryFigure(cabi.ActiveMemory) }

// PeakMemory is the most of ActiveMemory. Any goroutine.
func PeakMemory() uint64 { return cabi.MemoryFigure(cabi.PeakMemory) }

// CacheMemory is the bytes that MLX holds for reuse. Any goroutine.
func CacheMemory() uint64 { return cabi.MemoryFigure(cabi.CacheMemory) }

// ProcessBytes is what the whole process occupies: resident bytes, on macOS its
// footprint; 0 where the system does not say. The ledger counts MLX's buffers
// alone: thread stacks, kernels' scratch and Go's heap come on top. Any goroutine.
func ProcessBytes() turn.Bytes { return turn.Bytes(cabi.ProcessBytes()) }

// SetMemoryLimit guides MLX's use of memory and returns the old limit, in bytes.
func (d *Device) SetMemoryLimit(bytes uint64) (uint64, error) {
	return d.change("memory limit", cabi.SetMemory, bytes)
}

// SetCacheLimit bounds what MLX holds for reuse, in bytes.
func (d *Device) SetCacheLimit(bytes uint64) (uint64, error) {
	return d.change("cache limit", cabi.SetCache, bytes)
}

// SetWiredLimit bounds what Metal keeps resident, in bytes; macOS 15 and later.
func (d *Device) SetWiredLimit(bytes uint64) (uint64, error) {
	return d.change("wired limit", cabi.SetWired, bytes)
}

func (d *Device) change(name string, which int, bytes uint64) (old uint64, err error) {
	err = d.Do(func() error {
		was, st, why := cabi.ChangeMemory(which, bytes)
		old = was
		return failure(name, st, why)
	})
	return old, err
}
