// Package cpu holds Ingot's kernels for MLX's CPU backend: products with
// quantized weights, attention over caches, and the small operations between
// them, each a C++ function that builds an MLX array (cpu.h).
//
// It owns the worker threads that the kernels share and nothing else. The Go
// side exists to link the C++ objects into the runner: import it for effect.
// The functions of cpu.h may be called on the device thread only; their tasks
// run on MLX's stream thread and on the workers. It never keeps an array
// beyond its task, never converts weights, and never throws from a worker.
package cpu

/*
#cgo CXXFLAGS: -std=c++20 -O2 -Wall -Wextra -isystem ${SRCDIR}/../../../../.deps/mlx/include
#cgo LDFLAGS: -L${SRCDIR}/../../../../.deps/mlx/lib -lmlx
#cgo linux LDFLAGS: -lpthread
*/
import "C"
