//go:build !bundle

package cpu

// A program built in the source tree finds its libraries there. One that is
// to be shipped is built with the tag "bundle" and carries no such path.

// #cgo LDFLAGS: -Wl,-rpath,${SRCDIR}/../../../../.deps/mlx/lib
import "C"
