package lifecycle

// State of a model. The values leave the process and are frozen.
type State string

// Model states.
const (
	Cold       State = "cold"
	Loading    State = "loading"
	Ready      State = "ready"
	Busy       State = "busy"
	Unloading  State = "unloading"
	Stalled    State = "stalled" // its process ignores SIGKILL
	Restarting State = "restarting"
	Failed     State = "failed"
)

// Resident reports whether a model in this state holds memory.
func (s State) Resident() bool { return s != Cold && s != Failed && s != "" }
