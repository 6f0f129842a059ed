//! What the thread of each shard takes from the allocator and copies, readable from any thread.
//!
//! Shards are told by the names of their threads. The engine's count of copied bytes belongs to the
//! thread that copies; it is brought over here at each allocation of that thread, so that the path
//! under test carries no counter for the sake of the test. Invariant: the figures only grow while
//! one broker runs; a new thread of the same name starts its copied bytes at zero.

use std::{
    cell::Cell,
    iter::Sum,
    ops::Sub,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use millrace_engine::io::buf::copied_bytes;

use crate::counting;

/// Shards that are counted; a broker under test has no more.
pub const SHARDS_COUNTED: usize = 3;

static SHARDS: [Counters; SHARDS_COUNTED] = [const { Counters::new() }; SHARDS_COUNTED];

thread_local! {
    static SEAT: Cell<Seat> = const { Cell::new(Seat::Unknown) };
}

/// What a thread is to the counters.
#[derive(Clone, Copy)]
enum Seat {
    Unknown,
    NoShard,
    Shard(usize),
}

struct Counters {
    allocations: AtomicU64,
    heap_bytes: AtomicU64,
    copied_bytes: AtomicU64,
}

impl Counters {
    const fn new() -> Self {
        Self {
            allocations: AtomicU64::new(0),
            heap_bytes: AtomicU64::new(0),
            copied_bytes: AtomicU64::new(0),
        }
    }
}

/// What a shard took, since its thread's start or between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Allocations and reallocations.
    pub allocations: u64,
    /// Bytes asked of the allocator, given back or not.
    pub heap_bytes: u64,
    /// Bytes copied into buffers.
    pub copied_bytes: u64,
}

impl Sub for Taken {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            allocations: self.allocations - earlier.allocations,
            heap_bytes: self.heap_bytes - earlier.heap_bytes,
            copied_bytes: self.copied_bytes - earlier.copied_bytes,
        }
    }
}

impl Sum for Taken {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            allocations: sum.allocations + one.allocations,
            heap_bytes: sum.heap_bytes + one.heap_bytes,
            copied_bytes: sum.copied_bytes + one.copied_bytes,
        })
    }
}

/// Counts from now on.
pub fn start() {
    counting::observe(note);
}

/// What `shard` took so far. Its copied bytes are those up to its last allocation.
pub fn taken(shard: usize) -> Taken {
    let counters = &SHARDS[shard];
    Taken {
        allocations: counters.allocations.load(Ordering::Relaxed),
        heap_bytes: counters.heap_bytes.load(Ordering::Relaxed),
        copied_bytes: counters.copied_bytes.load(Ordering::Relaxed),
    }
}

/// One allocation of the calling thread.
fn note(bytes: usize) {
    let shard = match SEAT.get() {
        Seat::Shard(shard) => shard,
        Seat::NoShard => return,
        Seat::Unknown => {
            // Asking for the name may allocate: that allocation is nobody's.
            SEAT.set(Seat::NoShard);
            let Some(shard) = shard_of_this_thread() else { return };
            SEAT.set(Seat::Shard(shard));
            shard
        }
    };
    let counters = &SHARDS[shard];
    counters.allocations.fetch_add(1, Ordering::Relaxed);
    counters.heap_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    counters.copied_bytes.store(copied_bytes(), Ordering::Relaxed);
}

fn shard_of_this_thread() -> Option<usize> {
    let shard = thread::current().name()?.strip_prefix("shard-")?.parse().ok()?;
    (shard < SHARDS_COUNTED).then_some(shard)
}
