//go:build !bundle

package cabi

// A program built in the source tree finds its libraries there. One that is
// to be shipped is built with the tag "bundle" and carries no such path.

// #cgo LDFLAGS: -Wl,-rpath,${SRCDIR}/../../../../.deps/mlx/lib
// #cgo linux LDFLAGS: -Wl,-rpath,${SRCDIR}/../../../../.deps/openblas/lib
import "C"
