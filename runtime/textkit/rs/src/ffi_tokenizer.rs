//! Tokenizers and decode streams as C handles.
//!
//! A handle is a boxed `Arc`: closing the tokenizer while streams of it live is
//! allowed, the last one frees it.

use crate::abi::{entry, id_bytes, slice, text, Buf};
use crate::stream::Stream;
use crate::tokenizer::Tok;
use std::sync::Arc;

pub struct TokenizerHandle(Arc<Tok>);
pub struct StreamHandle(Stream);

/// Run the post-processor: bos, eos.
const ADD_SPECIAL: u32 = 1;
/// Special tokens in the text count as such.
const PARSE_SPECIAL: u32 = 2;

fn closed() -> String {
    "handle is null".into()
}

/// Opens a `tokenizer.json`; `*handle` is set on success only.
///
/// # Safety
/// `json` is valid for `len` bytes, `handle` and `out` are null or writable.
#[no_mangle]
pub unsafe extern "C" fn tk_tokenizer_open(json: *const u8, len: usize, handle: *mut *mut TokenizerHandle, out: *mut Buf) -> i32 {
    entry(out, || {
        let tok = Tok::from_json(slice(json, len))?;
        let handle = handle.as_mut().ok_or_else(closed)?;
        *handle = Box::into_raw(Box::new(TokenizerHandle(Arc::new(tok))));
        Ok(vec![])
    })
}

/// # Safety
/// `t` is null or an open handle that nobody uses any more.
#[no_mangle]
pub unsafe extern "C" fn tk_tokenizer_close(t: *mut TokenizerHandle) {
    if !t.is_null() {
        let handle = Box::from_raw(t);
        entry(std::ptr::null_mut(), move || {
            drop(handle);
            Ok(vec![])
        });
    }
}

/// Text to ids (u32, the machine's order). `marks` are ascending byte offsets
/// that no added token may span.
///
/// # Safety
/// `t` is null or open; the arrays are valid for their lengths.
#[no_mangle]
pub unsafe extern "C" fn tk_encode(
    t: *const TokenizerHandle,
    s: *const u8,
    len: usize,
    flags: u32,
    marks: *const usize,
    n_marks: usize,
    out: *mut Buf,
) -> i32 {
    entry(out, || {
        let t = t.as_ref().ok_or_else(closed)?;
        let ids = t.0.encode(text(s, len)?, flags & ADD_SPECIAL != 0, flags & PARSE_SPECIAL != 0, slice(marks, n_marks))?;
        Ok(id_bytes(&ids))
    })
}

/// # Safety
/// As for [`tk_encode`].
#[no_mangle]
pub unsafe extern "C" fn tk_decode(t: *const TokenizerHandle, ids: *const u32, n: usize, skip_special: bool, out: *mut Buf) -> i32 {
    entry(out, || t.as_ref().ok_or_else(closed)?.0.decode(slice(ids, n), skip_special).map(String::into_bytes))
}

/// One more than the largest id.
///
/// # Safety
/// `t` is null or open.
#[no_mangle]
pub unsafe extern "C" fn tk_vocab_size(t: *const TokenizerHandle) -> usize {
    t.as_ref().map_or(0, |t| t.0.vocab_size())
}

/// The id of a token spelled as in the vocabulary, -1 if there is none.
///
/// # Safety
/// As for [`tk_encode`].
#[no_mangle]
pub unsafe extern "C" fn tk_token_id(t: *const TokenizerHandle, s: *const u8, len: usize) -> i64 {
    let id = t.as_ref().and_then(|t| t.0.id(text(s, len).ok()?));
    id.map_or(-1, i64::from)
}

/// The spelling of an id in the vocabulary (`bytes` false) or the bytes it
/// stands for.
///
/// # Safety
/// As for [`tk_encode`].
#[no_mangle]
pub unsafe extern "C" fn tk_token(t: *const TokenizerHandle, id: u32, bytes: bool, out: *mut Buf) -> i32 {
    entry(out, || {
        let t = &t.as_ref().ok_or_else(closed)?.0;
        let found = if bytes { t.token_bytes(id) } else { t.token(id).map(String::into_bytes) };
        found.ok_or_else(|| format!("no token has id {id}"))
    })
}

/// Added tokens as JSON: [{"id", "text", "special"}] by ascending id.
///
/// # Safety
/// As for [`tk_encode`].
#[no_mangle]
pub unsafe extern "C" fn tk_added_tokens(t: *const TokenizerHandle, out: *mut Buf) -> i32 {
    entry(out, || Ok(t.as_ref().ok_or_else(closed)?.0.added_json().into_bytes()))
}

/// Null if `t` is.
///
/// # Safety
/// `t` is null or open.
#[no_mangle]
pub unsafe extern "C" fn tk_stream_open(t: *const TokenizerHandle, skip_special: bool) -> *mut StreamHandle {
    let stream = t.as_ref().map(|t| StreamHandle(Stream::new(t.0.clone(), skip_special)));
    stream.map_or(std::ptr::null_mut(), |s| Box::into_raw(Box::new(s)))
}

/// # Safety
/// `s` is null or an open handle that nobody uses any more.
#[no_mangle]
pub unsafe extern "C" fn tk_stream_close(s: *mut StreamHandle) {
    if !s.is_null() {
        drop(Box::from_raw(s));
    }
}

/// One id to the text it makes certain; no answer needs no freeing.
///
/// # Safety
/// `s` is null or open, and used by one thread at a time.
#[no_mangle]
pub unsafe extern "C" fn tk_stream_step(s: *mut StreamHandle, id: u32, out: *mut Buf) -> i32 {
    entry(out, || Ok(s.as_mut().ok_or_else(closed)?.0.step(id)?.as_bytes().to_vec()))
}

/// The rest, without an unfinished character.
///
/// # Safety
/// As for [`tk_stream_step`].
#[no_mangle]
pub unsafe extern "C" fn tk_stream_flush(s: *mut StreamHandle, out: *mut Buf) -> i32 {
    entry(out, || Ok(s.as_mut().ok_or_else(closed)?.0.flush()?.as_bytes().to_vec()))
}
