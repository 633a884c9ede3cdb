// Package wire is the language between the daemon and one runner, spoken
// over the socketpair on the runner's fd 3.
//
// It owns the messages and their framing. A frame is a little-endian uint32
// length, one kind byte and that many minus one bytes of JSON. One frame per
// turn and step carries {token ids, logprobs, events} together, so that the
// daemon's journal never holds a token whose text it lacks, or the reverse.
// A Conn may be read by one goroutine and written by many. It never
// interprets what it carries.
package wire

import (
	"encoding/json"

	"ingot/runtime/turn"
)

// Message is one of the structs below.
type Message interface{ kind() kind }

type kind byte

// Kinds are frozen within a protocol version; daemon and runner are built
// together, and Hello and Ready carry the version that both check.
const (
	kindHello   kind = 1
	kindGrant   kind = 2
	kindSubmit  kind = 3
	kindCancel  kind = 4
	kindFlow    kind = 5
	kindAsk     kind = 6
	kindStop    kind = 7
	kindLoading kind = 33
	kindReady   kind = 34
	kindFailed  kind = 35
	kindPrompt  kind = 36
	kindStep    kind = 37
	kindEnd     kind = 38
	kindAnswer  kind = 39
	kindGauge   kind = 40
	kindFault   kind = 41
)

// Version of the frames. Daemon and runner must agree.
const Version = 1

// From the daemon to the runner.
type (
	// Hello is the first frame: what to load and under which rules.
	Hello struct {
		Version int    `json:"version"`
		Model   string `json:"model"`  // the name clients use
		Folder  string `json:"folder"` // absolute
		Mode    Mode   `json:"mode"`
		Grant   Grant  `json:"grant"`
		Policy  Policy `json:"policy"`
		Faults  string `json:"faults,omitempty"` // INGOT_FAULTS, less what has fired
		Nth     int    `json:"nth"`              // which load of this model, from 1
	}

	// Grant is what the runner may hold. Zero means no limit but the
	// device's own. It may shrink at any time.
	Grant struct {
		Bytes   turn.Bytes   `json:"bytes"`
		Buffers turn.Buffers `json:"buffers"`
		Wired   turn.Bytes   `json:"wired"`
	}

	// Policy is the part of the config that the scheduler and governor obey.
	Policy struct {
		PrefillStep   int        `json:"prefill_step"` // cap set by the user; 0: auto
		MaxStepMS     float64    `json:"max_step_ms"`  // alone; 0: 2000
		RideStepMS    float64    `json:"ride_step_ms"` // while decode rows ride along; 0: 200
		Deterministic bool       `json:"deterministic"`
		MaxTurns      int        `json:"max_turns"`   // sequences decoding at once; 0: 32
		MaxQueue      int        `json:"max_queue"`   // turns waiting; 0: 256
		WidthCap      int        `json:"width_cap"`   // after a device error; 0: none
		Context       int        `json:"context"`     // shorter context by config; 0: the model's
		CacheBytes    turn.Bytes `json:"cache_bytes"` // kept prefixes; 0: a quarter of the grant
	}

	// Submit starts a turn, or takes one over when Resume is set.
	Submit struct {
		Turn   turn.ID         `json:"turn"`
		Tokens []turn.TokenID  `json:"tokens,omitempty"` // the prompt as ids (completion, resume), or
		Text   *string         `json:"text,omitempty"`   // as text (completion), or
		Chat   json.RawMessage `json:"chat,omitempty"`   // as {messages, tools?, template_kwargs?} (chat)
		Params turn.Params     `json:"params"`
		Given  []string        `json:"given,omitempty"` // parameters the request or config set; others fall to generation_config.json
		IDs    bool            `json:"ids,omitempty"`   // events carry token ids
		Resume *Resume         `json:"resume,omitempty"`
	}

	// Resume is what a turn has delivered, a choice each. The new runner
	// goes on behind it and delivers none of it again.
	Resume struct {
		Choices []Delivered `json:"choices"`
		Cached  int         `json:"cached"`  // usage of the first life
		Resumed int         `json:"resumed"` // runner deaths so far
	}

	// Delivered is one choice of a Resume.
	Delivered struct {
		Tokens []turn.TokenID `json:"tokens"`
		Finish turn.Finish    `json:"finish,omitempty"` // set: this choice is over
	}

	// Cancel ends a turn with finish reason cancelled.
	Cancel struct {
		Turn turn.ID `json:"turn"`
	}

	// Flow parks a turn whose client does not read, or lets it go on.
	Flow struct {
		Turn   turn.ID `json:"turn"`
		Parked bool    `json:"parked"`
	}

	// Ask is a question that needs no device: answered by ID.
	Ask struct {
		ID   uint64          `json:"id"`
		Op   Op              `json:"op"`
		Body json.RawMessage `json:"body"` // EncodeAsk, DecodeAsk or CountAsk
	}

	// Stop asks the runner to exit once the frames it owes are written.
	Stop struct{}
)

// Mode of a runner.
type Mode string

// Runner modes that speak on fd 3.
const (
	ModeFull Mode = "full"
	ModeText Mode = "text" // tokenizer and template only; no device
)

// Op is what an Ask asks.
type Op string

// Questions.
const (
	OpEncode Op = "encode"
	OpDecode Op = "decode"
	OpCount  Op = "count"
)

// Bodies of questions and answers.
type (
	// EncodeAsk asks for the ids of a text.
	EncodeAsk struct {
		Text         string `json:"text"`
		AddSpecial   bool   `json:"add_special"`
		ParseSpecial bool   `json:"parse_special"`
	}
	// DecodeAsk asks for the text of ids.
	DecodeAsk struct {
		Tokens      []turn.TokenID `json:"tokens"`
		SkipSpecial bool           `json:"skip_special"`
	}
	// CountAsk asks how many tokens a text or a chat has.
	CountAsk struct {
		Text *string         `json:"text,omitempty"`
		Chat json.RawMessage `json:"chat,omitempty"`
	}
	// Tokens answers encode; Count answers count; Text answers decode.
	Tokens struct {
		Tokens []turn.TokenID `json:"tokens"`
	}
	// Text answers decode.
	Text struct {
		Text string `json:"text"`
	}
	// Count answers count.
	Count struct {
		Tokens int `json:"tokens"`
	}
)

// From the runner to the daemon.
type (
	// Loading tells how far the load is, 0 to 1.
	Loading struct {
		Progress float64 `json:"progress"`
	}

	// Ready follows a successful load.
	Ready struct {
		Version int  `json:"version"`
		Info    Info `json:"info"`
	}

	// Info is what a loaded model is.
	Info struct {
		Family   string       `json:"family"`
		Context  int          `json:"context"` // tokens
		Vocab    int          `json:"vocab"`
		Layers   int          `json:"layers"`
		Resident turn.Bytes   `json:"resident"` // weights
		Buffers  turn.Buffers `json:"buffers"`  // buffers of the weights
		Limit    turn.Buffers `json:"limit"`    // buffer limit in force
		Memory   turn.Bytes   `json:"memory"`   // byte limit in force
		Device   string       `json:"device"`
		LoadMS   float64      `json:"load_ms"`
	}

	// Failed precedes the exit of a runner that could not load.
	Failed struct {
		Error Error `json:"error"`
	}

	// Prompt tells the ids of a turn's prompt, once, for the journal, with
	// the parameters as resolved by the model's defaults.
	Prompt struct {
		Turn   turn.ID        `json:"turn"`
		Tokens []turn.TokenID `json:"tokens"`
		Params turn.Params    `json:"params"`
	}

	// Step is what one step brought one turn. Events have neither turn nor
	// seq: the daemon's journal numbers them.
	Step struct {
		Turn    turn.ID      `json:"turn"`
		Choices []Advance    `json:"choices,omitempty"`
		Events  []turn.Event `json:"events,omitempty"`
	}

	// Advance is the tokens one choice gained, and its end if it ended.
	Advance struct {
		Choice int            `json:"choice"`
		Tokens []turn.TokenID `json:"tokens,omitempty"`
		Finish turn.Finish    `json:"finish,omitempty"`
	}

	// End is the last frame of a turn: its done or error event.
	End struct {
		Turn  turn.ID    `json:"turn"`
		Done  *turn.Done `json:"done,omitempty"`
		Error *Error     `json:"error,omitempty"`
	}

	// Answer answers an Ask.
	Answer struct {
		ID    uint64          `json:"id"`
		Body  json.RawMessage `json:"body,omitempty"`
		Error *Error          `json:"error,omitempty"`
	}

	// Gauge is the runner's state, sent when it changes, at most a few
	// times a second, and before every step that is predicted to be long.
	Gauge struct {
		Buffers   turn.BufferGauge `json:"buffers"`
		Memory    turn.MemoryGauge `json:"memory"`
		Running   int              `json:"running"` // turns in steps
		Queued    int              `json:"queued"`
		Width     int              `json:"width"`     // of the last prefill step
		WidthMax  int              `json:"width_max"` // widest so far allowed
		Reason    turn.Reason      `json:"reason"`
		TokS      float64          `json:"tok_s"`      // decode, over the last second
		Steps     uint64           `json:"steps"`      // progress: committed steps
		PredictMS float64          `json:"predict_ms"` // of the step now running
		Levers    []Lever          `json:"levers,omitempty"`
	}

	// Lever is one measure the governor took, for the log: once.
	Lever struct {
		Name   string `json:"name"`
		Detail string `json:"detail"`
	}

	// Fault tells that a fault of INGOT_FAULTS fired.
	Fault struct {
		Name string `json:"name"`
		Left int    `json:"left"`
	}
)

// Error is an error that crosses the wire by name; package ipc turns the
// name into codes.
type Error struct {
	Name    string         `json:"name"` // of the contract: invalid_params, no_room, ...
	Message string         `json:"message"`
	Data    map[string]any `json:"data,omitempty"`
}

func (e *Error) Error() string { return e.Message }

func (*Hello) kind() kind   { return kindHello }
func (*Grant) kind() kind   { return kindGrant }
func (*Submit) kind() kind  { return kindSubmit }
func (*Cancel) kind() kind  { return kindCancel }
func (*Flow) kind() kind    { return kindFlow }
func (*Ask) kind() kind     { return kindAsk }
func (*Stop) kind() kind    { return kindStop }
func (*Loading) kind() kind { return kindLoading }
func (*Ready) kind() kind   { return kindReady }
func (*Failed) kind() kind  { return kindFailed }
func (*Prompt) kind() kind  { return kindPrompt }
func (*Step) kind() kind    { return kindStep }
func (*End) kind() kind     { return kindEnd }
func (*Answer) kind() kind  { return kindAnswer }
func (*Gauge) kind() kind   { return kindGauge }
func (*Fault) kind() kind   { return kindFault }

// Exit codes of a runner, for the daemon's judgement.
const (
	ExitOK     = 0 // Stop, or EOF of fd 3
	ExitLoad   = 3 // could not load; Failed was sent
	ExitDevice = 4 // a device error: nothing of the process can be trusted
	ExitWire   = 5 // a frame it could not read
)
