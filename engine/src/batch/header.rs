//! The 61 bytes before the records of a batch (KIP-98's format, magic 2), big endian.
//!
//! Parsing is total: every 61 bytes make a [`Header`], which may be nonsense until
//! [`Header::is_plausible`] or [`super::check`] says otherwise.

use crate::{
    io::buf::Chain,
    types::{LeaderEpoch, Offset, ProducerId},
};

/// Length of a batch header in bytes; the records follow.
pub const HEADER_BYTES: usize = 61;

/// Bytes of a batch that its length field does not count: base offset and the field itself.
pub const LENGTH_PREFIX_BYTES: usize = 12;

/// The only batch format stored or taken.
pub const MAGIC: i8 = 2;

/// First byte under the CRC: base offset, length, leader epoch, magic and the CRC itself are not.
pub(super) const CHECKED_FROM: usize = 21;

const CODEC_MASK: i16 = 0b111;
const LOG_APPEND_TIME_BIT: i16 = 1 << 3;
const TRANSACTIONAL_BIT: i16 = 1 << 4;
const CONTROL_BIT: i16 = 1 << 5;

/// How the records of a batch are compressed: the low three bits of its attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Records as they are.
    #[default]
    None,
    /// Gzip (RFC 1952).
    Gzip,
    /// Snappy, in the framing of Java's `SnappyOutputStream` or raw.
    Snappy,
    /// LZ4 frame format.
    Lz4,
    /// Zstandard (KIP-110: Produce 7, Fetch 10).
    Zstd,
}

impl Codec {
    /// Every codec, in the order of their ids.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The id in a batch's attributes, 0 to 4.
    #[must_use]
    pub fn id(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// Kafka's name of the codec, as in `compression.type`: "none", "gzip", ...
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The codec of that name; `None` for any other.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }
}

/// Whose clock a batch's timestamps are by (bit 3 of its attributes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// Each record carries its producer's time.
    #[default]
    CreateTime,
    /// Every record has the batch's maximum timestamp: the broker's time of append.
    LogAppendTime,
}

/// The header of a batch. Fields in the order of the bytes, under Kafka's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Offset of the first record; 0 from a client. Not under the CRC.
    pub base_offset: Offset,
    /// Bytes behind this field, so the batch less [`LENGTH_PREFIX_BYTES`].
    pub batch_length: i32,
    /// Epoch of the leader that appended the batch; clients send -1. Not under the CRC.
    pub partition_leader_epoch: LeaderEpoch,
    /// Format; [`MAGIC`].
    pub magic: i8,
    /// CRC-32C over everything behind it.
    pub crc: u32,
    /// Bit set, read through the methods of [`Header`].
    pub attributes: i16,
    /// Offset of the last record less the base offset. Kept by compaction.
    pub last_offset_delta: i32,
    /// Timestamp that the records' deltas add to, or the delete horizon, in ms.
    pub base_timestamp_ms: i64,
    /// Largest timestamp in the batch in ms, or the time of append; -1 for none.
    pub max_timestamp_ms: i64,
    /// Producer id of an idempotent or transactional producer, or none.
    pub producer_id: ProducerId,
    /// Epoch of the producer, or -1.
    pub producer_epoch: i16,
    /// Sequence number of the first record, or -1.
    pub base_sequence: i32,
    /// Records in the batch; 0 only after compaction.
    pub record_count: i32,
}

impl Header {
    /// Reads the fields; never fails, and promises nothing about them.
    #[must_use]
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Self {
        let mut rest = &bytes[..];
        Self {
            base_offset: Offset(i64::from_be_bytes(take(&mut rest))),
            batch_length: i32::from_be_bytes(take(&mut rest)),
            partition_leader_epoch: LeaderEpoch(i32::from_be_bytes(take(&mut rest))),
            magic: i8::from_be_bytes(take(&mut rest)),
            crc: u32::from_be_bytes(take(&mut rest)),
            attributes: i16::from_be_bytes(take(&mut rest)),
            last_offset_delta: i32::from_be_bytes(take(&mut rest)),
            base_timestamp_ms: i64::from_be_bytes(take(&mut rest)),
            max_timestamp_ms: i64::from_be_bytes(take(&mut rest)),
            producer_id: ProducerId(i64::from_be_bytes(take(&mut rest))),
            producer_epoch: i16::from_be_bytes(take(&mut rest)),
            base_sequence: i32::from_be_bytes(take(&mut rest)),
            record_count: i32::from_be_bytes(take(&mut rest)),
        }
    }

    /// The header at the front of `bytes`; `None` when they are too few.
    #[must_use]
    pub fn from_prefix(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().map(Self::parse)
    }

    /// The header at byte `at` of `chain`; `None` when the chain ends before it does.
    #[must_use]
    pub fn from_chain(chain: &Chain, at: usize) -> Option<Self> {
        if at.checked_add(HEADER_BYTES)? > chain.len() {
            return None;
        }
        let mut bytes = [0; HEADER_BYTES];
        chain.copy_to(at, &mut bytes);
        Some(Self::parse(&bytes))
    }

    /// The 61 bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut rest = &mut bytes[..];
        put(&mut rest, self.base_offset.0.to_be_bytes());
        put(&mut rest, self.batch_length.to_be_bytes());
        put(&mut rest, self.partition_leader_epoch.0.to_be_bytes());
        put(&mut rest, self.magic.to_be_bytes());
        put(&mut rest, self.crc.to_be_bytes());
        put(&mut rest, self.attributes.to_be_bytes());
        put(&mut rest, self.last_offset_delta.to_be_bytes());
        put(&mut rest, self.base_timestamp_ms.to_be_bytes());
        put(&mut rest, self.max_timestamp_ms.to_be_bytes());
        put(&mut rest, self.producer_id.0.to_be_bytes());
        put(&mut rest, self.producer_epoch.to_be_bytes());
        put(&mut rest, self.base_sequence.to_be_bytes());
        put(&mut rest, self.record_count.to_be_bytes());
        bytes
    }

    /// Bytes of the whole batch by its own claim: header and records. 0 for a negative length, so
    /// that `size_bytes() < HEADER_BYTES` finds every impossible one.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        usize::try_from(self.batch_length)
            .map_or(0, |length| length.saturating_add(LENGTH_PREFIX_BYTES))
    }

    /// Bytes of the records by the batch's own claim; 0 when the length is impossible.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.size_bytes().saturating_sub(HEADER_BYTES)
    }

    /// Whether this can be a stored batch: magic, a length that holds the header, no negative
    /// offsets or counts, a known codec. A cheap filter before the CRC, not a proof.
    #[must_use]
    pub fn is_plausible(&self) -> bool {
        self.magic == MAGIC
            && self.size_bytes() >= HEADER_BYTES
            && self.base_offset.0 >= 0
            && self.base_offset.0.checked_add(i64::from(self.last_offset_delta)).is_some()
            && self.last_offset_delta >= 0
            && self.record_count >= 0
            && self.codec().is_some()
    }

    /// Offset of the last record. Saturates on nonsense.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        Offset(self.base_offset.0.saturating_add(i64::from(self.last_offset_delta)))
    }

    /// Offset behind the batch: where the next one starts. Saturates on nonsense.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0.saturating_add(1))
    }

    /// Sequence number of the last record, wrapping from `i32::MAX` to 0 as Kafka's do; -1 when
    /// the batch has none.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        let last = i64::from(self.base_sequence) + i64::from(self.last_offset_delta);
        i32::try_from(last.rem_euclid(1 << 31)).unwrap_or(-1)
    }

    /// How the records are compressed; `None` for the ids 5 to 7, which mean nothing.
    #[must_use]
    pub fn codec(&self) -> Option<Codec> {
        let id = self.attributes & CODEC_MASK;
        Codec::ALL.into_iter().find(|codec| codec.id() == id)
    }

    /// Sets the codec bits.
    pub fn set_codec(&mut self, codec: Codec) {
        self.attributes = self.attributes & !CODEC_MASK | codec.id();
    }

    /// Whose clock the timestamps are by.
    #[must_use]
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & LOG_APPEND_TIME_BIT == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Sets the timestamp type bit.
    pub fn set_timestamp_type(&mut self, timestamp_type: TimestampType) {
        self.set_bit(LOG_APPEND_TIME_BIT, timestamp_type == TimestampType::LogAppendTime);
    }

    /// Whether the batch is part of a transaction.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }

    /// Sets the transactional bit.
    pub fn set_transactional(&mut self, transactional: bool) {
        self.set_bit(TRANSACTIONAL_BIT, transactional);
    }

    /// Whether the batch is a marker of the broker (commit, abort) and not data.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    /// Sets the control bit.
    pub fn set_control(&mut self, control: bool) {
        self.set_bit(CONTROL_BIT, control);
    }

    /// Whether a producer id is set, so sequence numbers count.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        self.producer_id.0 >= 0
    }

    fn set_bit(&mut self, bit: i16, on: bool) {
        self.attributes = if on { self.attributes | bit } else { self.attributes & !bit };
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (field, behind) = rest.split_first_chunk().expect("the fields add up to 61 bytes");
    *rest = behind;
    *field
}

fn put<const N: usize>(rest: &mut &mut [u8], field: [u8; N]) {
    let (target, behind) =
        std::mem::take(rest).split_first_chunk_mut().expect("the fields add up to 61 bytes");
    *target = field;
    *rest = behind;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_a_round_trip() {
        let mut bytes = [0; HEADER_BYTES];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::try_from(at).expect("61 bytes") ^ 0xA5;
        }
        assert_eq!(Header::parse(&bytes).encode(), bytes);
    }

    #[test]
    fn sequences_wrap_to_zero() {
        let mut header = Header::parse(&[0; HEADER_BYTES]);
        header.base_sequence = i32::MAX - 1;
        header.last_offset_delta = 1;
        assert_eq!(header.last_sequence(), i32::MAX);
        header.last_offset_delta = 2;
        assert_eq!(header.last_sequence(), 0);
    }

    #[test]
    fn impossible_lengths_show_as_too_small() {
        let mut header = Header::parse(&[0; HEADER_BYTES]);
        for (length, size) in [(i32::MIN, 0), (-1, 0), (0, 12), (49, HEADER_BYTES)] {
            header.batch_length = length;
            assert_eq!(header.size_bytes(), size);
        }
    }

    #[test]
    fn bits_do_not_touch_each_other() {
        let mut header = Header::parse(&[0; HEADER_BYTES]);
        header.set_codec(Codec::Zstd);
        header.set_timestamp_type(TimestampType::LogAppendTime);
        header.set_transactional(true);
        header.set_control(true);
        assert_eq!(header.attributes, 0b11_1100);
        header.set_codec(Codec::Gzip);
        header.set_transactional(false);
        assert_eq!(header.attributes, 0b10_1001);
        assert_eq!(header.codec(), Some(Codec::Gzip));
        header.attributes = 5;
        assert_eq!(header.codec(), None);
    }
}
