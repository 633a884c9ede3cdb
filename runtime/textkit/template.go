package textkit

// #include "textkit.h"
import "C"

import (
	"fmt"
	"sync"
	"time"
)

// Template is a compiled chat template: Jinja set up as Hugging Face transformers
// does it. Templates come with models and nobody vouches for them: one that loops,
// recurses or fills memory ends in an error within about 2 million instructions and
// 128 MB.
type Template struct {
	mu sync.RWMutex // held shared by every call, so that Close waits for them
	h  *C.tk_template
}

// CompileTemplate compiles a template's source. The caller closes it.
func CompileTemplate(src string) (*Template, error) {
	var h *C.tk_template
	var buf C.tk_buf
	p, n := textPtr(src)
	status := C.tk_template_open(p, n, &h, &buf)
	if _, err := answer("compile template", status, &buf); err != nil {
		return nil, err
	}
	return &Template{h: h}, nil
}

// Render renders the template with a JSON object as its variables. now is what
// strftime_now tells, in now's own zone.
func (t *Template) Render(ctx []byte, now time.Time) (string, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.h == nil {
		return "", fmt.Errorf("render: %w", ErrClosed)
	}
	_, offset := now.Zone()
	local, micros := now.Unix()+int64(offset), now.Nanosecond()/1000
	var buf C.tk_buf
	p, n := bytesPtr(ctx)
	status := C.tk_render(t.h, p, n, C.int64_t(local), C.uint32_t(micros), &buf)
	b, err := answer("render", status, &buf)
	return string(b), err
}

// Close frees the template after the renders in flight. Closing twice is fine.
func (t *Template) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	C.tk_template_close(t.h)
	t.h = nil
}
