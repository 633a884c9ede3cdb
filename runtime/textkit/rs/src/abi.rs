//! The conventions every entry shares: buffers, statuses, and the one place
//! where panics stop.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;

/// Nothing went wrong; the buffer holds the answer.
pub const OK: i32 = 0;
/// The caller's input was refused; the buffer holds the reason as text.
pub const ERR: i32 = 1;
/// The library itself is at fault (a caught panic); the buffer says where.
pub const PANIC: i32 = 2;

/// Bytes owned by this library until `tk_buf_free`. A null `ptr` is empty and
/// needs no freeing.
#[repr(C)]
pub struct Buf {
    ptr: *mut u8,
    len: usize,
    cap: usize,
}

impl Buf {
    pub fn from_vec(v: Vec<u8>) -> Self {
        if v.is_empty() {
            return Buf { ptr: ptr::null_mut(), len: 0, cap: 0 };
        }
        let mut v = std::mem::ManuallyDrop::new(v);
        Buf { ptr: v.as_mut_ptr(), len: v.len(), cap: v.capacity() }
    }
}

/// Frees what an entry returned and makes the buffer empty.
///
/// # Safety
/// `buf` is null or points to a buffer that this library filled.
#[no_mangle]
pub unsafe extern "C" fn tk_buf_free(buf: *mut Buf) {
    let Some(buf) = buf.as_mut() else { return };
    if !buf.ptr.is_null() {
        drop(Vec::from_raw_parts(buf.ptr, buf.len, buf.cap));
    }
    *buf = Buf { ptr: ptr::null_mut(), len: 0, cap: 0 };
}

/// Views foreign memory; null or zero length is the empty slice.
///
/// # Safety
/// `ptr` is null or valid for `len` items for the length of the call.
pub unsafe fn slice<'a, T>(ptr: *const T, len: usize) -> &'a [T] {
    if ptr.is_null() || len == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(ptr, len)
    }
}

/// Views foreign memory as text, refusing bytes that are not UTF-8.
///
/// # Safety
/// As for [`slice`].
pub unsafe fn text<'a>(ptr: *const u8, len: usize) -> Result<&'a str, String> {
    std::str::from_utf8(slice(ptr, len)).map_err(|e| format!("not UTF-8 at byte {}", e.valid_up_to()))
}

/// Runs an entry: its bytes or its error text go to `out`, a panic becomes
/// [`PANIC`] with its message.
///
/// # Safety
/// `out` is null or valid for writing; what it held before is overwritten.
pub unsafe fn entry(out: *mut Buf, f: impl FnOnce() -> Result<Vec<u8>, String>) -> i32 {
    let (status, bytes) = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(v)) => (OK, v),
        Ok(Err(e)) => (ERR, e.into_bytes()),
        Err(p) => (PANIC, panic_text(&*p).into_bytes()),
    };
    if !out.is_null() {
        out.write(Buf::from_vec(bytes));
    }
    status
}

/// The words of a caught panic.
pub fn panic_text(p: &(dyn std::any::Any + Send)) -> String {
    let words = p.downcast_ref::<&str>().map(|s| s.to_string());
    words.or_else(|| p.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic without words".into())
}

/// Copies ids into bytes of the machine's order, four each.
pub fn id_bytes(ids: &[u32]) -> Vec<u8> {
    ids.iter().flat_map(|id| id.to_ne_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_status_with_its_words() {
        let mut out = Buf::from_vec(vec![]);
        let status = unsafe { entry(&mut out, || panic!("boom {}", 1)) };
        assert_eq!(status, PANIC);
        assert_eq!(unsafe { slice(out.ptr, out.len) }, b"boom 1");
        unsafe { tk_buf_free(&mut out) };
        assert!(out.ptr.is_null());
    }

    #[test]
    fn null_and_empty_are_the_empty_slice() {
        unsafe {
            assert!(slice::<u8>(ptr::null(), 5).is_empty());
            assert_eq!(text(ptr::null(), 0), Ok(""));
            tk_buf_free(ptr::null_mut());
            assert_eq!(entry(ptr::null_mut(), || Ok(vec![1])), OK);
        }
    }

    #[test]
    fn bad_utf8_is_named_by_its_place() {
        let b = b"ab\xff";
        assert_eq!(unsafe { text(b.as_ptr(), 3) }, Err("not UTF-8 at byte 2".into()));
    }
}
