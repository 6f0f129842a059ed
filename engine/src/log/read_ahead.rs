//! Reading ahead for those who read a log from disk in order.
//!
//! Owns the streams of one volume: where each such reader will ask next, and the bytes from there
//! on that a background task reads meanwhile. A reader is in order when it asks for the offset
//! behind its last answer; the first time costs nothing but a note. A read takes the stream's bytes
//! and leaves a new stream behind, so a seek, a failure or a reader that is gone leave nothing.
//!
//! Invariant: a stream holds bytes of a segment that is in the log, from the batch of `next` on, in
//! bounded memory that goes back before an append or a read is short of it. Failure: a failed read
//! ahead is forgotten, and the reader meets the disk's answer itself.

use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    time::Duration,
};

use super::{
    event::Event,
    segment::in_memory,
    state::{FileOf, Shared},
    volume::Volume,
};
use crate::{
    io::{
        DiskFile, Env,
        buf::{Chain, Pool, Slice},
    },
    limits::{
        DIRECT_ALIGNMENT_BYTES, READ_AHEAD_BUDGET_SHARE, READ_AHEAD_IDLE_MS, READ_AHEAD_STREAMS,
        READ_AHEAD_WINDOW_BYTES, READ_CHUNK_BYTES,
    },
    types::Offset,
};

/// The readers in order of one volume.
pub(super) struct ReadAhead<E: Env> {
    streams: RefCell<Vec<Stream<E>>>,
    last_id: Cell<u64>,
    budget_bytes: usize,
    expiring: Cell<bool>,
    /// A read ahead has ended.
    arrived: Event,
}

struct Stream<E: Env> {
    id: u64,
    log: Weak<Shared<E>>,
    /// Offset that the reader asks for next.
    next: Offset,
    /// The segment of the bytes.
    base: Offset,
    /// File position of the first byte ahead.
    position: u64,
    ahead: Chain,
    /// Bytes ahead, below which more are read; 0 until the reader has gone on once.
    window_bytes: usize,
    used_ns: u64,
    /// A piece is being read.
    reading: bool,
    /// Its reader is back and waits for that piece.
    claimed: bool,
}

/// Whether the last quarter of the buffers, which is for what cannot do without, stays free when
/// `bytes` more are taken.
pub(super) fn leaves_reserve(pool: &Pool, bytes: usize) -> bool {
    pool.in_use_bytes() + bytes <= pool.budget_bytes() / 4 * 3
}

/// Where a read ended and the next one in order goes on.
pub(super) struct Place<F> {
    /// The segment's file.
    pub(super) file: Rc<F>,
    /// The segment.
    pub(super) base: Offset,
    /// File position behind the last batch of the answer.
    pub(super) position: u64,
    /// Offset behind that batch.
    pub(super) next: Offset,
    /// What was read from `position` on beyond the answer.
    pub(super) rest: Chain,
}

/// What was read ahead for a reader.
pub(super) struct Taken {
    /// The segment of the bytes.
    pub(super) base: Offset,
    /// File position of the batch asked for, and of the first of the bytes.
    pub(super) position: u64,
    /// None, when the disk was slower than the reader.
    pub(super) bytes: Chain,
}

/// What was read ahead from the batch of `from` on, waiting for a piece in flight; `None` when
/// nobody has read up to there.
pub(super) async fn take<E: Env>(shared: &Shared<E>, from: Offset) -> Option<Taken> {
    let streams = shared.volume.read_ahead();
    let id = streams.claim(shared, from)?;
    let stream = streams.arrived.wait_for(|| streams.remove_settled(id)).await?;
    Some(Taken { base: stream.base, position: stream.position, bytes: stream.ahead })
}

/// Remembers where a read of at most `max_bytes` ended. Reads ahead from there if the reader was
/// `in_order`.
pub(super) fn follow<E: Env>(
    shared: &Rc<Shared<E>>,
    place: Place<FileOf<E>>,
    max_bytes: usize,
    in_order: bool,
) {
    let streams = shared.volume.read_ahead();
    let window_bytes = max_bytes.saturating_add(READ_CHUNK_BYTES).min(READ_AHEAD_WINDOW_BYTES);
    let keeps = in_order && streams.has_room(&shared.pool, held_bytes(&place.rest));
    let id = streams.last_id.get() + 1;
    streams.last_id.set(id);
    streams.add(Stream {
        id,
        log: Rc::downgrade(shared),
        next: place.next,
        base: place.base,
        position: place.position,
        ahead: if keeps { place.rest } else { Chain::new() },
        window_bytes: if in_order { window_bytes } else { 0 },
        used_ns: shared.env.monotonic_ns(),
        reading: false,
        claimed: false,
    });
    if in_order {
        shared.env.spawn_background(fill(shared.clone(), place.file, id));
    }
    if !streams.expiring.replace(true) {
        shared.env.spawn_background(expire_rounds(shared.env.clone(), shared.volume.clone()));
    }
}

/// Reads ahead until the stream's window is full, its reader is back or memory is short.
async fn fill<E: Env>(shared: Rc<Shared<E>>, file: Rc<FileOf<E>>, id: u64) {
    let streams = shared.volume.read_ahead();
    while let Some((at, length)) = streams.next_piece(&shared, id) {
        let piece = file.read_at(at, length).await;
        if !streams.put(id, at, piece.ok()) {
            return;
        }
    }
}

/// Drops the streams whose readers have not come back.
async fn expire_rounds<E: Env>(env: E, volume: Volume<E>) {
    let idle = Duration::from_millis(READ_AHEAD_IDLE_MS);
    let idle_ns = READ_AHEAD_IDLE_MS * 1_000_000;
    loop {
        env.sleep(idle).await;
        let ahead = volume.read_ahead();
        let since_ns = env.monotonic_ns().saturating_sub(idle_ns);
        ahead.streams.borrow_mut().retain(|stream| stream.used_ns > since_ns);
        // Whoever waits for a piece of a stream that is gone reads for itself.
        ahead.arrived.notify();
        if ahead.streams.borrow().is_empty() {
            ahead.expiring.set(false);
            return;
        }
    }
}

/// File position up to which reading ahead makes sense: what is written and not in memory; `None`
/// when the segment is gone.
fn readable_end<E: Env>(shared: &Shared<E>, base: Offset) -> Option<u64> {
    let state = shared.state.borrow();
    let at = state.segments.partition_point(|segment| segment.base < base);
    let segment = state.segments.get(at).filter(|segment| segment.base == base)?;
    let written = state.written_size(segment);
    let in_tail = state.tail.first_offset().filter(|first| *first < segment.end);
    let tail = in_tail.map(|first| state.tail.locate(first).saturating_sub(segment.origin));
    Some(tail.map_or(written, |tail| tail.min(written)))
}

/// Pooled memory that the bytes keep, at most.
fn held_bytes(chain: &Chain) -> usize {
    chain.slices().len() * READ_CHUNK_BYTES
}

impl<E: Env> Stream<E> {
    fn is_of(&self, shared: &Shared<E>) -> bool {
        // The weak handle keeps the address from being another log's.
        std::ptr::eq(self.log.as_ptr(), shared)
    }

    fn end(&self) -> u64 {
        self.position + self.ahead.len() as u64
    }
}

impl<E: Env> ReadAhead<E> {
    /// No streams; their bytes will keep within a share of `tail_budget_bytes`.
    pub(super) fn new(tail_budget_bytes: usize) -> Self {
        Self {
            streams: RefCell::default(),
            last_id: Cell::new(0),
            budget_bytes: tail_budget_bytes / READ_AHEAD_BUDGET_SHARE,
            expiring: Cell::new(false),
            arrived: Event::default(),
        }
    }

    /// Pooled memory held, in bytes, at most.
    pub(super) fn held_bytes(&self) -> usize {
        self.streams.borrow().iter().map(|stream| held_bytes(&stream.ahead)).sum()
    }

    /// Gives all bytes back; returns how many. Readers go on without.
    pub(super) fn give_back(&self) -> usize {
        let held = self.held_bytes();
        for stream in self.streams.borrow_mut().iter_mut() {
            stream.ahead = Chain::new();
            stream.window_bytes = 0;
        }
        held
    }

    /// Drops what was read before `start`, the start of the log from now on.
    pub(super) fn forget_before(&self, shared: &Shared<E>, start: Offset) {
        let gone = |stream: &Stream<E>| stream.is_of(shared) && stream.next < start;
        self.streams.borrow_mut().retain(|stream| !gone(stream));
        self.arrived.notify();
    }

    fn has_room(&self, pool: &Pool, bytes: usize) -> bool {
        leaves_reserve(pool, bytes) && self.held_bytes() + bytes <= self.budget_bytes
    }

    fn add(&self, stream: Stream<E>) {
        let mut streams = self.streams.borrow_mut();
        let same =
            |other: &Stream<E>| Weak::ptr_eq(&other.log, &stream.log) && other.next == stream.next;
        // A reader that stays where it is leaves one note, not one a read.
        streams.retain(|other| other.window_bytes > 0 || other.claimed || !same(other));
        if streams.len() >= READ_AHEAD_STREAMS {
            let oldest = |stream: &Stream<E>| (stream.window_bytes > 0, stream.used_ns);
            let position = (0..streams.len()).min_by_key(|at| oldest(&streams[*at]));
            position.map(|at| streams.swap_remove(at));
        }
        streams.push(stream);
        assert!(streams.len() <= READ_AHEAD_STREAMS, "the readers in order are bounded");
    }

    /// The stream that goes on at `from`, for one reader alone.
    fn claim(&self, shared: &Shared<E>, from: Offset) -> Option<u64> {
        let mut streams = self.streams.borrow_mut();
        let fits = |stream: &&mut Stream<E>| {
            !stream.claimed && stream.next == from && stream.is_of(shared)
        };
        // Of several readers at one place, the one with the most to give.
        let stream = streams.iter_mut().filter(fits).max_by_key(|stream| stream.ahead.len())?;
        stream.claimed = true;
        Some(stream.id)
    }

    /// Takes the stream out once no piece is in flight; `Some(None)` when it is gone.
    fn remove_settled(&self, id: u64) -> Option<Option<Stream<E>>> {
        let mut streams = self.streams.borrow_mut();
        match streams.iter().position(|stream| stream.id == id) {
            None => Some(None),
            Some(at) if streams[at].reading => None,
            Some(at) => Some(Some(streams.swap_remove(at))),
        }
    }

    /// File position and length of the next piece to read.
    fn next_piece(&self, shared: &Shared<E>, id: u64) -> Option<(u64, usize)> {
        if !self.has_room(&shared.pool, READ_CHUNK_BYTES) {
            return None;
        }
        let mut streams = self.streams.borrow_mut();
        let stream = streams.iter_mut().find(|stream| stream.id == id)?;
        if stream.claimed || stream.ahead.len() >= stream.window_bytes {
            return None;
        }
        let at = stream.end();
        let left = readable_end(shared, stream.base)?.saturating_sub(at);
        // As other cold reads, a piece ends with its buffer.
        let chunk = READ_CHUNK_BYTES - in_memory(at % DIRECT_ALIGNMENT_BYTES as u64);
        let length = chunk.min(in_memory(left));
        stream.reading = length > 0;
        (length > 0).then_some((at, length))
    }

    /// Adds a piece that was read at `at`; whether the stream still wants it.
    fn put(&self, id: u64, at: u64, piece: Option<Slice>) -> bool {
        let mut streams = self.streams.borrow_mut();
        let stream = streams.iter_mut().find(|stream| stream.id == id);
        let wanted = stream.is_some_and(|stream| {
            stream.reading = false;
            let piece = piece
                .filter(|piece| !piece.is_empty() && stream.window_bytes > 0 && stream.end() == at);
            let wanted = piece.is_some();
            piece.into_iter().for_each(|piece| stream.ahead.push(piece));
            wanted
        });
        drop(streams);
        self.arrived.notify();
        wanted
    }
}
