package mlx

import (
	"time"

	"ingot/runtime/mlx/internal/cabi"
	"ingot/runtime/turn"
)

// Ledger counts every buffer that MLX allocates, at the allocator itself, and
// makes allocations fail at its limits as the device would. Any goroutine.
type Ledger struct {
	dev *Device
}

// Counts is one reading of the ledger. Peaks are since ResetPeak, totals since Open.
type Counts struct {
	Buffers, PeakBuffers, TotalBuffers, LimitBuffers turn.Buffers
	Bytes, PeakBytes, TotalBytes, LimitBytes         turn.Bytes
	CachedUpper                                      turn.Buffers
}

// Read is all counters at nearly one moment.
func (l *Ledger) Read() Counts {
	r := cabi.ReadLedger()
	return Counts{
		turn.Buffers(r.Live), turn.Buffers(r.Peak), turn.Buffers(r.Total), turn.Buffers(r.Limit),
		turn.Bytes(r.LiveBytes), turn.Bytes(r.PeakBytes), turn.Bytes(r.TotalBytes), turn.Bytes(r.LimitBytes),
		turn.Buffers(r.CachedUpper),
	}
}

// Live is the buffers and bytes in use now.
func (l *Ledger) Live() (turn.Buffers, turn.Bytes) {
	c := l.Read()
	return c.Buffers, c.Bytes
}

// Peak is the most of Live since the last ResetPeak.
func (l *Ledger) Peak() (turn.Buffers, turn.Bytes) {
	c := l.Read()
	return c.PeakBuffers, c.PeakBytes
}

// ResetPeak forgets the peaks.
func (l *Ledger) ResetPeak() { cabi.ResetPeak() }

// Total is the buffers and bytes ever allocated.
func (l *Ledger) Total() (turn.Buffers, turn.Bytes) {
	c := l.Read()
	return c.TotalBuffers, c.TotalBytes
}

// Limits is what SetLimits set.
func (l *Ledger) Limits() (turn.Buffers, turn.Bytes) {
	c := l.Read()
	return c.LimitBuffers, c.LimitBytes
}

// SetLimits bounds live buffers and bytes; 0 lifts a bound. An allocation beyond
// one fails with ErrResourceLimit or ErrMemory; what lives already is not touched.
func (l *Ledger) SetLimits(buffers turn.Buffers, bytes turn.Bytes) {
	cabi.SetLimits(int64(buffers), int64(bytes))
}

// CachedUpper bounds the buffers that MLX holds for reuse, which the device's
// limit counts with the live ones: those freed since the last ClearCache.
func (l *Ledger) CachedUpper() turn.Buffers { return l.Read().CachedUpper }

// ClearCache gives MLX's cached buffers back. Between steps: under pressure it is a long stop.
func (l *Ledger) ClearCache() error {
	return l.dev.Do(func() error {
		cabi.ClearCache()
		return nil
	})
}

const (
	settleMost  = 50 * time.Millisecond
	settleQuiet = 2 * time.Millisecond
)

// Settle waits until what the device has finished with is also released: on
// Metal completion handlers free buffers after an evaluation has returned. It
// synchronizes, then waits until live stops falling, 50 ms at most.
func (l *Ledger) Settle() error {
	err := l.dev.Do(func() error {
		st, why := cabi.Synchronize()
		return failure("settle", st, why)
	})
	cabi.Settle(settleMost, settleQuiet)
	return err
}

// Supported reports whether MLX's allocations pass through the ledger. Where
// they do not (CUDA) its counts mean nothing and the governor goes by bytes and errors.
func (l *Ledger) Supported() bool { return cabi.ReadLedger().Supported }

// FailAt makes the n-th allocation from now fail once with ErrResourceLimit; 0 disarms.
func (l *Ledger) FailAt(n int64) { cabi.FailAt(n) }

// Fired counts the failures that FailAt caused.
func (l *Ledger) Fired() int64 { return cabi.ReadLedger().Fired }
