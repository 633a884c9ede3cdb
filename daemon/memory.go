package daemon

import (
	"time"

	"ingot/daemon/lifecycle"
	"ingot/runtime/turn"
)

// fallbackMemory is assumed where the system does not tell: the smallest Mac.
const fallbackMemory turn.Bytes = 8 << 30

// pressLocked passes the system's memory pressure on.
func (d *Daemon) pressLocked(now time.Time) []lifecycle.Action {
	level := d.opt.Pressure()
	if level != d.pressure {
		d.pressure = level
		d.log.Warn().Int("level", int(level)).Msg("memory pressure changed")
	}
	return d.life.Pressure(level, d.activeLocked, now)
}

// activeLocked is what a model's runner holds by its last word.
func (d *Daemon) activeLocked(folder string) turn.Bytes {
	if m := d.models[folder]; m != nil {
		return m.status.Gauge.Memory.Active
	}
	return 0
}
