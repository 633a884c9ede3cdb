package cabi

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"time"
	"unsafe"
)

// Open makes the calling thread, which must be locked, the device thread.
func Open(kind int) (opened int, s Status, why string) {
	var t [C.IG_MAX_TEXT]C.char
	var got C.int
	s = Status(C.ig_open(C.int(kind), &got, &t[0]))
	return int(got), s, errText(s, &t)
}

// Close waits for the device's queue and ends the thread's role.
func Close() { C.ig_close() }

// OnThread reports whether the caller runs on the device thread.
func OnThread() bool { return C.ig_on_thread() != 0 }

// Ledger is a reading of the allocator's counters.
type Ledger struct {
	Live, Peak, Total, Limit                     int64 // buffers
	LiveBytes, PeakBytes, TotalBytes, LimitBytes int64
	CachedUpper, Fired                           int64
	Supported                                    bool
}

// ReadLedger may be called from any thread.
func ReadLedger() Ledger {
	var l C.ig_ledger
	C.ig_ledger_read(&l)
	return Ledger{
		Live: int64(l.live), Peak: int64(l.peak), Total: int64(l.total), Limit: int64(l.limit),
		LiveBytes: int64(l.live_bytes), PeakBytes: int64(l.peak_bytes), TotalBytes: int64(l.total_bytes), LimitBytes: int64(l.limit_bytes),
		CachedUpper: int64(l.cached_upper), Fired: int64(l.fired),
		Supported: l.supported != 0,
	}
}

// ResetPeak sets both peaks to what lives now.
func ResetPeak() { C.ig_ledger_reset_peak() }

// SetLimits bounds buffers and bytes; 0 lifts a bound.
func SetLimits(buffers, bytes int64) {
	C.ig_ledger_set_limits(C.int64_t(buffers), C.int64_t(bytes))
}

// FailAt makes the n-th allocation from now throw; 0 disarms.
func FailAt(n int64) { C.ig_ledger_fail_at(C.int64_t(n)) }

// ClearCache drops MLX's cached buffers.
func ClearCache() { C.ig_ledger_clear_cache() }

// Settle waits, at most limit, until live buffers have not moved for quiet.
func Settle(limit, quiet time.Duration) {
	C.ig_ledger_settle(C.int64_t(limit.Microseconds()), C.int64_t(quiet.Microseconds()))
}

// Figures and settings of MLX's own memory accounting.
const (
	ActiveMemory = int(C.IG_ACTIVE)
	PeakMemory   = int(C.IG_PEAK)
	CacheMemory  = int(C.IG_CACHE)
	MemoryLimit  = int(C.IG_MEMORY_LIMIT)

	SetMemory = int(C.IG_SET_MEMORY)
	SetCache  = int(C.IG_SET_CACHE)
	SetWired  = int(C.IG_SET_WIRED)
)

// MemoryFigure reads one of MLX's figures, in bytes.
func MemoryFigure(which int) uint64 { return uint64(C.ig_memory(C.int(which))) }

// ProcessBytes is what the process occupies, MLX's share included.
func ProcessBytes() uint64 { return uint64(C.ig_process_bytes()) }

// ChangeMemory changes one of MLX's settings and returns the old value, in bytes.
func ChangeMemory(which int, bytes uint64) (old uint64, s Status, why string) {
	var t [C.IG_MAX_TEXT]C.char
	var was C.size_t
	s = Status(C.ig_set_memory(C.int(which), C.size_t(bytes), &was, &t[0]))
	return uint64(was), s, errText(s, &t)
}

// Info is what the device says of itself; 0 or "" where it says nothing.
type Info struct {
	ResourceLimit, Memory, WorkingSet uint64
	Architecture                      string
}

// DeviceInfo describes the default device.
func DeviceInfo() (Info, Status, string) {
	var t [C.IG_MAX_TEXT]C.char
	var i C.ig_info
	s := Status(C.ig_device_info(&i, &t[0]))
	return Info{uint64(i.resource_limit), uint64(i.memory), uint64(i.working_set), C.GoString(&i.architecture[0])}, s, errText(s, &t)
}

// SetMetallib says where mlx.metallib lies. Before Open, from any thread.
func SetMetallib(path string) (Status, string) {
	c := C.CString(path)
	defer C.free(unsafe.Pointer(c))
	var t [C.IG_MAX_TEXT]C.char
	s := Status(C.ig_set_metallib(c, &t[0]))
	return s, errText(s, &t)
}
