//! An allocator that counts what the calling thread takes, so that a bound on memory is a test.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::OnceLock,
};

/// Told the size of each allocation, on the thread that makes it.
static OBSERVER: OnceLock<fn(usize)> = OnceLock::new();

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { calls: 0, live: 0, peak: 0 }) };
}

/// What a piece of work took from the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Allocations and reallocations.
    pub calls: u64,
    /// Bytes taken and not given back.
    pub live: i64,
    /// Most bytes that were taken at a time.
    pub peak: i64,
}

/// The system's allocator, counted.
struct Counting;

/// Tells `observer` of every allocation of the process from now on; it must not allocate itself.
/// Only the first observer counts.
#[allow(dead_code, reason = "not every test that counts looks at other threads")]
pub fn observe(observer: fn(usize)) {
    OBSERVER.get_or_init(|| observer);
}

fn took(bytes: usize) {
    if let Some(observer) = OBSERVER.get() {
        observer(bytes);
    }
}

fn count(calls: u64, bytes: i64) {
    let mut counts = COUNTS.get();
    counts.calls += calls;
    counts.live += bytes;
    counts.peak = counts.peak.max(counts.live);
    COUNTS.set(counts);
}

fn size(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches only a
// thread-local cell that needs neither allocation nor destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, size(layout.size()));
        took(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, size(layout.size()));
        took(layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, -size(layout.size()));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(1, size(bytes) - size(layout.size()));
        took(bytes);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Does `work` and says what this thread took for it.
#[allow(dead_code, reason = "not every test that counts looks at its own thread")]
pub fn counted<T>(work: impl FnOnce() -> T) -> (T, Counts) {
    COUNTS.set(Counts { calls: 0, live: 0, peak: 0 });
    let result = work();
    (result, COUNTS.get())
}
