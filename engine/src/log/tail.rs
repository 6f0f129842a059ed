//! The end of the log in memory: the buffers that appends are copied into once, from which the
//! device is written and tail readers are served.
//!
//! Positions here are virtual: they run on over segments, so position 0 of a segment's file is that
//! segment's `origin`. A chunk starts at a position whose file position is a multiple of the direct
//! alignment, so that memory and file agree modulo it and a direct write needs no copy.
//!
//! Invariant: the chunks cover `[start, end)` without a gap; every chunk in which a batch starts
//! has a point for the first of them. When no memory is left, `make_room` says so and changes
//! nothing.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::segment::in_memory;
use crate::{
    batch::{HEADER_BYTES, Header},
    io::buf::{Chain, IoRange, Pool, TailBuf},
    limits::{BUFFER_CLASS_BYTES, DIRECT_ALIGNMENT_BYTES, TAIL_CHUNK_MAX_BYTES, TAIL_POINT_BYTES},
    types::Offset,
};

/// A chunk that took longer than this to fill is followed by a smaller one.
const SLOW_FILL_MS: i64 = 10_000;
/// A chunk that took less than this to fill is followed by a larger one.
const FAST_FILL_MS: i64 = 1_000;

/// Ranges of one write.
pub(super) type Ranges = SmallVec<[IoRange; 4]>;

struct Chunk {
    start: u64,
    buffer: TailBuf,
    opened_ms: i64,
    /// A batch starts in this chunk (and its first has a point).
    has_point: bool,
    /// No more bytes go in: a new segment starts behind it.
    closed: bool,
}

impl Chunk {
    fn end(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    fn is_full(&self) -> bool {
        self.closed || self.buffer.spare() == 0
    }
}

/// Where a batch starts; kept for the first batch of each chunk and every few KiB.
#[derive(Clone, Copy)]
struct Point {
    offset: Offset,
    at: u64,
}

/// The buffers of the end of one log.
pub(super) struct Tail {
    chunks: VecDeque<Chunk>,
    points: VecDeque<Point>,
    spare: VecDeque<TailBuf>,
    end: u64,
    chunk_bytes: usize,
    /// Bytes of the chunks opened since [`Tail::take_opened`].
    opened_bytes: usize,
    /// Bytes of the chunks' memory.
    held_bytes: usize,
}

impl Tail {
    /// An empty tail at `end`, whose file position must be a multiple of the alignment.
    pub(super) fn new(end: u64) -> Self {
        Self {
            chunks: VecDeque::new(),
            points: VecDeque::new(),
            spare: VecDeque::new(),
            end,
            chunk_bytes: BUFFER_CLASS_BYTES[0],
            opened_bytes: 0,
            held_bytes: 0,
        }
    }

    /// A tail that goes on behind `block`, the last, partly filled block of the file.
    pub(super) fn resumed(block_start: u64, block: TailBuf, now_ms: i64) -> Self {
        assert!(block.len() < DIRECT_ALIGNMENT_BYTES, "a whole block needs no rewriting");
        let mut tail = Self::new(block_start + block.len() as u64);
        tail.held_bytes = block.capacity();
        tail.chunks.push_back(Chunk {
            start: block_start,
            buffer: block,
            opened_ms: now_ms,
            has_point: false,
            closed: false,
        });
        tail
    }

    /// Virtual position behind the last byte.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Offset from which on all batches lie here in memory; `None` when none does.
    pub(super) fn first_offset(&self) -> Option<Offset> {
        self.points.front().map(|point| point.offset)
    }

    /// Bytes of pooled memory held.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Sees to it that `bytes` can be appended, in a chunk of their own if `fresh`; `false` when
    /// the pool has not got them.
    pub(super) fn make_room(
        &mut self,
        pool: &Pool,
        bytes: usize,
        fresh: bool,
        now_ms: i64,
    ) -> bool {
        let open = self.chunks.back().filter(|chunk| !chunk.closed && !fresh);
        let mut room = open.map_or(0, |chunk| chunk.buffer.spare());
        room += self.spare.iter().map(TailBuf::spare).sum::<usize>();
        while room < bytes {
            self.adapt(pool, now_ms);
            let needed = (bytes - room).min(TAIL_CHUNK_MAX_BYTES);
            let buffer = pool.take(self.chunk_bytes.max(needed)).or_else(|| pool.take(needed));
            let Some(buffer) = buffer else {
                self.spare.clear();
                return false;
            };
            room += buffer.capacity();
            self.spare.push_back(buffer);
        }
        true
    }

    /// Chooses the next chunk's size by how fast the last one filled; small ones once half the
    /// pool is out, so that many busy logs can share it.
    fn adapt(&mut self, pool: &Pool, now_ms: i64) {
        let Some(last) = self.chunks.back() else { return };
        let fill_ms = now_ms - last.opened_ms;
        let scarce = pool.in_use_bytes() > pool.budget_bytes() / 4 * 3;
        let largest = if scarce { BUFFER_CLASS_BYTES[1] } else { TAIL_CHUNK_MAX_BYTES };
        if fill_ms < FAST_FILL_MS {
            self.chunk_bytes = (self.chunk_bytes * 4).min(largest);
        } else if fill_ms > SLOW_FILL_MS {
            self.chunk_bytes = (self.chunk_bytes / 4).max(BUFFER_CLASS_BYTES[0]);
        }
    }

    /// Notes that a batch with `offset` starts with the next byte. Room was made before.
    pub(super) fn begin_batch(&mut self, offset: Offset, now_ms: i64) {
        if self.chunks.back().is_none_or(Chunk::is_full) {
            self.open_chunk(now_ms);
        }
        let at = self.end;
        let chunk = self.chunks.back_mut().expect("a chunk is open");
        let stale = self.points.back().is_none_or(|point| at - point.at >= TAIL_POINT_BYTES);
        if !chunk.has_point || stale {
            chunk.has_point = true;
            let ascends =
                self.points.back().is_none_or(|last| last.offset < offset && last.at < at);
            assert!(ascends, "batches are appended in the order of their offsets");
            self.points.push_back(Point { offset, at });
        }
    }

    /// Copies bytes of the batch begun last. Room was made before.
    pub(super) fn append(&mut self, mut bytes: &[u8], now_ms: i64) {
        self.end += bytes.len() as u64;
        loop {
            let chunk = self.chunks.back_mut().expect("a batch was begun");
            if !chunk.closed {
                let count = chunk.buffer.append(bytes);
                bytes = &bytes[count..];
            }
            if bytes.is_empty() {
                return;
            }
            self.open_chunk(now_ms);
        }
    }

    /// Bytes of the chunks opened since the last call; `None` for none.
    pub(super) fn take_opened(&mut self) -> Option<usize> {
        let bytes = std::mem::take(&mut self.opened_bytes);
        (bytes > 0).then_some(bytes)
    }

    fn open_chunk(&mut self, now_ms: i64) {
        let buffer = self.spare.pop_front().expect("room was made for this append");
        assert!(buffer.is_empty(), "a chunk starts empty");
        assert!(self.chunks.back().is_none_or(Chunk::is_full), "chunks are filled in order");
        let start = self.chunks.back().map_or(self.end, Chunk::end);
        self.opened_bytes += buffer.capacity();
        self.held_bytes += buffer.capacity();
        self.chunks.push_back(Chunk {
            start,
            buffer,
            opened_ms: now_ms,
            has_point: false,
            closed: false,
        });
    }

    /// Ends the segment: the next batch starts a chunk of its own, at file position 0.
    pub(super) fn close_chunk(&mut self) {
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.closed = true;
        }
    }

    /// The memory of `[from, to)`, both of one segment, for one direct write: `from` lies at a
    /// multiple of the alignment, the end is filled up with zeros to the next one.
    pub(super) fn io_ranges(&mut self, from: u64, to: u64) -> Ranges {
        let mut ranges = Ranges::new();
        let first = self.chunk_at(from);
        for chunk in self.chunks.iter_mut().skip(first).take_while(|chunk| chunk.start < to) {
            let start = in_memory(from.max(chunk.start) - chunk.start);
            let end = in_memory(to.min(chunk.end()) - chunk.start);
            if to >= chunk.end() {
                chunk.buffer.zero_to_alignment();
            }
            assert!(start.is_multiple_of(DIRECT_ALIGNMENT_BYTES), "memory and file agree");
            let end = end.next_multiple_of(DIRECT_ALIGNMENT_BYTES);
            ranges.push(chunk.buffer.io_range(start..end));
        }
        assert!(!ranges.is_empty(), "unwritten bytes lie in memory");
        ranges
    }

    /// Index of the chunk that holds position `at`, or the number of chunks.
    fn chunk_at(&self, at: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.end() <= at)
    }

    /// Whether the oldest chunk may go: all its bytes are with the device (`written`) and it is not
    /// the one that grows.
    pub(super) fn front_is_evictable(&self, written: u64) -> bool {
        self.chunks.len() > 1 && self.chunks.front().is_some_and(|chunk| chunk.end() <= written)
    }

    /// Gives the oldest chunk back; returns its bytes.
    pub(super) fn evict_front(&mut self) -> usize {
        let Some(chunk) = self.chunks.pop_front() else { return 0 };
        let start = self.chunks.front().map_or(self.end, |chunk| chunk.start);
        while self.points.front().is_some_and(|point| point.at < start) {
            self.points.pop_front();
        }
        self.held_bytes -= chunk.buffer.capacity();
        chunk.buffer.capacity()
    }

    /// Gives back all but the last, partly filled block, which moves to a block of its own. Only
    /// when everything up to the end is with the device. Readers go to the file afterwards.
    pub(super) fn shrink(&mut self, pool: &Pool, now_ms: i64) {
        self.spare.clear();
        self.chunk_bytes = BUFFER_CLASS_BYTES[0];
        while self.chunks.len() > 1 {
            self.evict_front();
        }
        let Some(last) = self.chunks.front() else { return };
        let rest = last.buffer.len() % DIRECT_ALIGNMENT_BYTES;
        if rest == 0 || last.closed {
            self.evict_front();
            return;
        }
        if last.buffer.capacity() == BUFFER_CLASS_BYTES[0] {
            return;
        }
        let mut bytes = [0; DIRECT_ALIGNMENT_BYTES];
        bytes[..rest].copy_from_slice(&last.buffer[last.buffer.len() - rest..]);
        // Its memory goes back first: the pool may have no other.
        self.chunks.clear();
        let block = pool.take(DIRECT_ALIGNMENT_BYTES);
        let mut block = block.unwrap_or_else(|| TailBuf::unpooled(DIRECT_ALIGNMENT_BYTES));
        block.append(&bytes[..rest]);
        let end = self.end;
        let chunk_bytes = self.chunk_bytes;
        *self = Self::resumed(end - rest as u64, block, now_ms);
        self.chunk_bytes = chunk_bytes;
    }

    /// Whether [`Tail::shrink`] would give memory back.
    pub(super) fn can_shrink(&self) -> bool {
        self.held_bytes() > BUFFER_CLASS_BYTES[0]
    }

    fn copy_to(&self, at: u64, target: &mut [u8]) {
        let mut at = at;
        let mut done = 0;
        for chunk in self.chunks.iter().skip(self.chunk_at(at)) {
            let start = in_memory(at - chunk.start);
            let count = (chunk.buffer.len() - start).min(target.len() - done);
            target[done..done + count].copy_from_slice(&chunk.buffer[start..start + count]);
            done += count;
            at += count as u64;
            if done == target.len() {
                return;
            }
        }
        panic!("a batch in memory is whole");
    }

    fn header(&self, at: u64) -> Header {
        let mut bytes = [0; HEADER_BYTES];
        self.copy_to(at, &mut bytes);
        Header::parse(&bytes)
    }

    /// Position of the batch that holds `offset`, which lies in memory.
    pub(super) fn locate(&self, offset: Offset) -> u64 {
        let next = self.points.partition_point(|point| point.offset <= offset);
        assert!(next > 0, "the caller asked for the first offset in memory");
        let mut at = self.points[next - 1].at;
        loop {
            let header = self.header(at);
            if header.last_offset() >= offset {
                return at;
            }
            at += header.size_bytes() as u64;
        }
    }

    /// End of the whole batches from `start` on that end at or before `up_to` and fit into
    /// `max_bytes`; at least one batch, however large, if one ends there.
    pub(super) fn limit(&self, start: u64, max_bytes: usize, up_to: Offset) -> u64 {
        assert!(start <= self.end, "a read starts inside the tail");
        let cap = start.saturating_add(max_bytes as u64);
        let next = self.points.partition_point(|point| point.at <= cap && point.offset <= up_to);
        let mut at = next.checked_sub(1).map_or(start, |last| self.points[last].at).max(start);
        while at < self.end {
            let header = self.header(at);
            let end = at + header.size_bytes() as u64;
            if header.next_offset() > up_to || (end > cap && at > start) {
                break;
            }
            at = end;
        }
        at
    }

    /// The bytes of `[from, to)` as slices of the chunks.
    pub(super) fn chain(&self, from: u64, to: u64) -> Chain {
        let mut chain = Chain::new();
        for chunk in self.chunks.iter().skip(self.chunk_at(from)) {
            if chunk.start >= to {
                break;
            }
            let start = in_memory(from.max(chunk.start) - chunk.start);
            let end = in_memory(to.min(chunk.end()) - chunk.start);
            chain.push(chunk.buffer.slice(start..end));
        }
        assert_eq!(chain.len() as u64, to - from, "the range lies in memory");
        chain
    }
}
