package turn

// PrefillStep records one prefill step of a turn: its width in tokens, the
// layers between evaluations, and the most live buffers during it.
type PrefillStep struct {
	Width    int     `json:"width"`
	Depth    int     `json:"depth"` // layers between evaluations; 0: the whole model at once
	MS       float64 `json:"ms"`
	PeakLive Buffers `json:"peak_live"`
	Reason   Reason  `json:"reason"`
}

// Reason says what set the width of a step. The values leave the process
// and are frozen.
type Reason string

// Reasons, from the least to the most pressed.
const (
	ReasonStart   Reason = "start"   // nothing known yet: the starting width
	ReasonPrompt  Reason = "prompt"  // what was left of the prompt
	ReasonSpeed   Reason = "speed"   // wider is not faster here
	ReasonUser    Reason = "user"    // prefill_step of the request or the config
	ReasonTime    Reason = "time"    // max_step, or decode rows riding along
	ReasonGrid    Reason = "grid"    // deterministic mode's fixed grid
	ReasonBuffers Reason = "buffers" // the buffer limit
	ReasonBytes   Reason = "bytes"   // the memory limit
	ReasonFault   Reason = "fault"   // a step failed and is tried narrower
)

// PrefillReport sums up the prefill of a turn.
type PrefillReport struct {
	Tokens int           `json:"tokens"` // computed here
	Cached int           `json:"cached"` // taken from a kept prefix
	MS     float64       `json:"ms"`
	TokS   float64       `json:"tok_s"`
	Steps  []PrefillStep `json:"steps"`
}

// DecodeReport sums up the decode of a turn, over all its choices.
type DecodeReport struct {
	Tokens int     `json:"tokens"`
	MS     float64 `json:"ms"`
	TokS   float64 `json:"tok_s"`
}

// BufferGauge is live buffers against their limit.
type BufferGauge struct {
	Live  Buffers `json:"live"`
	Peak  Buffers `json:"peak"`
	Limit Buffers `json:"limit"`
}

// MemoryGauge is device memory against its limit.
type MemoryGauge struct {
	Active Bytes `json:"active"`
	Peak   Bytes `json:"peak"`
	Limit  Bytes `json:"limit"`
}

// Report is what every finished turn carries as "ingot".
type Report struct {
	Prefill PrefillReport `json:"prefill"`
	Decode  DecodeReport  `json:"decode"`
	Buffers BufferGauge   `json:"buffers"`
	Memory  MemoryGauge   `json:"memory"`
	QueueMS float64       `json:"queue_ms"`
	LoadMS  float64       `json:"load_ms"`
	Resumed int           `json:"resumed"` // how often a new runner took the turn over
	Seed    uint64        `json:"seed"`
}
