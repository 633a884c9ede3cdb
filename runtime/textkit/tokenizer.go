package textkit

// #include "textkit.h"
import "C"

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"ingot/runtime/turn"
)

// EncodeOptions says how text becomes ids. The zero value encodes exactly the
// text: nothing is added and special tokens in it are plain text.
type EncodeOptions struct {
	// AddSpecial runs the tokenizer's post-processor, which adds bos or eos where
	// the model wants them.
	AddSpecial bool
	// ParseSpecial lets the spelling of a special token in the text be that token.
	ParseSpecial bool
	// Marks are ascending byte offsets into the text. No added token, special or
	// not, is recognized across one: its text is encoded as plain text.
	Marks []int
}

// AddedToken is a token that was added to the model's vocabulary: control tokens
// (Special) and words that are always kept whole.
type AddedToken struct {
	ID      turn.TokenID `json:"id"`
	Text    string       `json:"text"`
	Special bool         `json:"special"`
}

// Tokenizer is one model's tokenizer. One copy of the vocabulary serves all calls.
type Tokenizer struct {
	vocab int
	added []AddedToken

	mu sync.RWMutex // held shared by every call, so that Close waits for them
	h  *C.tk_tokenizer
}

// OpenTokenizer reads the content of a tokenizer.json. The caller closes it.
func OpenTokenizer(data []byte) (*Tokenizer, error) {
	var h *C.tk_tokenizer
	var buf C.tk_buf
	p, n := bytesPtr(data)
	status := C.tk_tokenizer_open(p, n, &h, &buf)
	if _, err := answer("open tokenizer", status, &buf); err != nil {
		return nil, err
	}
	t := &Tokenizer{h: h, vocab: int(C.tk_vocab_size(h))}
	status = C.tk_added_tokens(h, &buf)
	list, err := answer("added tokens", status, &buf)
	if err == nil {
		err = json.Unmarshal(list, &t.added)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Close frees the tokenizer after the calls in flight. Streams opened from it stay
// usable. Closing twice is fine.
func (t *Tokenizer) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	C.tk_tokenizer_close(t.h)
	t.h = nil
}

// Encode turns text (valid UTF-8, at most 64 MiB) into ids.
func (t *Tokenizer) Encode(text string, o EncodeOptions) ([]turn.TokenID, error) {
	marks := make([]C.size_t, len(o.Marks))
	for i, m := range o.Marks {
		marks[i] = C.size_t(m)
	}
	b, err := t.call("encode", func(buf *C.tk_buf) C.int {
		p, n := textPtr(text)
		return C.tk_encode(t.h, p, n, o.flags(), unsafe.SliceData(marks), C.size_t(len(marks)), buf)
	})
	if err != nil {
		return nil, err
	}
	ids := make([]turn.TokenID, len(b)/4)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(ids))), len(b)), b)
	return ids, nil
}

func (o EncodeOptions) flags() (f C.uint32_t) {
	if o.AddSpecial {
		f |= C.TK_ADD_SPECIAL
	}
	if o.ParseSpecial {
		f |= C.TK_PARSE_SPECIAL
	}
	return f
}

// EncodeMarked encodes a rendered chat: control tokens in it are parsed, but for
// those that would span a mark (an ascending byte offset), which are plain text.
// Nothing is added.
func (t *Tokenizer) EncodeMarked(text string, marks []int) ([]turn.TokenID, error) {
	return t.Encode(text, EncodeOptions{ParseSpecial: true, Marks: marks})
}

// Decode turns ids into text; ids outside the vocabulary are left out, and special
// tokens too if skipSpecial is set. What is not UTF-8 becomes U+FFFD.
func (t *Tokenizer) Decode(ids []turn.TokenID, skipSpecial bool) (string, error) {
	b, err := t.call("decode", func(buf *C.tk_buf) C.int {
		p := (*C.uint32_t)(unsafe.Pointer(unsafe.SliceData(ids)))
		return C.tk_decode(t.h, p, C.size_t(len(ids)), C.bool(skipSpecial), buf)
	})
	return string(b), err
}

// VocabSize is one more than the largest id.
func (t *Tokenizer) VocabSize() int { return t.vocab }

// AddedTokens lists the added tokens by ascending id. The slice is shared: read only.
func (t *Tokenizer) AddedTokens() []AddedToken { return t.added }

// ControlTokens spells the special tokens.
func (t *Tokenizer) ControlTokens() []string { return t.spelled(true) }

// AddedWords spells the added tokens that are not special.
func (t *Tokenizer) AddedWords() []string { return t.spelled(false) }

// IsControl tells special tokens from all others.
func (t *Tokenizer) IsControl(id turn.TokenID) bool {
	i, ok := slices.BinarySearchFunc(t.added, id, func(a AddedToken, id turn.TokenID) int { return cmp.Compare(a.ID, id) })
	return ok && t.added[i].Special
}

func (t *Tokenizer) spelled(special bool) (texts []string) {
	for _, a := range t.added {
		if a.Special == special {
			texts = append(texts, a.Text)
		}
	}
	return texts
}

// TokenID finds a token by its spelling in the vocabulary.
func (t *Tokenizer) TokenID(token string) (id turn.TokenID, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p, n := textPtr(token)
	found := C.tk_token_id(t.h, p, n)
	return turn.TokenID(found), found >= 0
}

// Token is the spelling of an id in the vocabulary, such as "Ġthe".
func (t *Tokenizer) Token(id turn.TokenID) (string, error) {
	b, err := t.token(id, false)
	return string(b), err
}

// TokenBytes are the bytes that an id stands for in text, such as " the"; they need
// not be UTF-8.
func (t *Tokenizer) TokenBytes(id turn.TokenID) ([]byte, error) { return t.token(id, true) }

func (t *Tokenizer) token(id turn.TokenID, bytes bool) ([]byte, error) {
	return t.call("token", func(buf *C.tk_buf) C.int {
		return C.tk_token(t.h, C.uint32_t(id), C.bool(bytes), buf)
	})
}

// call runs one entry with the handle held open.
func (t *Tokenizer) call(op string, entry func(*C.tk_buf) C.int) ([]byte, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.h == nil {
		return nil, fmt.Errorf("%s: %w", op, ErrClosed)
	}
	var buf C.tk_buf
	return answer(op, entry(&buf), &buf)
}
