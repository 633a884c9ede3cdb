package textkit

/*
#cgo CFLAGS: -I${SRCDIR}
#cgo linux LDFLAGS: ${SRCDIR}/rs/target/release/libingot_textkit.a -lm -ldl -lpthread
#cgo darwin LDFLAGS: -L${SRCDIR}/rs/target/aarch64-apple-darwin/release -L${SRCDIR}/rs/target/release -lingot_textkit
#include "textkit.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// ErrClosed is returned by calls on a closed handle.
var ErrClosed = errors.New("textkit: closed")

// ErrInternal marks a fault of the library itself (a caught panic); everything
// else is the input's.
var ErrInternal = errors.New("textkit: internal fault")

// answer takes what an entry left: its bytes, or its error under the name of the
// operation. The buffer is freed either way.
func answer(op string, status C.int, buf *C.tk_buf) ([]byte, error) {
	defer C.tk_buf_free(buf)
	if status == C.TK_OK {
		return C.GoBytes(unsafe.Pointer(buf.ptr), C.int(buf.len)), nil
	}
	text := C.GoStringN((*C.char)(unsafe.Pointer(buf.ptr)), C.int(buf.len))
	if status == C.TK_PANIC {
		return nil, fmt.Errorf("%w: %s: %s", ErrInternal, op, text)
	}
	return nil, fmt.Errorf("textkit: %s: %s", op, text)
}

// textPtr lends a string's bytes for one call.
func textPtr(s string) (*C.uint8_t, C.size_t) {
	return (*C.uint8_t)(unsafe.Pointer(unsafe.StringData(s))), C.size_t(len(s))
}

// bytesPtr lends a slice for one call.
func bytesPtr(b []byte) (*C.uint8_t, C.size_t) {
	return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b))), C.size_t(len(b))
}
