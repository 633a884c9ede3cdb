//! A place for work that nobody vouches for: a thread of its own, with room to
//! recurse, a bound on memory and a bound on time.
//!
//! Fuel bounds what a template engine counts, and it doesn't count everything (a
//! list doubled often enough, constants folded while compiling). A thread can't be
//! ended from outside, and an allocator must neither unwind nor fail, for failing
//! aborts the process. So the allocator of a confined thread that is over its
//! bounds does not return: the thread is parked for good with what it holds, at
//! most [`MEMORY`], and its caller goes on with an error.

use crate::abi::panic_text;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, OnceCell};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The most bytes that confined work may hold.
const MEMORY: isize = 256 << 20;
/// Values and expressions may be nested as deep as fuel and source allow, and
/// walking or dropping them recurses. Pages are only taken when touched.
const STACK: usize = 512 << 20;
/// How long confined work may take.
pub const TIME: Duration = Duration::from_secs(8);

/// Why confined work has no result.
#[derive(Debug)]
pub enum Stop {
    /// It ended, with its own error or a panic.
    Failed(String),
    /// It was over its bounds and its thread is parked for good: doing the same
    /// again would park another.
    Parked(&'static str),
}

/// What a confined thread and its caller share.
struct Shared {
    caller: Thread,
    /// The thread has been parked for good.
    parked: AtomicBool,
    /// The caller has gone: park at the next allocation.
    abandoned: AtomicBool,
}

thread_local! {
    /// What is left of the thread's memory; none means that it is not confined.
    static LEFT: Cell<Option<isize>> = const { Cell::new(None) };
    static SHARED: OnceCell<Arc<Shared>> = const { OnceCell::new() };
}

/// Runs `f` confined and returns its result.
pub fn confine<T: Send + 'static>(time: Duration, f: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, Stop> {
    let shared = Arc::new(Shared { caller: thread::current(), parked: false.into(), abandoned: false.into() });
    let (result, given) = mpsc::channel();
    let inner = shared.clone();
    let work = move || {
        let caller = inner.caller.clone();
        let _ = SHARED.with(|s| s.set(inner));
        LEFT.set(Some(MEMORY));
        let r = catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|p| Err(format!("panic: {}", panic_text(&*p))));
        LEFT.set(None);
        let _ = result.send(r);
        caller.unpark();
    };
    let spawned = thread::Builder::new().name("ingot-confined".into()).stack_size(STACK).spawn(work);
    spawned.map_err(|e| Stop::Failed(format!("start a thread: {e}")))?;
    wait(&shared, &given, time)
}

fn wait<T>(shared: &Shared, given: &mpsc::Receiver<Result<T, String>>, time: Duration) -> Result<T, Stop> {
    let end = Instant::now() + time;
    loop {
        if let Ok(r) = given.try_recv() {
            return r.map_err(Stop::Failed);
        }
        if shared.parked.load(Ordering::Acquire) {
            return Err(Stop::Parked("too much memory"));
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            shared.abandoned.store(true, Ordering::Release);
            return Err(Stop::Parked("too much time"));
        }
        thread::park_timeout(left);
    }
}

/// Counts what a confined thread takes; any other thread passes through.
struct Confining;

#[global_allocator]
static ALLOCATOR: Confining = Confining;

impl Confining {
    #[inline]
    fn charge(bytes: isize) {
        if let Some(left) = LEFT.get() {
            LEFT.set(Some(left - bytes));
            if bytes > 0 {
                check(left - bytes);
            }
        }
    }
}

#[cold]
fn park_for_good(shared: &Shared) -> ! {
    LEFT.set(None);
    shared.parked.store(true, Ordering::Release);
    shared.caller.unpark();
    loop {
        thread::park();
    }
}

fn check(left: isize) {
    SHARED.with(|s| {
        if let Some(shared) = s.get() {
            if left < 0 || shared.abandoned.load(Ordering::Relaxed) {
                park_for_good(shared);
            }
        }
    });
}

// SAFETY: every call is the system allocator's; counting neither allocates nor
// unwinds.
unsafe impl GlobalAlloc for Confining {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Confining::charge(layout.size() as isize);
        System.alloc(layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Confining::charge(layout.size() as isize);
        System.alloc_zeroed(layout)
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        Confining::charge(new_size as isize - layout.size() as isize);
        System.realloc(ptr, layout, new_size)
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        Confining::charge(-(layout.size() as isize));
        System.dealloc(ptr, layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_errors_and_panics_come_back() {
        assert_eq!(confine(TIME, || Ok(vec![1; 1000])).unwrap().len(), 1000);
        let refused = confine(TIME, || Err::<(), String>("no".into()));
        assert!(matches!(refused, Err(Stop::Failed(e)) if e == "no"));
        let panicked = confine(TIME, || -> Result<(), String> { panic!("oh") });
        assert!(matches!(panicked, Err(Stop::Failed(e)) if e == "panic: oh"));
    }

    #[test]
    fn too_much_memory_parks_the_thread_and_not_us() {
        let greedy = || {
            let mut all = vec![];
            loop {
                all.push(vec![0u8; 1 << 20]);
                if all.len() > 10_000 {
                    return Ok(all.len());
                }
            }
        };
        assert!(matches!(confine(TIME, greedy), Err(Stop::Parked("too much memory"))));
        // One allocation, larger than all there is.
        assert!(matches!(confine(TIME, || Ok(vec![1u8; 1 << 40])), Err(Stop::Parked("too much memory"))));
    }

    #[test]
    fn too_much_time_too() {
        let slow = || -> Result<(), String> {
            loop {
                std::hint::black_box(vec![0u8; 64]);
            }
        };
        let stop = confine(Duration::from_millis(50), slow);
        assert!(matches!(stop, Err(Stop::Parked("too much time"))));
    }

    #[test]
    fn memory_given_back_is_not_held_against_it() {
        let modest = || Ok((0..10_000).map(|_| vec![0u8; 1 << 20].len()).sum::<usize>());
        assert_eq!(confine(TIME, modest).unwrap(), 10_000 << 20);
    }

    #[test]
    fn deep_recursion_has_room() {
        fn depth(n: u64) -> u64 {
            if n == 0 {
                0
            } else {
                std::hint::black_box(depth(n - 1)) + 1
            }
        }
        assert_eq!(confine(TIME, || Ok(depth(1_000_000))).unwrap(), 1_000_000);
    }
}
