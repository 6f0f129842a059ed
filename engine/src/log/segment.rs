//! One segment of a log as it is known in memory, and the names of its files.
//!
//! Knows no I/O. A segment is open while it may grow (the last one), closing while its bytes reach
//! the disk and its indexes are written, and sealed when its record says so.
//!
//! Invariant: `prepared` and `size` only grow while open; a sealed segment never changes.

use std::rc::Rc;

use super::{
    index::{Indexes, SegmentIndex},
    seal::SealRecord,
};
use crate::{batch::Header, types::Offset};

/// Kafka's name of a segment's batches: 20 digits and `.log`.
pub(super) const LOG_SUFFIX: &str = "log";
/// Kafka's offset index.
pub(super) const INDEX_SUFFIX: &str = "index";
/// Kafka's time index.
pub(super) const TIME_INDEX_SUFFIX: &str = "timeindex";
/// Our record that a segment is complete and what its indexes' checksums are.
pub(super) const SEAL_SUFFIX: &str = "seal";
/// Our snapshot of the producers' state at an offset.
pub(super) const PRODUCERS_SUFFIX: &str = "producers";
/// Added to the name of a file that is to be removed.
pub(super) const DELETED_SUFFIX: &str = ".deleted";

/// The name of a file of the segment (or state) at `base`.
pub(super) fn file_name(base: Offset, suffix: &str) -> String {
    assert!(base.0 >= 0, "a segment starts at an offset");
    format!("{:020}.{suffix}", base.0)
}

/// The base offset in a file name with this suffix; `None` for any other name.
pub(super) fn parse_name(name: &str, suffix: &str) -> Option<Offset> {
    let (digits, rest) = name.split_once('.')?;
    let plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    (plain && rest == suffix).then(|| digits.parse().ok().map(Offset))?
}

/// A file position or length as a size in memory.
///
/// Panics where that does not fit, which no supported machine knows.
pub(super) fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a file range fits a 64-bit address space")
}

/// How far a segment is on its way to being sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The last one, or one whose bytes are not all durable yet.
    Open,
    /// Being truncated and indexed in the background.
    Sealing,
    /// Its seal record is on disk.
    Sealed,
}

/// A segment.
pub(super) struct Segment<F> {
    /// Offset of its first batch, by its name.
    pub(super) base: Offset,
    /// Offset behind its last batch.
    pub(super) end: Offset,
    /// Bytes of batches.
    pub(super) size: u64,
    /// Virtual position of file position 0 in the tail; only for one that is open.
    pub(super) origin: u64,
    /// File length up to which zeros or batches are written and synced.
    pub(super) prepared: u64,
    /// The file, once opened (an open segment's is made at the first write).
    pub(super) file: Option<Rc<F>>,
    pub(super) phase: Phase,
    /// Largest record timestamp, -1 for none.
    pub(super) max_timestamp_ms: i64,
    /// Last offset of the batch that brought it.
    pub(super) max_timestamp_offset: Offset,
    /// Largest timestamp of the first batch, from which `segment.ms` counts.
    pub(super) first_timestamp_ms: Option<i64>,
    /// Wall time at which it was begun here, for records without a timestamp.
    pub(super) begun_ms: i64,
    /// Index of an open segment.
    pub(super) growing: SegmentIndex,
    /// Index of a sealed one, while cached.
    pub(super) cached: Option<Rc<Indexes>>,
    /// What its seal record says.
    pub(super) seal: Option<SealRecord>,
    /// The producers' state at its end, until it is written.
    pub(super) producers_at_end: Option<Vec<u8>>,
}

impl<F> Segment<F> {
    /// A segment without bytes, at `base`.
    pub(super) fn empty(base: Offset, origin: u64, now_ms: i64) -> Self {
        Self {
            base,
            end: base,
            size: 0,
            origin,
            prepared: 0,
            file: None,
            phase: Phase::Open,
            max_timestamp_ms: -1,
            max_timestamp_offset: base,
            first_timestamp_ms: None,
            begun_ms: now_ms,
            growing: SegmentIndex::default(),
            cached: None,
            seal: None,
            producers_at_end: None,
        }
    }

    /// Takes note of a batch at the end; `header` as it is stored.
    pub(super) fn add(&mut self, header: &Header, index_interval_bytes: u64) {
        assert!(header.base_offset >= self.end, "batches of a segment follow one another");
        let last = header.last_offset();
        if header.max_timestamp_ms > self.max_timestamp_ms {
            self.max_timestamp_ms = header.max_timestamp_ms;
            self.max_timestamp_offset = last;
        }
        self.first_timestamp_ms.get_or_insert(header.max_timestamp_ms);
        self.growing.add(
            self.base,
            last,
            self.size,
            (self.max_timestamp_ms, self.max_timestamp_offset),
            index_interval_bytes,
        );
        let bytes = header.size_bytes() as u64;
        self.growing.count_bytes(bytes);
        self.size += bytes;
        self.end = last.plus(1);
        assert!(self.end > header.base_offset, "a batch brings its segment forward");
    }

    /// Virtual position behind its last byte.
    pub(super) fn virtual_end(&self) -> u64 {
        self.origin + self.size
    }
}
