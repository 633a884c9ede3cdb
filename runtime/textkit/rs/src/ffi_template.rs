//! Chat templates as C handles.

use crate::abi::{entry, slice, text, Buf};
use crate::strftime::Local;
use crate::template::Template;

pub struct TemplateHandle(Template);

/// Compiles a template; `*handle` is set on success only.
///
/// # Safety
/// `src` is valid for `len` bytes, `handle` and `out` are null or writable.
#[no_mangle]
pub unsafe extern "C" fn tk_template_open(src: *const u8, len: usize, handle: *mut *mut TemplateHandle, out: *mut Buf) -> i32 {
    entry(out, || {
        let template = Template::compile(text(src, len)?)?;
        let handle = handle.as_mut().ok_or("handle is null")?;
        *handle = Box::into_raw(Box::new(TemplateHandle(template)));
        Ok(vec![])
    })
}

/// # Safety
/// `t` is null or an open handle that nobody uses any more.
#[no_mangle]
pub unsafe extern "C" fn tk_template_close(t: *mut TemplateHandle) {
    if !t.is_null() {
        let handle = Box::from_raw(t);
        entry(std::ptr::null_mut(), move || {
            drop(handle);
            Ok(vec![])
        });
    }
}

/// Renders with a JSON object; `seconds` and `micros` are the local clock since
/// 1970-01-01 00:00 local time.
///
/// # Safety
/// `t` is null or open; `context` is valid for `len` bytes.
#[no_mangle]
pub unsafe extern "C" fn tk_render(
    t: *const TemplateHandle,
    context: *const u8,
    len: usize,
    seconds: i64,
    micros: u32,
    out: *mut Buf,
) -> i32 {
    entry(out, || {
        let t = t.as_ref().ok_or("handle is null")?;
        t.0.render(slice(context, len), Local { seconds, micros }).map(String::into_bytes)
    })
}
