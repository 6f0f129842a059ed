//! Kafka's two indexes of a segment, byte for byte.
//!
//! `.index`: entries of 8 bytes, offset relative to the base (i32) and file position (i32), big
//! endian. An entry names the *last* offset of the batch at that position. `.timeindex`: 12 bytes,
//! largest timestamp so far (i64) and the relative offset that has it (i32). Both ascend strictly.
//!
//! Invariant: an index is never trusted beyond its checksum; it can always be rebuilt by a scan.

use super::segment::in_memory;
use crate::types::Offset;

/// Bytes of an entry of the offset index.
pub(super) const INDEX_ENTRY_BYTES: usize = 8;
/// Bytes of an entry of the time index.
pub(super) const TIME_ENTRY_BYTES: usize = 12;

/// One entry of the offset index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OffsetEntry {
    relative_offset: i32,
    position: i32,
}

/// One entry of the time index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeEntry {
    timestamp_ms: i64,
    relative_offset: i32,
}

/// The indexes of one segment in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes {
    offsets: Vec<OffsetEntry>,
    times: Vec<TimeEntry>,
}

impl Indexes {
    /// File position from which a scan finds the batch that holds `offset`.
    pub(super) fn position_before(&self, base: Offset, offset: Offset) -> u64 {
        let relative = offset.distance_from(base);
        let next =
            self.offsets.partition_point(|entry| i64::from(entry.relative_offset) <= relative);
        let entry = next.checked_sub(1).map(|last| self.offsets[last].position);
        entry.map_or(0, |position| u64::try_from(position).unwrap_or(0))
    }

    /// An offset before which no record of the segment has a timestamp of `timestamp_ms` or more.
    pub(super) fn offset_before(&self, base: Offset, timestamp_ms: i64) -> Offset {
        let next = self.times.partition_point(|entry| entry.timestamp_ms < timestamp_ms);
        let entry = next.checked_sub(1).map(|last| self.times[last].relative_offset);
        base.plus(entry.map_or(0, i64::from))
    }

    /// Bytes of memory or of the larger file this takes, roughly.
    pub(super) fn held_bytes(&self) -> usize {
        self.offsets.len() * INDEX_ENTRY_BYTES + self.times.len() * (TIME_ENTRY_BYTES + 4)
    }

    /// The bytes of the `.index` file.
    pub(super) fn encode_offsets(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.offsets.len() * INDEX_ENTRY_BYTES);
        for entry in &self.offsets {
            bytes.extend_from_slice(&entry.relative_offset.to_be_bytes());
            bytes.extend_from_slice(&entry.position.to_be_bytes());
        }
        bytes
    }

    /// The bytes of the `.timeindex` file.
    pub(super) fn encode_times(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.times.len() * TIME_ENTRY_BYTES);
        for entry in &self.times {
            bytes.extend_from_slice(&entry.timestamp_ms.to_be_bytes());
            bytes.extend_from_slice(&entry.relative_offset.to_be_bytes());
        }
        bytes
    }

    /// The indexes in the bytes of the two files; `None` when they cannot be of a segment of
    /// `size` bytes.
    pub(super) fn decode(offsets: &[u8], times: &[u8], size: u64) -> Option<Self> {
        let (offset_entries, offset_rest) = offsets.as_chunks::<INDEX_ENTRY_BYTES>();
        let (time_entries, time_rest) = times.as_chunks::<TIME_ENTRY_BYTES>();
        let offsets: Vec<_> = offset_entries.iter().map(decode_offset).collect();
        let times: Vec<_> = time_entries.iter().map(decode_time).collect();
        let offsets_ascend = offsets.is_sorted_by(|earlier, later| {
            earlier.relative_offset < later.relative_offset && earlier.position < later.position
        });
        let times_ascend =
            times.is_sorted_by(|earlier, later| earlier.timestamp_ms < later.timestamp_ms);
        let inside = offsets.iter().all(|entry| {
            entry.relative_offset >= 0 && u64::try_from(entry.position).is_ok_and(|at| at < size)
        });
        let whole = offset_rest.is_empty() && time_rest.is_empty();
        (whole && inside && offsets_ascend && times_ascend).then_some(Self { offsets, times })
    }
}

fn decode_offset(bytes: &[u8; INDEX_ENTRY_BYTES]) -> OffsetEntry {
    let [a, b, c, d, e, f, g, h] = *bytes;
    OffsetEntry {
        relative_offset: i32::from_be_bytes([a, b, c, d]),
        position: i32::from_be_bytes([e, f, g, h]),
    }
}

fn decode_time(bytes: &[u8; TIME_ENTRY_BYTES]) -> TimeEntry {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *bytes;
    TimeEntry {
        timestamp_ms: i64::from_be_bytes([a, b, c, d, e, f, g, h]),
        relative_offset: i32::from_be_bytes([i, j, k, l]),
    }
}

/// The indexes of a segment that still grows.
#[derive(Clone, Debug, Default)]
pub(super) struct SegmentIndex {
    indexes: Indexes,
    bytes_since_entry: u64,
}

impl SegmentIndex {
    /// Goes on with what a sealed segment had.
    pub(super) fn resumed(indexes: Indexes) -> Self {
        Self { indexes, bytes_since_entry: 0 }
    }

    /// Takes note of the batch at `position` that ends with offset `last`, before its bytes are
    /// counted; `newest` is the largest timestamp so far, this batch included, and its offset.
    /// Kafka's rule: an entry per batch that starts more than the interval behind the last entry.
    pub(super) fn add(
        &mut self,
        base: Offset,
        last: Offset,
        position: u64,
        newest: (i64, Offset),
        interval_bytes: u64,
    ) {
        if self.bytes_since_entry <= interval_bytes {
            return;
        }
        self.bytes_since_entry = 0;
        let position = i32::try_from(position).expect("a segment stays below 2 GiB");
        let entry = OffsetEntry { relative_offset: relative(base, last), position };
        let ascends = self.indexes.offsets.last().is_none_or(|before| {
            before.relative_offset < entry.relative_offset && before.position < entry.position
        });
        assert!(ascends, "entries ascend");
        self.indexes.offsets.push(entry);
        self.add_time(base, newest);
    }

    /// Counts the bytes of the batch just added.
    pub(super) fn count_bytes(&mut self, bytes: u64) {
        self.bytes_since_entry += bytes;
    }

    /// Adds the newest timestamp, if it is later than the last entry's; also Kafka's last entry of
    /// a segment that becomes inactive.
    pub(super) fn add_time(&mut self, base: Offset, newest: (i64, Offset)) {
        let last = self.indexes.times.last().map_or(-1, |entry| entry.timestamp_ms);
        if newest.0 > last {
            let relative_offset = relative(base, newest.1);
            self.indexes.times.push(TimeEntry { timestamp_ms: newest.0, relative_offset });
        }
    }

    /// The entries so far.
    pub(super) fn entries(&self) -> &Indexes {
        &self.indexes
    }

    /// Gives the entries up.
    pub(super) fn into_entries(self) -> Indexes {
        self.indexes
    }

    /// Whether one of the files would not hold another entry within `cap_bytes`.
    pub(super) fn is_full(&self, cap_bytes: u64) -> bool {
        let cap = in_memory(cap_bytes);
        (self.indexes.offsets.len() + 1) * INDEX_ENTRY_BYTES > cap
            || (self.indexes.times.len() + 2) * TIME_ENTRY_BYTES > cap
    }
}

/// An offset relative to the base, which `roll` keeps within 31 bits.
fn relative(base: Offset, offset: Offset) -> i32 {
    i32::try_from(offset.distance_from(base)).expect("a segment spans fewer than 2^31 offsets")
}
