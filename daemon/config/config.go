// Package config reads the daemon's configuration: TOML text to a checked
// Config, with defaults, sections for single models and the difference
// between two of them.
//
// It is pure: text in, values out, but for Home and Load, which ask the
// environment and the disk. Values are plain data and may be read by any
// goroutine. It never guesses: an unknown key, a wrong type or a value out of
// range is an error that names the key and what is allowed.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ingot/runtime/turn"
)

// Forever is the KeepAlive of a model that is never unloaded for idleness.
const Forever time.Duration = -1

// Config is the whole configuration.
type Config struct {
	Default      string        // model used where a request names none
	MemoryBudget Budget        // for all runners together
	BufferLimit  turn.Buffers  // for each runner; 0: the device's own
	Linger       time.Duration // how long a turn waits for its client to come back
	Drain        time.Duration // how long a stopping daemon lets turns go on
	TCPListen    string        // "": no TCP
	LogLevel     string

	Model                   // what holds for every model
	Models map[string]Model // models that differ, whole; by lower-case name
}

// Model is what can be set for each model by itself.
type Model struct {
	KeepAlive     time.Duration // idle time before it is unloaded; Forever
	PrefillStep   int           // widest prefill step; 0: auto
	MaxStep       time.Duration // longest step of a turn alone
	RideStep      time.Duration // longest prefill step while others decode
	Deterministic bool
	Watchdog      time.Duration // least silence that is a hang
	Context       int           // shorter context; 0: the model's own
	MaxTurns      int           // sequences decoding at once
	MaxQueue      int           // turns waiting
	Sampling
}

// Sampling are defaults for requests that do not say; nil: the model's own.
type Sampling struct {
	MaxTokens         *int
	Temperature       *float64
	TopP              *float64
	TopK              *int
	MinP              *float64
	RepetitionPenalty *float64
}

// Budget is an amount of memory: bytes, or a share of what the machine has.
type Budget struct {
	Bytes turn.Bytes
	Share float64 // used where Bytes is 0
}

// Of returns the budget in bytes on a machine with that much memory.
func (b Budget) Of(physical turn.Bytes) turn.Bytes {
	if b.Bytes > 0 {
		return b.Bytes
	}
	return turn.Bytes(b.Share * float64(physical))
}

// Default returns the configuration of an empty file.
func Default() *Config {
	return &Config{
		MemoryBudget: Budget{Share: 0.75},
		Linger:       60 * time.Second,
		Drain:        5 * time.Second,
		LogLevel:     "info",
		Model: Model{
			KeepAlive: 5 * time.Minute, MaxStep: 2 * time.Second, RideStep: 200 * time.Millisecond, Watchdog: 30 * time.Second,
			MaxTurns: 32, MaxQueue: 256,
		},
		Models: map[string]Model{},
	}
}

// For returns what holds for the model of these names: the first that has a
// section counts.
func (c *Config) For(names ...string) Model {
	for _, n := range names {
		if m, ok := c.Models[strings.ToLower(n)]; ok {
			return m
		}
	}
	return c.Model
}

// Error is one thing wrong with a configuration.
type Error struct {
	File string // "" where it was not a file
	Line int    // from 1; 0 where it is not known
	Key  string // dotted; "" for a syntax error
	Why  string
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ":")
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:", e.Line)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if e.Key != "" {
		b.WriteString(e.Key + ": ")
	}
	return b.String() + e.Why
}

// Load reads a file. One that is not there is the default configuration.
func Load(file string) (*Config, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Default(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(file, string(text))
}

// Home returns the daemon's folder: INGOT_HOME, else ~/.ingot, absolute.
func Home() (string, error) {
	dir := os.Getenv("INGOT_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no home folder (%w): set INGOT_HOME", err)
		}
		dir = filepath.Join(home, ".ingot")
	}
	return filepath.Abs(dir)
}

// Socket returns the path of the daemon's socket: INGOT_SOCKET, else
// run/ingot.sock in home.
func Socket(home string) string {
	if s := os.Getenv("INGOT_SOCKET"); s != "" {
		return s
	}
	return filepath.Join(home, "run", "ingot.sock")
}

// Clone returns a copy that shares nothing that can be changed.
func (c *Config) Clone() *Config {
	d := *c
	d.Models = maps.Clone(c.Models)
	return &d
}
