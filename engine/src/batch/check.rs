//! What a batch from a client must be before it may touch a log (Kafka's `LogValidator`).
//!
//! Owns the checks and their order; each refusal is Kafka's for the same bytes. Reads the payload
//! once, for the CRC. The records themselves are walked only where a rule asks for it: otherwise
//! the header is trusted as far as its payload can bear it out, and a batch whose inner count or
//! timestamps differ from its header's is stored as sent, for its readers to notice (Kafka walks
//! always).
//!
//! Invariant: an [`Accepted`] batch has the CRC, the attributes and the maximum timestamp that it
//! is to be stored with.

use std::fmt;

use super::{
    checksum::{checksum, shift_checksum},
    compress::CodecError,
    header::{Codec, HEADER_BYTES, Header, LENGTH_PREFIX_BYTES, MAGIC, TimestampType},
    records::{Record, RecordError, Records, SMALLEST_RECORD_BYTES, comes_to_more, record_bytes},
};
use crate::{
    io::buf::Chain,
    limits::{DECOMPRESSED_BATCH_CAP_BYTES, RECORD_ERRORS_MAX},
    types::Offset,
};

/// Smallest length field that Kafka takes for a batch of any format; less is corruption.
const LENGTH_MIN: i32 = 14;

const TIMESTAMPS_REJECTED: &str =
    "One or more records have been rejected due to invalid timestamp.";

/// What a topic, and the version of the request, ask of a batch.
#[derive(Clone, Debug)]
pub struct Rules {
    /// `cleanup.policy` has `compact`: every record needs a key.
    pub compacted: bool,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`; `i64::MAX` is no bound.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`; `i64::MAX` is no bound.
    pub timestamp_after_max_ms: i64,
    /// `max.message.bytes`, for the whole batch as sent.
    pub max_message_bytes: usize,
    /// `segment.bytes`.
    pub segment_bytes: usize,
    /// Whether the request's version may carry Zstandard (Produce 7 and up).
    pub allow_zstd: bool,
    /// Walk the records of every batch, as Kafka does.
    pub strict: bool,
    /// Most bytes of decompressed records, where they are looked at.
    pub decompressed_cap_bytes: usize,
}

impl Default for Rules {
    /// Kafka's defaults for a topic, and a request of any recent version.
    fn default() -> Self {
        Self {
            compacted: false,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            max_message_bytes: 1_048_588,
            segment_bytes: 1 << 30,
            allow_zstd: true,
            strict: false,
            decompressed_cap_bytes: DECOMPRESSED_BATCH_CAP_BYTES,
        }
    }
}

/// A batch that passed every check.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// The header to be stored, but for base offset and leader epoch, which the log assigns and
    /// no CRC covers.
    pub header: Header,
    /// The bytes behind the header, as sent.
    pub payload: Chain,
}

impl Accepted {
    /// Bytes of the whole batch.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        HEADER_BYTES.saturating_add(self.payload.len())
    }
}

/// Faulty records: place in the batch and what is wrong, at most [`RECORD_ERRORS_MAX`] of them.
pub type RecordErrors = Vec<(i32, String)>;

/// Why a batch is refused. Each variant is one Kafka error, which `net` knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The CRC does not match, or the length or the magic cannot be right (CORRUPT_MESSAGE).
    Corrupt,
    /// The batch or some of its records break a rule (INVALID_RECORD).
    InvalidRecord {
        /// The rule, for the client's log.
        message: String,
        /// The records at fault; empty when it is the batch.
        record_errors: RecordErrors,
    },
    /// Larger than `max.message.bytes`, or than the cap once decompressed (MESSAGE_TOO_LARGE).
    TooLarge,
    /// Larger than a segment (RECORD_LIST_TOO_LARGE).
    LargerThanSegment,
    /// A codec that does not exist or not for this version (UNSUPPORTED_COMPRESSION_TYPE).
    UnsupportedCodec,
    /// Timestamps out of bounds, or of the broker's type (INVALID_TIMESTAMP).
    InvalidTimestamp {
        /// The rule, for the client's log.
        message: String,
        /// The records at fault; empty when it is the batch.
        record_errors: RecordErrors,
    },
}

impl Rejection {
    fn invalid(message: impl Into<String>) -> Self {
        Self::InvalidRecord { message: message.into(), record_errors: Vec::new() }
    }
}

impl From<RecordError> for Rejection {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Codec(CodecError::OverCap) => Self::TooLarge,
            RecordError::UnknownCodec => Self::UnsupportedCodec,
            other => Self::invalid(format!("Found invalid records: {other}.")),
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt => out.write_str("The record batch is corrupt."),
            Self::TooLarge => out.write_str("The record batch is larger than max.message.bytes."),
            Self::LargerThanSegment => {
                out.write_str("The record batch is larger than segment.bytes.")
            }
            Self::UnsupportedCodec => {
                out.write_str("The compression type is unknown or needs a newer produce request.")
            }
            Self::InvalidRecord { message, .. } | Self::InvalidTimestamp { message, .. } => {
                out.write_str(message)
            }
        }
    }
}

impl std::error::Error for Rejection {}

/// Checks that `batch` is exactly one batch that a client may append under `rules` at wall time
/// `now_ms`, and makes its header as it is to be stored.
///
/// Idempotence and transactions are left to the log, which has the producer's state: see
/// [`Header::is_idempotent`] and [`Header::is_transactional`].
pub fn check(batch: &Chain, rules: &Rules, now_ms: i64) -> Result<Accepted, Rejection> {
    Unwalked::new(batch, rules, now_ms)?.finish()
}

/// As [`check`], but for a thread that others wait for: records that come to more than
/// `quick_bytes`, once decompressed, are left for later.
pub fn begin(
    batch: &Chain,
    rules: &Rules,
    now_ms: i64,
    quick_bytes: usize,
) -> Result<Begun, Rejection> {
    let unwalked = Unwalked::new(batch, rules, now_ms)?;
    if unwalked.exceeds(quick_bytes) {
        return Ok(Begun::Long(unwalked));
    }
    let quick_bytes = quick_bytes.min(rules.decompressed_cap_bytes);
    match unwalked.max_timestamp_ms(quick_bytes) {
        Ok(max_timestamp_ms) => unwalked.accept(max_timestamp_ms).map(Begun::Done),
        // Over the bound of the quick look, not necessarily over the topic's.
        Err(Rejection::TooLarge) if quick_bytes < rules.decompressed_cap_bytes => {
            Ok(Begun::Long(unwalked))
        }
        Err(rejection) => Err(rejection),
    }
}

/// How far [`begin`] came.
#[derive(Debug)]
pub enum Begun {
    /// All the way.
    Done(Accepted),
    /// Up to the records.
    Long(Unwalked),
}

impl Begun {
    /// The rest of the check, which may take as long as walking `decompressed_cap_bytes` does.
    pub fn finish(self) -> Result<Accepted, Rejection> {
        match self {
            Self::Done(accepted) => Ok(accepted),
            Self::Long(unwalked) => unwalked.finish(),
        }
    }
}

/// A batch that passed every check but those of its records, which may not be asked for.
#[derive(Debug)]
pub struct Unwalked {
    bytes: [u8; HEADER_BYTES],
    header: Header,
    payload: Chain,
    rules: Rules,
    now_ms: i64,
}

impl Unwalked {
    fn new(batch: &Chain, rules: &Rules, now_ms: i64) -> Result<Self, Rejection> {
        let (bytes, header) = one_batch(batch, rules)?;
        if header.base_offset != Offset(0) {
            return Err(Rejection::invalid("The base offset of the record batch should be 0."));
        }
        if batch.len() > rules.max_message_bytes {
            return Err(Rejection::TooLarge);
        }
        let payload = batch.sub(HEADER_BYTES..batch.len());
        if checksum(&bytes, payload.slices().iter().map(|slice| &**slice)) != header.crc {
            return Err(Rejection::Corrupt);
        }
        check_header(&header)?;
        check_count(&header, payload.len(), rules)?;
        check_timestamp_type(&header, rules)?;
        Ok(Self { bytes, header, payload, rules: rules.clone(), now_ms })
    }

    /// Whether a walk is known to take more than `bytes` of records before it is begun.
    fn exceeds(&self, bytes: usize) -> bool {
        needs_walk(&self.header, &self.rules, self.now_ms)
            && comes_to_more(&self.header, &self.payload, bytes)
    }

    /// The largest timestamp of the records; walked, up to `cap_bytes`, where a rule asks for it.
    fn max_timestamp_ms(&self, cap_bytes: usize) -> Result<i64, Rejection> {
        if needs_walk(&self.header, &self.rules, self.now_ms) {
            walk(&self.header, &self.payload, &self.rules, cap_bytes, self.now_ms)
        } else {
            Ok(self.header.max_timestamp_ms)
        }
    }

    fn accept(self, max_timestamp_ms: i64) -> Result<Accepted, Rejection> {
        let Self { bytes, header, payload, rules, now_ms } = self;
        if HEADER_BYTES.saturating_add(payload.len()) > rules.segment_bytes {
            return Err(Rejection::LargerThanSegment);
        }
        let header = as_stored(&header, &bytes, &rules, max_timestamp_ms, now_ms);
        Ok(Accepted { header, payload })
    }

    fn finish(self) -> Result<Accepted, Rejection> {
        let max_timestamp_ms = self.max_timestamp_ms(self.rules.decompressed_cap_bytes)?;
        self.accept(max_timestamp_ms)
    }
}

/// The header of the only batch in `batch`, with a known codec.
fn one_batch(batch: &Chain, rules: &Rules) -> Result<([u8; HEADER_BYTES], Header), Rejection> {
    let not_one = || Rejection::invalid("A partition's data must be exactly one record batch.");
    let mut bytes = [0; HEADER_BYTES];
    let present = batch.len().min(HEADER_BYTES);
    batch.copy_to(0, bytes.get_mut(..present).unwrap_or_default());
    let header = Header::parse(&bytes);
    // Up to the magic byte the old formats agree with ours, so it can be judged alone.
    if present <= LENGTH_PREFIX_BYTES + 4 {
        return Err(not_one());
    }
    if header.batch_length < LENGTH_MIN || !(0..=MAGIC).contains(&header.magic) {
        return Err(Rejection::Corrupt);
    }
    if header.magic != MAGIC {
        return Err(Rejection::invalid("Only record batches of magic 2 are taken."));
    }
    let size = header.size_bytes();
    if size > batch.len() {
        return Err(not_one());
    }
    if size < HEADER_BYTES {
        return Err(Rejection::Corrupt);
    }
    match header.codec() {
        None => return Err(Rejection::UnsupportedCodec),
        Some(Codec::Zstd) if !rules.allow_zstd => return Err(Rejection::UnsupportedCodec),
        Some(_) => {}
    }
    if size < batch.len() {
        return Err(not_one());
    }
    Ok((bytes, header))
}

/// The rules about fields under the CRC.
fn check_header(header: &Header) -> Result<(), Rejection> {
    if header.record_count <= 0 || header.last_offset_delta < 0 {
        return Err(Rejection::invalid("The record batch counts no records."));
    }
    if header.last_offset_delta != header.record_count.saturating_sub(1) {
        return Err(Rejection::invalid(
            "The record batch's offset range and count of records do not agree.",
        ));
    }
    if header.is_control() {
        return Err(Rejection::invalid("Clients are not allowed to write control records."));
    }
    if header.is_idempotent() && header.base_sequence < 0 {
        return Err(Rejection::invalid("The record batch has a producer id but no sequence."));
    }
    Ok(())
}

/// Refuses more records than `payload_bytes` can hold, or can be decompressed to under the cap:
/// each takes an offset, so a batch of a few bytes could use up billions. A walk would refuse the
/// same.
fn check_count(header: &Header, payload_bytes: usize, rules: &Rules) -> Result<(), Rejection> {
    let count = usize::try_from(header.record_count).unwrap_or(usize::MAX);
    let fit_in = |bytes: usize| count <= bytes / SMALLEST_RECORD_BYTES;
    match header.codec() {
        Some(Codec::None) if !fit_in(payload_bytes) => {
            Err(Rejection::invalid("The record batch counts more records than it has room for."))
        }
        Some(Codec::None) => Ok(()),
        _ if !fit_in(rules.decompressed_cap_bytes) => Err(Rejection::TooLarge),
        _ => Ok(()),
    }
}

/// Only the broker may say LogAppendTime. As Kafka does, a CreateTime topic forgives it (the bit is
/// cleared and the maximum timestamp stands) unless there is no timestamp to fall back on.
fn check_timestamp_type(header: &Header, rules: &Rules) -> Result<(), Rejection> {
    let forgiven =
        rules.timestamp_type == TimestampType::CreateTime && header.max_timestamp_ms != -1;
    if header.timestamp_type() == TimestampType::CreateTime || forgiven {
        return Ok(());
    }
    let named = header.record_count.min(i32::try_from(RECORD_ERRORS_MAX).unwrap_or(i32::MAX));
    let reason = "Producer should not set timestamp type to LogAppendTime.";
    Err(Rejection::InvalidTimestamp {
        message: TIMESTAMPS_REJECTED.into(),
        record_errors: (0..named).map(|place| (place, reason.to_owned())).collect(),
    })
}

/// The header's maximum settles the bound above; a header that breaks it is not refused on its
/// word: the records decide, and the answer names those at fault.
fn needs_walk(header: &Header, rules: &Rules, now_ms: i64) -> bool {
    let bounded_below = rules.timestamp_type == TimestampType::CreateTime
        && rules.timestamp_before_max_ms != i64::MAX;
    rules.strict
        || rules.compacted
        || bounded_below
        || is_out_of_bounds(header.max_timestamp_ms, rules, now_ms)
}

fn is_out_of_bounds(timestamp_ms: i64, rules: &Rules, now_ms: i64) -> bool {
    // -1 says that the producer gave no time, which no bound forbids.
    if rules.timestamp_type == TimestampType::LogAppendTime || timestamp_ms == -1 {
        return false;
    }
    let age_ms = i128::from(now_ms) - i128::from(timestamp_ms);
    age_ms > i128::from(rules.timestamp_before_max_ms)
        || -age_ms > i128::from(rules.timestamp_after_max_ms)
}

/// Walks the records; returns the largest timestamp among them.
fn walk(
    header: &Header,
    payload: &Chain,
    rules: &Rules,
    cap_bytes: usize,
    now_ms: i64,
) -> Result<i64, Rejection> {
    let records = record_bytes(header, payload, cap_bytes)?;
    let mut max_timestamp_ms = -1;
    let mut faults = Faults::default();
    let mut walked = 0;
    for record in Records::new(header, &records) {
        let record = record?;
        if record.offset_delta != walked {
            return Err(Rejection::invalid("The records' offsets do not follow each other."));
        }
        faults.note(header, &record, rules, now_ms);
        max_timestamp_ms = max_timestamp_ms.max(record.timestamp_ms(header));
        walked = walked.saturating_add(1);
    }
    faults.result()?;
    Ok(max_timestamp_ms)
}

#[derive(Default)]
struct Faults {
    count: usize,
    of_timestamp: bool,
    named: RecordErrors,
}

impl Faults {
    fn note(&mut self, header: &Header, record: &Record<'_>, rules: &Rules, now_ms: i64) {
        let timestamp_ms = record.timestamp_ms(header);
        let reason = if rules.compacted && record.key.is_none() {
            "Compacted topic cannot accept message without key.".into()
        } else if is_out_of_bounds(timestamp_ms, rules, now_ms) {
            self.of_timestamp = true;
            let low = now_ms.saturating_sub(rules.timestamp_before_max_ms);
            let high = now_ms.saturating_add(rules.timestamp_after_max_ms);
            format!("Timestamp {timestamp_ms} is out of range, which is [{low}, {high}].")
        } else {
            return;
        };
        self.count = self.count.saturating_add(1);
        if self.named.len() < RECORD_ERRORS_MAX {
            self.named.push((record.offset_delta, reason));
        }
    }

    fn result(self) -> Result<(), Rejection> {
        let record_errors = self.named;
        if self.of_timestamp {
            let message = TIMESTAMPS_REJECTED.into();
            return Err(Rejection::InvalidTimestamp { message, record_errors });
        }
        if self.count > 0 {
            let message = format!("{} records of the batch have been rejected.", self.count);
            return Err(Rejection::InvalidRecord { message, record_errors });
        }
        Ok(())
    }
}

/// The header to store: the broker's time on topics that ask for it, and the true maximum
/// timestamp where it is known; the CRC follows without another look at the payload.
fn as_stored(
    header: &Header,
    bytes: &[u8; HEADER_BYTES],
    rules: &Rules,
    max_timestamp_ms: i64,
    now_ms: i64,
) -> Header {
    let mut stored = *header;
    stored.set_timestamp_type(rules.timestamp_type);
    stored.max_timestamp_ms = match rules.timestamp_type {
        TimestampType::LogAppendTime => now_ms,
        TimestampType::CreateTime => max_timestamp_ms,
    };
    if stored != *header {
        let payload_bytes = u32::try_from(header.payload_bytes())
            .expect("a batch's length is a positive 32-bit number");
        stored.crc = shift_checksum(header.crc, bytes, &stored.encode(), payload_bytes);
    }
    stored
}

#[cfg(test)]
mod tests;
