// Package ipc is the language that clients and the daemon speak on the
// socket: method names, typed parameters and results, events, the frozen
// error table and the protocol version.
//
// It owns words only: no connection, no goroutine, no clock; the standard
// library and runtime/turn are all it imports. Values are plain data, and any
// goroutine may read them once built. Decoding is strict: every Decode
// function names the field that is wrong, and a parameter that would have no
// effect is refused rather than ignored.
package ipc

// Protocol is the version of the language. It changes when something that a
// client may rely on changes its meaning; additions leave it alone.
const Protocol = 1

// MaxMessage bounds one line, WebSocket message or HTTP body, in bytes.
const MaxMessage = 32 << 20

// MaxBatch bounds the calls of one JSON-RPC batch.
const MaxBatch = 256

// Version of the build, the same for every program of it. The linker may set
// it.
var Version = "0.1.0"
