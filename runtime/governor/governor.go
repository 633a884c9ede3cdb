// Package governor decides how much one step of the device may do: pure
// policy, so that every decision can be replayed from a trace.
//
// A Governor learns, for one model, how live buffers, transient bytes and
// time grow with the width of a step (and with its depth, the context behind
// it and the decode rows beside it), predicts the next step from that and
// plans the widest one that keeps
//
//	live + predicted <= resident + Share x (limit - resident)
//
// for buffers and for bytes, within the time a step may take. It is used by
// one goroutine, the scheduler's. It has no clock, does no I/O and never
// touches the device: it is told (Observe) and asked (Next).
package governor

import (
	"time"

	"ingot/runtime/turn"
)

// Config is what holds for the whole life of a Governor. Zero fields are
// defaults.
type Config struct {
	Layers   int           // of the model; at least 1
	Width    int           // prefill_step of the config: the user's width, never exceeded; 0: auto, from StartWidth up
	Cap      int           // another ceiling (after a device error in an earlier life); 0: none
	MaxStep  time.Duration // of a step without decode rows; 0: 2 s
	RideStep time.Duration // of a step with decode rows; 0: 200 ms
	Share    float64       // of the room between resident and limit; 0: 0.9
}

// Defaults.
const (
	StartWidth = 2048
	MaxStep    = 2 * time.Second
	RideStep   = 200 * time.Millisecond
	Share      = 0.9
)

// Level is where the process stands between steps.
type Level struct {
	Live        turn.Buffers // held by arrays
	Cached      turn.Buffers // upper bound of those in MLX's own cache
	Bytes       turn.Bytes
	CachedBytes turn.Bytes
	Unsettled   bool // Live may include buffers that the device is about to let go
}

// Limits is what the process may hold, and what it holds for good. A zero
// limit is none.
type Limits struct {
	Buffers       turn.Buffers
	Bytes         turn.Bytes
	Resident      turn.Buffers // weights
	ResidentBytes turn.Bytes
}

// Kept is what a prefix entry would give back if it were evicted.
type Kept struct {
	Buffers turn.Buffers
	Bytes   turn.Bytes
}

// Ask describes the step that the scheduler would like.
type Ask struct {
	Remaining int // tokens of the prompt still to be prefilled; 0: a step of decode rows only
	Context   int // tokens already in that prompt's caches
	Decode    int // decode rows that ride along
	Cap       int // ingot.prefill_step of the request; 0: none
	Grid      int // deterministic mode: the width is min(Grid, Cap, Width, Remaining), whatever the pressure; 0: off
	Lazy      int // decode steps that the family would like between evaluations; 0: 1

	Level  Level
	Limits Limits
	Kept   []Kept // prefix entries, least recently used first
}

// Plan is the step to take.
type Plan struct {
	Width   int         // tokens of the prompt; 0: none (decode rows only, or Refusal)
	Depth   int         // layers between evaluations within the step; 0: the whole model at once
	Rows    int         // decode rows that fit (at most Ask.Decode; at least 1 if that is)
	Barrier int         // decode steps between evaluations, normally 1
	Reason  turn.Reason // what set the width
	Levers  []Lever     // to be pulled before the step, in order; the plan counts on them
	Again   bool        // pull the levers, take a new Level and ask again: less may be needed
	Predict Cost        // what the step is expected to take, beyond Level
	Refusal *Refusal    // no step is possible
}

// Cost is what a step takes while it runs.
type Cost struct {
	Buffers turn.Buffers // most live, beyond what was live before
	Bytes   turn.Bytes
	Time    time.Duration
}

// Lever is a measure to be taken between steps.
type Lever struct {
	Kind  LeverKind
	Count int // entries to evict
}

// LeverKind names a lever. The values appear in logs and are frozen.
type LeverKind string

// Levers, in the order in which they are tried. Splitting and narrowing are
// in the Plan's Depth and Width.
const (
	LeverDetach LeverKind = "detach" // evaluate what is lazy, wait for the device to let go
	LeverClear  LeverKind = "clear"  // empty MLX's cache
	LeverEvict  LeverKind = "evict"  // give up prefix entries, least recently used first
)

// Refusal says that not even the smallest step fits: one token, layer by
// layer, with nothing left to give up. It follows a real attempt that failed,
// never a prediction alone, and holds for one Ask only.
type Refusal struct {
	Buffers bool         // the buffer limit; else the memory limit
	Need    int64        // buffers or bytes, at the least
	Have    int64        // of them, free within the limit
	Width   int          // tokens assumed
	Fault   Fault        // that ended the attempt
	Limit   turn.Buffers // in force
}

// Fault is how a step failed. The values match package step's.
type Fault string

// Faults. FaultNone is a committed step.
const (
	FaultNone    Fault = ""
	FaultBuffers Fault = "buffers"
	FaultBytes   Fault = "bytes"
	FaultLaunch  Fault = "launch"
)

// Reading is what one step was and took.
type Reading struct {
	Width   int // tokens of the prompt
	Context int // tokens in its caches before
	Decode  int // decode rows beside it
	Depth   int // as planned

	Before    Level
	Limits    Limits
	PeakLive  turn.Buffers // most live during the step (also of one that failed)
	PeakBytes turn.Bytes
	Live      turn.Buffers // after the step
	Elapsed   time.Duration
	Fault     Fault // not FaultNone: nothing was committed
}

// Governor plans the steps of one model. Not safe for concurrent use.
type Governor struct {
	cfg    Config
	depths []depth // from the whole model at once to layer by layer
	table  table
	ladder ladder
	launch launch
	retry  retry
	probe  probe
	drift  float64 // buffers that one lazy decode step adds

	alone, rode int // widths of the last committed steps without and with decode rows

	// Of the last plan:
	pinch      bool // less than wanted, for want of room or time
	lastResort bool // beyond the share
	starved    int  // counts plans that left the prompt out beside a row
}

// New returns a Governor that knows nothing of its model yet.
func New(cfg Config) *Governor {
	cfg = cfg.withDefaults()
	return &Governor{cfg: cfg, depths: depthsOf(cfg.Layers), table: newTable(), ladder: newLadder(cfg.Width), probe: probe{wait: firstProbe}}
}

func (c Config) withDefaults() Config {
	c.Layers = max(c.Layers, 1)
	c.Width = max(c.Width, 0)
	c.Cap = max(c.Cap, 0)
	if c.MaxStep <= 0 {
		c.MaxStep = MaxStep
	}
	if c.RideStep <= 0 {
		c.RideStep = min(RideStep, c.MaxStep)
	}
	if !(c.Share > 0 && c.Share <= 1) {
		c.Share = Share
	}
	return c
}

// depth is one way to split a step: layers between evaluations, and the part
// of the model that is then in flight at once.
type depth struct {
	layers int // 0: all
	part   float64
}

// depthsOf halves the model until one layer is left.
func depthsOf(layers int) []depth {
	ds := []depth{{0, 1}}
	for n := layers; n > 1; {
		n = (n + 1) / 2
		ds = append(ds, depth{n, float64(n) / float64(layers)})
	}
	return ds
}

func (g *Governor) part(layers int) float64 {
	if layers <= 0 || layers >= g.cfg.Layers {
		return 1
	}
	return float64(layers) / float64(g.cfg.Layers)
}
