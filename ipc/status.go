package ipc

import "ingot/runtime/turn"

// Status is the whole state of the daemon.
type Status struct {
	Version   string           `json:"version"`
	Protocol  int              `json:"protocol"`
	PID       int              `json:"pid"`
	UptimeS   float64          `json:"uptime_s"`
	Socket    string           `json:"socket"`
	Memory    turn.MemoryGauge `json:"memory"` // of all runners; limit: the memory budget
	Models    []ModelStatus    `json:"models"` // loaded, pinned, and the last 20 used
	Recent    []TurnReport     `json:"recent"` // the last 20 turns, oldest first
	LastError *Trouble         `json:"last_error"`
	Stopping  bool             `json:"stopping,omitempty"` // no new turns are taken
	Faults    map[string]int   `json:"faults,omitempty"`   // of INGOT_FAULTS: how often each has fired, over all runners
}

// State of a model. The values are frozen.
type State string

// Model states.
const (
	StateCold       State = "cold"
	StateLoading    State = "loading"
	StateReady      State = "ready"
	StateBusy       State = "busy"
	StateUnloading  State = "unloading"
	StateStalled    State = "stalled"
	StateRestarting State = "restarting"
	StateFailed     State = "failed"
)

// ModelStatus is what one model is doing.
type ModelStatus struct {
	Name            string           `json:"name"`
	State           State            `json:"state"`
	PID             int              `json:"pid"`       // 0: no runner
	Progress        float64          `json:"progress"`  // of the load, 0 to 1
	LoadedS         float64          `json:"loaded_s"`  // seconds since it was ready; 0: it is not
	ExpiresS        *float64         `json:"expires_s"` // seconds until it is unloaded; null: never, or not loaded
	Pinned          bool             `json:"pinned"`
	Turns           int              `json:"turns"`  // running
	Queued          int              `json:"queued"` // waiting
	PrefillWidth    int              `json:"prefill_width"`
	PrefillWidthMax int              `json:"prefill_width_max"`
	Reason          turn.Reason      `json:"reason"`
	TokS            float64          `json:"tok_s"` // decode, last second
	Buffers         turn.BufferGauge `json:"buffers"`
	Memory          turn.MemoryGauge `json:"memory"`
	Restarts        int              `json:"restarts"`
	Error           string           `json:"error,omitempty"` // why it failed or stalled
}

// TurnReport is what a finished turn left behind.
type TurnReport struct {
	Turn         turn.ID     `json:"turn"`
	Model        string      `json:"model"`
	FinishReason turn.Finish `json:"finish_reason,omitempty"`
	Error        *Trouble    `json:"error,omitempty"`
	Usage        turn.Usage  `json:"usage"`
	Report       turn.Report `json:"ingot"`
	EndedAt      int64       `json:"ended_at"` // Unix seconds
}

// Trouble is an error that was, for people to read.
type Trouble struct {
	Name    Name   `json:"name"`
	Message string `json:"message"`
	Model   string `json:"model,omitempty"`
	At      int64  `json:"at"` // Unix seconds
}

// EventType tells daemon events apart. The values are frozen.
type EventType string

// Daemon event types.
const (
	EventState   EventType = "state"   // the whole, first
	EventModel   EventType = "model"   // one model, whole
	EventRemoved EventType = "removed" // a model left the list
	EventTurn    EventType = "turn"    // a turn ended
	EventNotice  EventType = "notice"  // something a person may want to know
)

// Event is the body of a daemon.event notification. One of the pointers, or
// Name for removed, is set as Type says.
type Event struct {
	Rev    int64        `json:"rev"` // grows; a gap means merged events, never lost state
	Type   EventType    `json:"type"`
	State  *Status      `json:"state,omitempty"`
	Model  *ModelStatus `json:"model,omitempty"`
	Name   string       `json:"name,omitempty"` // removed
	Turn   *TurnReport  `json:"turn,omitempty"`
	Notice *Trouble     `json:"notice,omitempty"`
}
