//! The receive buffers a shard lends to the kernel.
//!
//! Owns the provided-buffer ring: a page of entries shared with the kernel, each naming a pooled
//! block. Where the kernel can, it fills a block piece by piece, so that many small messages share
//! one; else each receive uses up a block. Blocks are lent when first needed: few at rest, more
//! after the kernel has once run out. An empty pool is no error: less is lent until blocks return.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    io,
    ptr::NonNull,
    sync::atomic::{AtomicU16, Ordering},
};

use io_uring::{Submitter, types::BufRingEntry};

use crate::{
    io::buf::{Pool, Slice, TailBuf},
    limits::{RECEIVE_BUFFER_BYTES, RECEIVE_BUFFERS_PER_SHARD},
};

/// The only buffer group of a ring.
pub(super) const GROUP: u16 = 0;

/// Blocks lent by an idle shard; each is 64 KiB of resident memory.
const LENT_AT_REST: usize = 4;

/// `IOU_PBUF_RING_INC` of the kernel's header, since 6.12.
const INCREMENTAL: u16 = 2;

const ENTRIES: u16 = 64;
const LAYOUT: Layout = match Layout::from_size_align(ENTRIES as usize * 16, 4096) {
    Ok(layout) => layout,
    Err(_) => panic!("the entries make a layout"),
};

// The kernel wants a power of two; one entry per block that may be lent.
const _: () = assert!(ENTRIES.is_power_of_two() && ENTRIES as usize == RECEIVE_BUFFERS_PER_SHARD);
const _: () = assert!(size_of::<BufRingEntry>() == 16);

/// Blocks lent to the kernel and the ring that names them.
pub(super) struct ReceiveBuffers {
    entries: NonNull<BufRingEntry>,
    tail: u16,
    lent: Vec<Option<TailBuf>>,
    free: Vec<u16>,
    target: usize,
    incremental: bool,
    pool: Pool,
    refused: bool,
}

impl ReceiveBuffers {
    /// Registers an empty buffer ring.
    pub(super) fn register(submitter: &Submitter<'_>, pool: Pool) -> io::Result<Self> {
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(LAYOUT) };
        let Some(entries) = NonNull::new(memory.cast::<BufRingEntry>()) else {
            handle_alloc_error(LAYOUT)
        };
        let mut buffers = Self {
            entries,
            tail: 0,
            lent: (0..ENTRIES).map(|_| None).collect(),
            free: (0..ENTRIES).rev().collect(),
            target: LENT_AT_REST,
            incremental: true,
            pool,
            refused: false,
        };
        let address = memory as u64;
        // SAFETY: the entries live until after the ring, see `Ring`'s field order.
        let register = |flags| unsafe {
            submitter.register_buf_ring_with_flags(address, ENTRIES, GROUP, flags)
        };
        if register(INCREMENTAL).is_err() {
            buffers.incremental = false;
            register(0)?;
        }
        Ok(buffers)
    }

    /// Whether small receives share a block.
    pub(super) fn is_incremental(&self) -> bool {
        self.incremental
    }

    /// The `count` bytes the kernel put into buffer `id`; `more` if it keeps filling that block.
    pub(super) fn received(&mut self, id: u16, count: usize, more: bool) -> Option<Slice> {
        let seat = &mut self.lent[usize::from(id)];
        let block = seat.as_mut().expect("the kernel fills only lent buffers");
        let start = block.len();
        block.advance(count);
        let piece = (count > 0).then(|| block.slice(start..start + count));
        if !more {
            *seat = None;
            self.free.push(id);
        }
        piece
    }

    /// The kernel ran out: lend more from now on.
    pub(super) fn ran_out(&mut self) {
        self.target = (self.target * 2).min(usize::from(ENTRIES));
    }

    /// Blocks lent now.
    pub(super) fn lent(&self) -> usize {
        usize::from(ENTRIES) - self.free.len()
    }

    /// Whether the pool had no block to lend when last asked.
    pub(super) fn pool_refused(&self) -> bool {
        self.refused
    }

    /// Lends blocks up to the target, as far as the pool has any.
    pub(super) fn refill(&mut self) {
        let before = self.tail;
        self.refused = false;
        while self.lent() < self.target {
            let Some(block) = self.pool.take(RECEIVE_BUFFER_BYTES) else {
                self.refused = true;
                break;
            };
            let id = self.free.pop().expect("fewer are lent than there are entries");
            self.lend(id, block);
        }
        if self.tail != before {
            self.publish();
        }
    }

    fn lend(&mut self, id: u16, block: TailBuf) {
        let index = usize::from(self.tail & (ENTRIES - 1));
        // SAFETY: the index lies in the ring, and the kernel reads no entry from the tail on.
        let entry = unsafe { &mut *self.entries.as_ptr().add(index) };
        entry.set_addr(block.spare_pointer() as u64);
        entry.set_len(u32::try_from(RECEIVE_BUFFER_BYTES).expect("a block is 64 KiB"));
        entry.set_bid(id);
        self.lent[usize::from(id)] = Some(block);
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        // SAFETY: the entries are alive; the tail lies in the unused part of the first one, and
        // both sides touch it only as an atomic.
        let tail =
            unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries.as_ptr()).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for ReceiveBuffers {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; the ring that knew of it is closed already.
        unsafe { dealloc(self.entries.as_ptr().cast(), LAYOUT) };
    }
}
