//! Pooled, aligned, reference-counted memory.
//!
//! A block is written by one owner ([`TailBuf`]) from front to back and read through [`Slice`]s of
//! the part already written, from any core. The last handle returns it to the pool it came from,
//! whichever core that happens on. Owns the only memory that payload bytes ever lie in.
//!
//! Invariant: the bytes a [`Slice`] covers never change. Exhaustion is an answer (`None`), never a
//! panic: the caller waits or refuses.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    cell::Cell,
    fmt,
    ops::{Deref, Range},
    ptr::{self, NonNull},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering, fence},
    },
};

use crossbeam::queue::ArrayQueue;
use smallvec::SmallVec;

use crate::limits::{BUFFER_CLASS_BYTES, DIRECT_ALIGNMENT_BYTES};

const CLASSES: usize = BUFFER_CLASS_BYTES.len();

thread_local! {
    static COPIED_BYTES: Cell<u64> = const { Cell::new(0) };
}

/// Bytes that this thread has copied into pooled buffers so far; a test counts payload copies.
#[must_use]
pub fn copied_bytes() -> u64 {
    COPIED_BYTES.get()
}

struct Block {
    references: AtomicUsize,
    memory: NonNull<u8>,
    capacity: usize,
    class: usize,
    /// The pool that lent the block out; `None` for a cached or unpooled one, so that a cached
    /// block does not keep its pool alive.
    home: Option<Arc<Home>>,
}

/// Where free blocks of a pool wait; shared so that any core can give one back.
struct Home {
    free: [ArrayQueue<BlockHandle>; CLASSES],
    in_use_bytes: AtomicUsize,
    budget_bytes: usize,
}

struct BlockHandle(NonNull<Block>);

// SAFETY: a handle in a queue is its block's only reference; blocks hold no thread-bound state.
unsafe impl Send for BlockHandle {}

impl Drop for Home {
    fn drop(&mut self) {
        for queue in &self.free {
            while let Some(handle) = queue.pop() {
                free_block(handle.0);
            }
        }
    }
}

/// A shard's pool of buffers, cheap to clone, with a budget over all size classes.
#[derive(Clone)]
pub struct Pool {
    home: Arc<Home>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Pool({} of {} bytes)", self.in_use_bytes(), self.home.budget_bytes)
    }
}

impl Pool {
    /// A pool that hands out at most `budget_bytes` at a time, and keeps what comes back.
    #[must_use]
    pub fn new(budget_bytes: usize) -> Self {
        let free = BUFFER_CLASS_BYTES
            .map(|class_bytes| ArrayQueue::new((budget_bytes / class_bytes / 4).clamp(4, 4096)));
        Self { home: Arc::new(Home { free, in_use_bytes: AtomicUsize::new(0), budget_bytes }) }
    }

    /// An empty buffer, of fresh or recycled memory, of the smallest class that holds `bytes` (the
    /// largest class if none does: check [`TailBuf::capacity`]). `None` when the budget is spent.
    #[must_use]
    pub fn take(&self, bytes: usize) -> Option<TailBuf> {
        let class =
            BUFFER_CLASS_BYTES.iter().position(|&size| size >= bytes).unwrap_or(CLASSES - 1);
        let size = BUFFER_CLASS_BYTES[class];
        let before = self.home.in_use_bytes.fetch_add(size, Ordering::Relaxed);
        if before + size > self.home.budget_bytes {
            self.home.in_use_bytes.fetch_sub(size, Ordering::Relaxed);
            return None;
        }
        let block = match self.home.free[class].pop() {
            Some(handle) => handle.0,
            None => new_block(size, class),
        };
        // SAFETY: the block is ours alone: new, or just taken out of the free queue.
        let this = unsafe { &mut *block.as_ptr() };
        this.references.store(1, Ordering::Relaxed);
        this.home = Some(self.home.clone());
        Some(TailBuf { block, length: 0 })
    }

    /// Bytes handed out and not yet back.
    #[must_use]
    pub fn in_use_bytes(&self) -> usize {
        self.home.in_use_bytes.load(Ordering::Relaxed)
    }

    /// The most that is handed out at a time, in bytes.
    #[must_use]
    pub fn budget_bytes(&self) -> usize {
        self.home.budget_bytes
    }

    /// Gives cached free buffers back to the allocator, all but `keep` of each class.
    pub fn trim(&self, keep: usize) {
        for queue in &self.home.free {
            while queue.len() > keep {
                let Some(handle) = queue.pop() else { break };
                free_block(handle.0);
            }
        }
    }
}

fn block_layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, DIRECT_ALIGNMENT_BYTES).expect("class sizes make a layout")
}

fn new_block(capacity: usize, class: usize) -> NonNull<Block> {
    let layout = block_layout(capacity);
    // SAFETY: the layout is not empty: callers round zero up to one alignment unit.
    let memory = unsafe { alloc(layout) };
    let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
    let block = Block { references: AtomicUsize::new(1), memory, capacity, class, home: None };
    NonNull::from(Box::leak(Box::new(block)))
}

fn free_block(block: NonNull<Block>) {
    // SAFETY: the caller holds the only handle, and the block came from `Box::leak`.
    let block = unsafe { Box::from_raw(block.as_ptr()) };
    // SAFETY: the memory was allocated with this layout and no handle to it is left.
    unsafe { dealloc(block.memory.as_ptr(), block_layout(block.capacity)) };
}

fn retain(block: NonNull<Block>) {
    // SAFETY: the caller holds a handle, so the block is alive.
    unsafe { block.as_ref() }.references.fetch_add(1, Ordering::Relaxed);
}

fn release(block: NonNull<Block>) {
    // SAFETY: the caller gives up a handle it holds, so the block is alive.
    let (references, capacity) = unsafe { (&block.as_ref().references, block.as_ref().capacity) };
    if references.fetch_sub(1, Ordering::Release) != 1 {
        return;
    }
    fence(Ordering::Acquire);
    // SAFETY: this was the last handle, so nobody else reads or writes the block.
    let home = unsafe { &mut *block.as_ptr() }.home.take();
    match home {
        None => free_block(block),
        Some(home) => {
            home.in_use_bytes.fetch_sub(capacity, Ordering::Relaxed);
            recycle(&home, block);
        }
    }
}

fn recycle(home: &Home, block: NonNull<Block>) {
    // SAFETY: this is the last handle, so nobody else reads or writes the block.
    let class = unsafe { block.as_ref() }.class;
    if let Err(handle) = home.free[class].push(BlockHandle(block)) {
        free_block(handle.0);
    }
}

/// The one writer of a block: appends at the end of what is written.
pub struct TailBuf {
    block: NonNull<Block>,
    length: usize,
}

impl TailBuf {
    /// A buffer outside any pool and budget, of at least `bytes`; for tests and rare large needs.
    #[must_use]
    pub fn unpooled(bytes: usize) -> Self {
        let capacity = bytes.max(1).next_multiple_of(DIRECT_ALIGNMENT_BYTES);
        Self { block: new_block(capacity, 0), length: 0 }
    }

    /// As [`TailBuf::unpooled`], filled with zeros.
    #[must_use]
    pub fn zeros(bytes: usize) -> Self {
        let mut this = Self::unpooled(bytes);
        // SAFETY: the target is the whole of a block that nobody else knows.
        unsafe { ptr::write_bytes(this.spare_pointer(), 0, this.capacity()) };
        this.length = this.capacity();
        this
    }

    fn block(&self) -> &Block {
        // SAFETY: this handle keeps the block alive.
        unsafe { self.block.as_ref() }
    }

    /// Bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing is written yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes this buffer can hold.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.block().capacity
    }

    /// Bytes that still fit.
    #[must_use]
    pub fn spare(&self) -> usize {
        self.capacity() - self.length
    }

    /// Copies as much of `bytes` as fits behind what is written; returns how many.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.spare());
        // SAFETY: the target lies in the block behind every slice ever made, so nothing reads it,
        // and `bytes` cannot overlap it as no reference to that part exists.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.spare_pointer(), count);
        }
        self.length += count;
        COPIED_BYTES.set(COPIED_BYTES.get() + count as u64);
        count
    }

    /// Copies all of `bytes` behind what is written.
    ///
    /// Panics when they do not fit: see [`TailBuf::spare`].
    pub fn append_all(&mut self, bytes: &Chain) {
        for slice in bytes.slices() {
            let count = self.append(slice);
            assert_eq!(count, slice.len(), "the buffer was chosen by the length");
        }
    }

    /// Where the kernel may put the next bytes, [`TailBuf::spare`] of them.
    #[must_use]
    pub fn spare_pointer(&self) -> *mut u8 {
        // SAFETY: `length` is at most the capacity, so the pointer stays in or just past the block.
        unsafe { self.block().memory.as_ptr().add(self.length) }
    }

    /// Takes `count` bytes that the kernel put at [`TailBuf::spare_pointer`] as written.
    ///
    /// Panics when more is claimed than fits.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.spare(), "the kernel cannot fill more than the buffer's spare");
        self.length += count;
    }

    /// Zeros from the end of what is written to the next multiple of the direct alignment, so that
    /// a direct write of the last block carries no old bytes.
    pub fn zero_to_alignment(&mut self) {
        let end = self.length.next_multiple_of(DIRECT_ALIGNMENT_BYTES).min(self.capacity());
        // SAFETY: the range lies in the block behind every slice ever made.
        unsafe { ptr::write_bytes(self.spare_pointer(), 0, end - self.length) };
    }

    /// A view of written bytes.
    ///
    /// Panics when `range` reaches beyond what is written.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Slice {
        assert!(
            range.start <= range.end && range.end <= self.length,
            "a slice covers written bytes"
        );
        retain(self.block);
        Slice { block: self.block, start: range.start, length: range.end - range.start }
    }

    /// A range of the block for the kernel to write to a file; may reach past what is written, to
    /// the next multiple of the direct alignment: see [`TailBuf::zero_to_alignment`].
    ///
    /// Panics when `range` reaches further: fresh memory holds anything.
    #[must_use]
    pub fn io_range(&self, range: Range<usize>) -> IoRange {
        assert!(
            range.start <= range.end
                && range.end <= self.length.next_multiple_of(DIRECT_ALIGNMENT_BYTES),
            "what is written to a file was written to the buffer"
        );
        retain(self.block);
        IoRange { block: self.block, start: range.start, length: range.end - range.start }
    }

    /// Gives up writing: the bytes written so far as one slice.
    #[must_use]
    pub fn freeze(self) -> Slice {
        self.slice(0..self.length)
    }
}

impl Deref for TailBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the first `length` bytes are initialised and no longer written to.
        unsafe { std::slice::from_raw_parts(self.block().memory.as_ptr(), self.length) }
    }
}

impl Drop for TailBuf {
    fn drop(&mut self) {
        release(self.block);
    }
}

impl fmt::Debug for TailBuf {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "TailBuf({} of {})", self.length, self.capacity())
    }
}

// SAFETY: the block is reached through atomic counts, and only this handle writes to it.
unsafe impl Send for TailBuf {}

/// Bytes of a block that will never change; clones share them, on any core.
pub struct Slice {
    block: NonNull<Block>,
    start: usize,
    length: usize,
}

impl Slice {
    /// A copy of `bytes` outside any pool; for tests and small, rare data.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buffer = TailBuf::unpooled(bytes.len());
        buffer.append(bytes);
        buffer.freeze()
    }

    /// A part of this slice.
    ///
    /// Panics when `range` reaches beyond it.
    #[must_use]
    pub fn sub(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.length, "a part stays in its slice");
        retain(self.block);
        Self { block: self.block, start: self.start + range.start, length: range.end - range.start }
    }
}

impl Deref for Slice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: this handle keeps the block alive; the range was written before the slice was
        // made and is never written again.
        unsafe {
            let start = self.block.as_ref().memory.as_ptr().add(self.start);
            std::slice::from_raw_parts(start, self.length)
        }
    }
}

impl Clone for Slice {
    fn clone(&self) -> Self {
        retain(self.block);
        Self { block: self.block, start: self.start, length: self.length }
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        release(self.block);
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Slice({} bytes)", self.length)
    }
}

// SAFETY: the bytes are immutable while any slice lives, and the count is atomic.
unsafe impl Send for Slice {}
// SAFETY: as above: shared access only reads.
unsafe impl Sync for Slice {}

/// A range of a block for the kernel to read during a write. User space never reads through it, as
/// the part behind the written bytes may still be appended to.
pub struct IoRange {
    block: NonNull<Block>,
    start: usize,
    length: usize,
}

impl IoRange {
    /// Where the range starts, for the kernel.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        // SAFETY: this handle keeps the block alive and the range lies in it.
        unsafe { self.block.as_ref().memory.as_ptr().add(self.start) }
    }

    /// The bytes as a device would read them now, for the fake disk: on the writer's thread only.
    #[cfg(any(test, feature = "fake-io"))]
    #[must_use]
    pub fn copy_bytes(&self) -> Vec<u8> {
        // SAFETY: the block is alive and zeroed or written from its allocation on; the fake disk
        // runs on the only thread that appends to it, so nothing writes meanwhile.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.length) }.to_vec()
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the range covers nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl Clone for IoRange {
    fn clone(&self) -> Self {
        retain(self.block);
        Self { block: self.block, start: self.start, length: self.length }
    }
}

impl Drop for IoRange {
    fn drop(&mut self) {
        release(self.block);
    }
}

// SAFETY: only the kernel reads through the range; the count is atomic.
unsafe impl Send for IoRange {}

/// Bytes that lie in one or more slices, in order: a request frame, a record batch, a log range.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    slices: SmallVec<[Slice; 4]>,
    length: usize,
}

impl Chain {
    /// An empty chain.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a slice at the end; an empty one is dropped.
    pub fn push(&mut self, slice: Slice) {
        if !slice.is_empty() {
            self.length += slice.len();
            self.slices.push(slice);
        }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the chain covers nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The slices in order; none is empty.
    #[must_use]
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// Memory that this chain keeps from being used for anything else, in bytes: whole blocks.
    /// Others may keep the same.
    #[must_use]
    pub fn pinned_bytes(&self) -> usize {
        let mut before = None;
        let mut bytes = 0;
        for slice in &self.slices {
            if before.replace(slice.block) != Some(slice.block) {
                // SAFETY: the slice keeps its block alive.
                bytes += unsafe { slice.block.as_ref() }.capacity;
            }
        }
        bytes
    }

    /// A part of this chain, sharing its memory.
    ///
    /// Panics when `range` reaches beyond it.
    #[must_use]
    pub fn sub(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.length, "a part stays in its chain");
        let mut part = Self::new();
        let mut at = 0;
        for slice in &self.slices {
            let start = range.start.max(at);
            let end = range.end.min(at + slice.len());
            if start < end {
                part.push(slice.sub(start - at..end - at));
            }
            at += slice.len();
        }
        part
    }

    /// Copies bytes from `at` into `target`, all of it.
    ///
    /// Panics when the chain is too short. For headers, not payload: it is not counted as a copy.
    pub fn copy_to(&self, at: usize, target: &mut [u8]) {
        assert!(at + target.len() <= self.length, "a copy stays in its chain");
        let (mut skip, mut done) = (at, 0);
        for slice in &self.slices {
            if skip >= slice.len() {
                skip -= slice.len();
                continue;
            }
            let count = (slice.len() - skip).min(target.len() - done);
            target[done..done + count].copy_from_slice(&slice[skip..skip + count]);
            done += count;
            skip = 0;
            if done == target.len() {
                return;
            }
        }
    }

    /// All bytes in one vector; for slow paths and tests.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length);
        self.slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
        bytes
    }
}

impl From<Slice> for Chain {
    fn from(slice: Slice) -> Self {
        let mut chain = Self::new();
        chain.push(slice);
        chain
    }
}

#[cfg(test)]
mod tests;
