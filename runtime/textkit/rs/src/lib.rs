//! Tokenizers and chat templates behind one small C ABI (`textkit.h`).
//!
//! Layout: one module a subject (`tokenizer`, `added`, `bytes`, `stream`,
//! `template`, `pyjson`, `strftime`, `confine`), and one `ffi_*` module a handle kind that
//! turns it into C. A grammar engine would join as `grammar` and `ffi_grammar`.
//!
//! Every entry is safe to call from any thread, catches panics, takes null
//! pointers and empty inputs, and reports failure as a status with text.

mod abi;
mod added;
mod bytes;
mod confine;
mod ffi_template;
mod ffi_tokenizer;
mod pyjson;
mod stream;
mod strftime;
mod template;
mod tokenizer;

#[cfg(test)]
mod testmodels;
