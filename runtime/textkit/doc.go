// Package textkit is the tokenizer and the chat template engine: the Rust crates
// tokenizers and minijinja behind one C ABI (rs/ holds our crate, textkit.h the
// ABI).
//
// It owns the memory of the models it opens, and nothing else: no files, no
// clock, no device. Every handle may be used from any goroutine at once; a
// [Stream] is one answer's state, its calls are serialized. Close frees a handle
// and may be called while others use it: a call in flight finishes first, later
// ones return [ErrClosed]. There are no finalizers: what is opened must be closed,
// but in any order. It never panics on bad input and never ends the process:
// hostile templates and tokenizers end in an error.
//
//	tok, err := textkit.OpenTokenizer(json)
//	if err != nil {
//		return err
//	}
//	defer tok.Close()
//	ids, err := tok.Encode("Hello", textkit.EncodeOptions{AddSpecial: true})
//
//	out := tok.NewStream(true)
//	defer out.Close()
//	for _, id := range ids {
//		piece, err := out.Step(id) // often empty: a character may take several ids
//		...
//	}
//	rest, err := out.Flush()
package textkit
