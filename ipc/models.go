package ipc

import (
	"encoding/json"

	"ingot/runtime/turn"
)

// Model is one entry of the catalogue.
type Model struct {
	Name         string     `json:"name"`
	Aliases      []string   `json:"aliases,omitempty"`
	Folder       string     `json:"folder"`
	Family       string     `json:"family"`
	Architecture string     `json:"architecture,omitempty"`
	Parameters   int64      `json:"parameters,omitempty"` // weights, counted
	Quantization string     `json:"quantization,omitempty"`
	Bytes        turn.Bytes `json:"bytes"`   // on disk
	Context      int        `json:"context"` // tokens
	State        State      `json:"state"`
	Pinned       bool       `json:"pinned"`
	Default      bool       `json:"default,omitempty"`
	Problem      string     `json:"problem,omitempty"` // why it can't be loaded
}

// ModelList answers models.list.
type ModelList struct {
	Models []Model `json:"models"`
}

// ModelDetail answers models.show. Inspect is what the runner found in the
// folder without loading it.
type ModelDetail struct {
	Model
	Inspect json.RawMessage `json:"inspect,omitempty"`
	Status  *ModelStatus    `json:"status,omitempty"` // when it is loaded
}

// Params of the models.* methods.
type (
	// ModelParams names a model: models.show, models.remove, models.unload.
	ModelParams struct {
		Model string `json:"model"`
	}

	// LoadParams of models.load, which answers when the model is ready.
	LoadParams struct {
		Model     string `json:"model"`
		KeepAlive string `json:"keep_alive,omitempty"` // as in the config: "5m", "-1" for ever
	}

	// PinParams of models.pin.
	PinParams struct {
		Model  string `json:"model"`
		Pinned bool   `json:"pinned"`
	}

	// AliasParams of models.alias; a null model removes the alias.
	AliasParams struct {
		Alias string  `json:"alias"`
		Model *string `json:"model"`
	}

	// PullParams of models.pull. Model is a name to download or the absolute
	// path of a GGUF file on the daemon's machine; As names the copy.
	PullParams struct {
		Model    string `json:"model"`
		Revision string `json:"revision,omitempty"`
		As       string `json:"as,omitempty"`
		Stream   bool   `json:"stream,omitempty"`
	}
)

// PullResult answers models.pull when it is done.
type PullResult struct {
	Model string     `json:"model"` // the name to run it by
	Bytes turn.Bytes `json:"bytes"`
}

// PullRef answers models.pull with stream.
type PullRef struct {
	Pull string `json:"pull"`
}

// PullProgress tells how far a pull is.
type PullProgress struct {
	File  string     `json:"file,omitempty"`
	Done  turn.Bytes `json:"done"`
	Total turn.Bytes `json:"total"` // 0: not known
}

// PullEvent is the body of a pull.event notification. Type is progress, done
// or error; one of the last two ends it.
type PullEvent struct {
	Pull string `json:"pull"`
	Seq  int64  `json:"seq"`
	Type string `json:"type"`
	*PullProgress
	*PullResult
	*turn.Failure
}

// Empty is the result of methods that answer with nothing.
type Empty struct{}

// LogsParams of logs.tail.
type LogsParams struct {
	Lines int    `json:"lines,omitempty"` // 0: 100; at most 10,000
	Model string `json:"model,omitempty"` // only lines about this model
}

// LogsResult answers logs.tail, oldest line first.
type LogsResult struct {
	Lines []string `json:"lines"`
}
