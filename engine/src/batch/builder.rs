//! Encodes records into a batch: for the client, for tools and for tests.
//!
//! Owns two buffers that are reused from batch to batch, so that a record costs a copy and no
//! allocation. What it makes passes [`super::check`] and is byte for byte what Java's producer
//! makes of the same records, compressed bytes aside.

use super::{
    checksum::checksum,
    compress::{CodecError, compress},
    header::{Codec, HEADER_BYTES, Header, LENGTH_PREFIX_BYTES, MAGIC, TimestampType},
    varint::{put_i32, put_i64, size_i32, size_i64},
};
use crate::types::{LeaderEpoch, Offset, ProducerId};

/// A header of a record to be encoded: key and value, the value possibly null.
pub type NewRecordHeader<'a> = (&'a [u8], Option<&'a [u8]>);

/// A record to be encoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewRecord<'a> {
    /// Its time in ms since the Unix epoch, or -1.
    pub timestamp_ms: i64,
    /// Its key; `None` is null.
    pub key: Option<&'a [u8]>,
    /// Its value; `None` is null.
    pub value: Option<&'a [u8]>,
    /// Its headers, in order.
    pub headers: &'a [NewRecordHeader<'a>],
}

/// What a batch carries besides its records.
#[derive(Clone, Copy, Debug)]
pub struct BatchOptions {
    /// How to compress.
    pub codec: Codec,
    /// The codec's level; `None` is Kafka's default.
    pub level: Option<i32>,
    /// Producer id, or none.
    pub producer_id: ProducerId,
    /// Producer epoch, or -1.
    pub producer_epoch: i16,
    /// Sequence number of the first record, or -1.
    pub base_sequence: i32,
    /// Whether the batch is part of a transaction.
    pub transactional: bool,
    /// Whether the batch is a control batch; never from a client.
    pub control: bool,
    /// Offset of the first record; 0 from a client.
    pub base_offset: Offset,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            codec: Codec::None,
            level: None,
            producer_id: ProducerId::NONE,
            producer_epoch: -1,
            base_sequence: -1,
            transactional: false,
            control: false,
            base_offset: Offset(0),
        }
    }
}

/// Why a record or batch cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The record or batch would exceed what the format's 32-bit lengths can say.
    TooLarge,
    /// There is no record to make a batch of.
    Empty,
    /// Compression failed.
    Codec(CodecError),
}

impl std::fmt::Display for BuildError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge => out.write_str("too large for a record batch"),
            Self::Empty => out.write_str("a batch needs a record"),
            Self::Codec(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for BuildError {}

/// Collects records, then makes a batch of them.
#[derive(Debug, Default)]
pub struct BatchBuilder {
    records: Vec<u8>,
    count: i32,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
}

impl BatchBuilder {
    /// A builder without records or memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records so far.
    #[must_use]
    pub fn count(&self) -> i32 {
        self.count
    }

    /// Whether there is no record yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the batch so far, before compression.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        HEADER_BYTES + self.records.len()
    }

    /// Bytes of the batch once `record` is added, before compression; for a limit like
    /// `batch.size`.
    #[must_use]
    pub fn size_with_bytes(&self, record: &NewRecord<'_>) -> usize {
        let body = body_bytes(record, self.timestamp_delta_ms(record), self.count);
        let prefix = i32::try_from(body).map_or(5, size_i32);
        self.size_bytes().saturating_add(prefix).saturating_add(body)
    }

    /// Adds a record; returns its place in the batch, from 0. On an error nothing was added.
    pub fn push(&mut self, record: &NewRecord<'_>) -> Result<i32, BuildError> {
        let total = self.size_with_bytes(record);
        let next = self.count.checked_add(1).ok_or(BuildError::TooLarge)?;
        i32::try_from(total).map_err(|_| BuildError::TooLarge)?;
        let delta_ms = self.timestamp_delta_ms(record);
        let offset_delta = self.count;
        if self.is_empty() {
            self.base_timestamp_ms = record.timestamp_ms;
            self.max_timestamp_ms = record.timestamp_ms;
        }
        self.max_timestamp_ms = self.max_timestamp_ms.max(record.timestamp_ms);
        put_length(&mut self.records, body_bytes(record, delta_ms, offset_delta));
        self.records.push(0);
        put_i64(&mut self.records, delta_ms);
        put_i32(&mut self.records, offset_delta);
        put_bytes(&mut self.records, record.key);
        put_bytes(&mut self.records, record.value);
        put_length(&mut self.records, record.headers.len());
        for (key, value) in record.headers {
            put_bytes(&mut self.records, Some(key));
            put_bytes(&mut self.records, *value);
        }
        self.count = next;
        Ok(offset_delta)
    }

    /// Appends the batch to `out`, compressed as asked, and forgets its records but not their
    /// memory. Returns the batch's header. On an error the records stay and `out` is as before.
    pub fn finish(
        &mut self,
        options: &BatchOptions,
        out: &mut Vec<u8>,
    ) -> Result<Header, BuildError> {
        if self.is_empty() {
            return Err(BuildError::Empty);
        }
        let mut header = self.header(options);
        let start = out.len();
        let sealed = seal(&mut header, &self.records, options.level, out);
        match sealed {
            Ok(()) => self.clear(),
            Err(_) => out.truncate(start),
        }
        sealed.map(|()| header)
    }

    /// Forgets all records; keeps their memory for the next.
    pub fn clear(&mut self) {
        self.records.clear();
        self.count = 0;
    }

    fn timestamp_delta_ms(&self, record: &NewRecord<'_>) -> i64 {
        if self.is_empty() { 0 } else { record.timestamp_ms.wrapping_sub(self.base_timestamp_ms) }
    }

    fn header(&self, options: &BatchOptions) -> Header {
        let mut header = Header {
            base_offset: options.base_offset,
            batch_length: 0,
            partition_leader_epoch: LeaderEpoch(-1),
            magic: MAGIC,
            crc: 0,
            attributes: 0,
            last_offset_delta: self.count.saturating_sub(1),
            base_timestamp_ms: self.base_timestamp_ms,
            max_timestamp_ms: self.max_timestamp_ms,
            producer_id: options.producer_id,
            producer_epoch: options.producer_epoch,
            base_sequence: options.base_sequence,
            record_count: self.count,
        };
        header.set_codec(options.codec);
        header.set_timestamp_type(TimestampType::CreateTime);
        header.set_transactional(options.transactional);
        header.set_control(options.control);
        header
    }
}

/// Appends the batch of `header` and `records` to `out`: compresses by the header's codec and sets
/// its length and CRC.
pub(super) fn seal(
    header: &mut Header,
    records: &[u8],
    level: Option<i32>,
    out: &mut Vec<u8>,
) -> Result<(), BuildError> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let codec = header.codec().unwrap_or_default();
    compress(codec, level, records, out).map_err(BuildError::Codec)?;
    let batch = out.get_mut(start..).unwrap_or_default();
    let counted = batch.len().saturating_sub(LENGTH_PREFIX_BYTES);
    header.batch_length = i32::try_from(counted).map_err(|_| BuildError::TooLarge)?;
    let (head, payload) = batch.split_first_chunk_mut().ok_or(BuildError::TooLarge)?;
    header.crc = checksum(&header.encode(), [&*payload]);
    *head = header.encode();
    Ok(())
}

/// Bytes of a record behind its size field.
fn body_bytes(record: &NewRecord<'_>, delta_ms: i64, offset_delta: i32) -> usize {
    let headers = record.headers.iter().fold(length_bytes(record.headers.len()), |sum, header| {
        sum.saturating_add(field_bytes(Some(header.0))).saturating_add(field_bytes(header.1))
    });
    (1 + size_i64(delta_ms) + size_i32(offset_delta))
        .saturating_add(field_bytes(record.key))
        .saturating_add(field_bytes(record.value))
        .saturating_add(headers)
}

fn field_bytes(field: Option<&[u8]>) -> usize {
    field.map_or(size_i32(-1), |bytes| length_bytes(bytes.len()).saturating_add(bytes.len()))
}

fn length_bytes(length: usize) -> usize {
    i32::try_from(length).map_or(5, size_i32)
}

fn put_bytes(out: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        None => put_i32(out, -1),
        Some(bytes) => {
            put_length(out, bytes.len());
            out.extend_from_slice(bytes);
        }
    }
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    put_i32(out, i32::try_from(length).expect("the whole batch was found to fit 31 bits"));
}
