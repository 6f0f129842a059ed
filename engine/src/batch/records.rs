//! The records of a batch, read where they lie.
//!
//! Owns the record format of magic 2. [`record_bytes`] makes a batch's records readable (as they
//! are, or decompressed under a cap); [`Records`] walks them without copying or allocating.
//!
//! Invariant: a record is yielded only when its declared size, its fields and its headers add up
//! exactly; the first that does not ends the walk with a [`RecordError`].

use std::{borrow::Cow, fmt};

use super::{
    compress::{CodecError, LZ4_DESCRIPTOR_BYTES, decompress, makes_at_once},
    header::{Codec, Header, TimestampType},
    varint::{take_i32, take_i64},
};
use crate::{io::buf::Chain, types::Offset};

/// Bytes of the smallest record: its size, attributes, two deltas, a null key, a null value and the
/// number of its headers, one byte each.
pub(super) const SMALLEST_RECORD_BYTES: usize = 7;

/// What is wrong with the records of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The attributes name no codec.
    UnknownCodec,
    /// The records do not decompress.
    Codec(CodecError),
    /// A record is malformed.
    Malformed {
        /// Its place in the batch, from 0.
        index: i32,
        /// What about it.
        what: &'static str,
    },
    /// Bytes follow the last record that the header counts.
    BytesRemain,
}

impl fmt::Display for RecordError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCodec => out.write_str("unknown compression codec"),
            Self::Codec(error) => error.fmt(out),
            Self::Malformed { index, what } => write!(out, "record {index}: {what}"),
            Self::BytesRemain => out.write_str("bytes remain behind the last record"),
        }
    }
}

impl std::error::Error for RecordError {}

impl From<CodecError> for RecordError {
    fn from(error: CodecError) -> Self {
        Self::Codec(error)
    }
}

/// The uncompressed records of a batch in one piece: borrowed when they lie so, copied when they
/// lie in several slices, or decompressed to at most `cap_bytes`.
pub fn record_bytes<'a>(
    header: &Header,
    payload: &'a Chain,
    cap_bytes: usize,
) -> Result<Cow<'a, [u8]>, RecordError> {
    let codec = header.codec().ok_or(RecordError::UnknownCodec)?;
    let stored = match payload.slices() {
        [] => Cow::Borrowed(&[][..]),
        [only] => Cow::Borrowed(&only[..]),
        _ => Cow::Owned(payload.to_vec()),
    };
    if codec == Codec::None {
        return Ok(stored);
    }
    let mut records = Vec::new();
    decompress(codec, &stored, cap_bytes, &mut records)?;
    Ok(Cow::Owned(records))
}

/// Whether the records of a batch are known, before they are made, to come to more than `bytes`
/// or to take that much memory on the way.
pub(crate) fn comes_to_more(header: &Header, payload: &Chain, bytes: usize) -> bool {
    let Some(codec) = header.codec() else { return false };
    let mut start = [0; LZ4_DESCRIPTOR_BYTES];
    let present = start.len().min(payload.len());
    payload.copy_to(0, start.get_mut(..present).unwrap_or_default());
    payload.len() > bytes || makes_at_once(codec, &start) > bytes
}

/// A record of a batch, borrowed from the batch's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its offset less the batch's base offset.
    pub offset_delta: i32,
    /// Its timestamp less the batch's base timestamp, in ms; means nothing under LogAppendTime.
    pub timestamp_delta_ms: i64,
    /// The key; `None` is null, which is not an empty key.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is null, a tombstone where the topic is compacted.
    pub value: Option<&'a [u8]>,
    /// The headers, in order, duplicates kept.
    pub headers: RecordHeaders<'a>,
}

impl Record<'_> {
    /// Its offset in a batch of this header. Saturates on nonsense.
    #[must_use]
    pub fn offset(&self, header: &Header) -> Offset {
        Offset(header.base_offset.0.saturating_add(i64::from(self.offset_delta)))
    }

    /// Its timestamp in ms in a batch of this header, by the batch's timestamp type. Wraps on
    /// overflow, as Kafka's readers do.
    #[must_use]
    pub fn timestamp_ms(&self, header: &Header) -> i64 {
        match header.timestamp_type() {
            TimestampType::LogAppendTime => header.max_timestamp_ms,
            TimestampType::CreateTime => {
                header.base_timestamp_ms.wrapping_add(self.timestamp_delta_ms)
            }
        }
    }
}

/// The headers of a record: pairs of key and value, the value possibly null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeaders<'a> {
    left: i32,
    rest: &'a [u8],
}

impl<'a> RecordHeaders<'a> {
    fn take_pair(&mut self) -> Result<(&'a [u8], Option<&'a [u8]>), &'static str> {
        let key = take_bytes(&mut self.rest)?.ok_or("a header's key is null")?;
        let value = take_bytes(&mut self.rest)?;
        Ok((key, value))
    }
}

impl<'a> Iterator for RecordHeaders<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left <= 0 {
            return None;
        }
        self.left = self.left.saturating_sub(1);
        // Every header was read once when the record was, so this one is whole.
        self.take_pair().ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(0);
        (left, Some(left))
    }
}

impl ExactSizeIterator for RecordHeaders<'_> {}

/// Walks the records of a batch in order. After an error, nothing more comes.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    index: i32,
    count: i32,
}

impl<'a> Records<'a> {
    /// The records of the batch with this header, given their bytes, uncompressed, from
    /// [`record_bytes`].
    #[must_use]
    pub fn new(header: &Header, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, index: 0, count: header.record_count }
    }

    fn end(&mut self) -> Option<Result<Record<'a>, RecordError>> {
        let remain = !self.rest.is_empty() && self.index >= self.count;
        self.stop();
        remain.then_some(Err(RecordError::BytesRemain))
    }

    fn stop(&mut self) {
        self.rest = &[];
        self.count = self.index;
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.count {
            return self.end();
        }
        match take_record(&mut self.rest) {
            Ok(record) => {
                self.index = self.index.saturating_add(1);
                Some(Ok(record))
            }
            Err(what) => {
                self.stop();
                Some(Err(RecordError::Malformed { index: self.index, what }))
            }
        }
    }
}

fn take_record<'a>(rest: &mut &'a [u8]) -> Result<Record<'a>, &'static str> {
    let size = take_i32(rest).ok_or("its size is cut or too long")?;
    let size = usize::try_from(size).map_err(|_| "its size is negative")?;
    let (mut body, behind) = rest.split_at_checked(size).ok_or("it is longer than the batch")?;
    *rest = behind;
    let (_attributes, fields) = body.split_first().ok_or("it is empty")?;
    body = fields;
    let timestamp_delta_ms = take_i64(&mut body).ok_or("its timestamp is cut or too long")?;
    let offset_delta = take_i32(&mut body).ok_or("its offset is cut or too long")?;
    let key = take_bytes(&mut body)?;
    let value = take_bytes(&mut body)?;
    let headers = take_headers(body)?;
    Ok(Record { offset_delta, timestamp_delta_ms, key, value, headers })
}

/// The headers that fill `body` exactly.
fn take_headers(mut body: &[u8]) -> Result<RecordHeaders<'_>, &'static str> {
    let count = take_i32(&mut body).ok_or("its number of headers is cut or too long")?;
    if count < 0 {
        return Err("its number of headers is negative");
    }
    let headers = RecordHeaders { left: count, rest: body };
    // A header takes at least two bytes, so a false count ends at the end of the bytes.
    let mut walk = headers;
    for _ in 0..count {
        walk.take_pair()?;
    }
    if walk.rest.is_empty() { Ok(headers) } else { Err("its size and its fields do not agree") }
}

/// Bytes behind their length; any negative length is null, as for Kafka.
fn take_bytes<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, &'static str> {
    let length = take_i32(rest).ok_or("a length is cut or too long")?;
    let Ok(length) = usize::try_from(length) else { return Ok(None) };
    let (bytes, behind) = rest.split_at_checked(length).ok_or("a field is longer than it")?;
    *rest = behind;
    Ok(Some(bytes))
}

/// A record's place and time, as a look-up by timestamp answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampedOffset {
    /// The record's offset.
    pub offset: Offset,
    /// Its timestamp in ms.
    pub timestamp_ms: i64,
}

/// The first record of a batch whose timestamp is at least `timestamp_ms` and whose offset is at
/// least `from`, exact inside the batch (ListOffsets by time). `bytes` are from [`record_bytes`].
pub fn first_at_or_after(
    header: &Header,
    bytes: &[u8],
    timestamp_ms: i64,
    from: Offset,
) -> Result<Option<TimestampedOffset>, RecordError> {
    for record in Records::new(header, bytes) {
        let found = located(header, &record?);
        if found.timestamp_ms >= timestamp_ms && found.offset >= from {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The first record of a batch that carries its largest timestamp (ListOffsets -3), so the first
/// record under LogAppendTime. `None` for a batch without records.
pub fn first_with_max_timestamp(
    header: &Header,
    bytes: &[u8],
) -> Result<Option<TimestampedOffset>, RecordError> {
    let mut best: Option<TimestampedOffset> = None;
    for record in Records::new(header, bytes) {
        let found = located(header, &record?);
        if best.is_none_or(|best| found.timestamp_ms > best.timestamp_ms) {
            best = Some(found);
        }
    }
    Ok(best)
}

fn located(header: &Header, record: &Record<'_>) -> TimestampedOffset {
    TimestampedOffset { offset: record.offset(header), timestamp_ms: record.timestamp_ms(header) }
}

#[cfg(test)]
mod tests;
