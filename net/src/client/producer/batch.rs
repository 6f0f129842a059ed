//! A batch of records on its way: what is to be sent, and whom to tell.
//!
//! Owns the bytes from the first record to the broker's answer. Knows neither its place in a queue
//! nor when it is sent.

use std::{sync::Arc, time::Instant};

use millrace_engine::{
    batch::{
        BatchBuilder, BatchOptions, BuildError, Codec, HEADER_BYTES, Header, NewRecord, Records,
        checksum, record_bytes,
    },
    io::buf::{Chain, Slice},
    limits::FRAME_CAP_BYTES,
    types::ProducerId,
};

use crate::client::error::{ClientError, Kind, Result};

/// Where a record ended up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMetadata {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: i32,
    /// Its offset; -1 with `acks=0`, or when a repeated send found it in the log already.
    pub offset: i64,
    /// Its timestamp in ms: the producer's, or the broker's time of append where the topic says so.
    pub timestamp_ms: i64,
}

/// Called once per record, from a thread of the producer: do little in it.
pub type Callback = Box<dyn FnOnce(Result<RecordMetadata>) + Send>;

/// A record whose fate is open.
pub struct Pending {
    /// Its timestamp in ms.
    pub timestamp_ms: i64,
    /// Whom to tell.
    pub callback: Option<Callback>,
}

/// Identity of an idempotent producer in one partition, and the batch's place in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Producer id.
    pub producer_id: i64,
    /// Epoch of it in this partition.
    pub epoch: i16,
    /// Sequence number of the first record.
    pub base_sequence: i32,
}

/// A batch.
pub struct Batch {
    /// Index of its partition in the accumulator.
    pub slot: usize,
    /// Rising in order of creation: the order in which batches of a partition are sent.
    pub serial: u64,
    /// Place of its first record in the batch that it was split off from, else 0.
    pub part: usize,
    /// When its first record came.
    pub created: Instant,
    /// Its records, in order.
    pub pending: Vec<Pending>,
    /// Bytes of `buffer.memory` it holds.
    pub charged_bytes: usize,
    /// How often it was sent.
    pub attempts: u32,
    /// Not to be sent again before.
    pub retry_at: Option<Instant>,
    /// Its sequence, once it has one.
    pub stamp: Option<Stamp>,
    pub(super) builder: BatchBuilder,
    sealed: Option<Slice>,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Batch(#{} of slot {}: {:?})", self.serial, self.slot, self.stamp)
    }
}

impl Batch {
    /// An empty batch that will collect records in `builder`.
    #[must_use]
    pub fn new(slot: usize, serial: u64, created: Instant, builder: BatchBuilder) -> Self {
        Self {
            slot,
            serial,
            part: 0,
            created,
            pending: Vec::new(),
            charged_bytes: 0,
            attempts: 0,
            retry_at: None,
            stamp: None,
            builder,
            sealed: None,
        }
    }

    /// Its place among the batches of its partition.
    #[must_use]
    pub fn order(&self) -> (u64, usize) {
        (self.serial, self.part)
    }

    /// Records in it.
    #[must_use]
    pub fn count(&self) -> i32 {
        i32::try_from(self.pending.len()).unwrap_or(i32::MAX)
    }

    /// Bytes it takes in a request, at most (before compression, until it is sealed).
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.sealed.as_ref().map_or(self.builder.size_bytes(), |sealed| sealed.len())
    }

    /// Whether it no longer takes records.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.sealed.is_some() || self.attempts > 0
    }

    /// The bytes to send, compressed and under the present stamp. `scratch` is reused memory.
    ///
    /// # Errors
    /// `Invalid` when the records cannot be made a batch.
    pub fn seal(&mut self, codec: Codec, scratch: &mut Vec<u8>) -> Result<Chain> {
        scratch.clear();
        match self.sealed.take() {
            None => {
                let options = options(codec, self.stamp);
                self.builder.finish(&options, scratch).map_err(unencodable)?;
                self.sealed = Some(Slice::copy_of(scratch));
            }
            Some(sealed) => self.sealed = Some(restamped(sealed, self.stamp, scratch)),
        }
        Ok(self.sealed.clone().map(Chain::from).unwrap_or_default())
    }

    /// Gives back the builder, whose memory serves the next batch.
    pub fn take_builder(&mut self) -> BatchBuilder {
        std::mem::take(&mut self.builder)
    }

    /// Tells every record's owner.
    pub fn finish(self, topic: &Arc<str>, partition: i32, result: &Result<Appended>) {
        for (index, pending) in (0_i64..).zip(self.pending) {
            let Some(callback) = pending.callback else { continue };
            callback(result.clone().map(|appended| RecordMetadata {
                topic: topic.clone(),
                partition,
                offset: if appended.base_offset < 0 { -1 } else { appended.base_offset + index },
                timestamp_ms: if appended.log_append_time_ms < 0 {
                    pending.timestamp_ms
                } else {
                    appended.log_append_time_ms
                },
            }));
        }
    }

    /// Two batches with half of the records each, in order and with sequences that go on; for a
    /// batch that is too large for its topic.
    ///
    /// # Errors
    /// The batch itself, when its own bytes do not read back, which is a bug.
    pub fn split(
        mut self,
        codec: Codec,
    ) -> std::result::Result<(Self, Self), (Box<Self>, ClientError)> {
        let half = self.pending.len() / 2;
        let (first, second) = match self.halves(codec, half) {
            Ok(halves) => halves,
            Err(error) => return Err((Box::new(self), error)),
        };
        let mut other = Self::new(self.slot, self.serial, self.created, BatchBuilder::new());
        other.part = self.part + half;
        other.pending = self.pending.split_off(half);
        other.stamp = self.stamp.map(|stamp| Stamp {
            base_sequence: super::sequences::sequence_plus(stamp.base_sequence, self.count()),
            ..stamp
        });
        other.charged_bytes = self.charged_bytes / 2;
        self.charged_bytes -= other.charged_bytes;
        self.attempts = 0;
        (self.sealed, other.sealed) = (Some(first), Some(second));
        Ok((self, other))
    }

    /// The bytes of a batch of the first `half` records, and of one of the rest.
    fn halves(&self, codec: Codec, half: usize) -> Result<(Slice, Slice)> {
        let sealed = self.sealed.as_ref().ok_or_else(own_bytes)?;
        let header = Header::from_prefix(sealed).ok_or_else(own_bytes)?;
        let payload = Chain::from(sealed.sub(HEADER_BYTES..sealed.len()));
        let plain = record_bytes(&header, &payload, FRAME_CAP_BYTES).map_err(|_| own_bytes())?;
        let mut builders = [BatchBuilder::new(), BatchBuilder::new()];
        for (index, record) in Records::new(&header, &plain).enumerate() {
            let record = record.map_err(|_| own_bytes())?;
            let headers: Vec<_> = record.headers.collect();
            let copy = NewRecord {
                timestamp_ms: record.timestamp_ms(&header),
                key: record.key,
                value: record.value,
                headers: &headers,
            };
            builders[usize::from(index >= half)].push(&copy).map_err(unencodable)?;
        }
        let [first, second] = builders.map(|mut builder| {
            let mut bytes = Vec::new();
            builder.finish(&options(codec, None), &mut bytes).map_err(unencodable)?;
            Ok(Slice::copy_of(&bytes))
        });
        Ok((first?, second?))
    }
}

/// What a broker says of a batch it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record, or -1 when it is not told.
    pub base_offset: i64,
    /// Time of append in ms where the topic stamps records, else -1.
    pub log_append_time_ms: i64,
}

impl Appended {
    /// In the log, or sent without asking for an answer; where is not known.
    pub const SOMEWHERE: Self = Self { base_offset: -1, log_append_time_ms: -1 };
}

fn options(codec: Codec, stamp: Option<Stamp>) -> BatchOptions {
    let plain = BatchOptions { codec, ..BatchOptions::default() };
    stamp.map_or(plain, |stamp| BatchOptions {
        producer_id: ProducerId(stamp.producer_id),
        producer_epoch: stamp.epoch,
        base_sequence: stamp.base_sequence,
        ..plain
    })
}

/// The same batch under another stamp, or the very same when it has not changed.
fn restamped(sealed: Slice, stamp: Option<Stamp>, scratch: &mut Vec<u8>) -> Slice {
    let (Some(mut header), Some(stamp)) = (Header::from_prefix(&sealed), stamp) else {
        return sealed;
    };
    let before = header;
    header.producer_id = ProducerId(stamp.producer_id);
    header.producer_epoch = stamp.epoch;
    header.base_sequence = stamp.base_sequence;
    if header == before {
        return sealed;
    }
    let payload = &sealed[HEADER_BYTES..];
    header.crc = checksum(&header.encode(), [payload]);
    scratch.extend_from_slice(&header.encode());
    scratch.extend_from_slice(payload);
    Slice::copy_of(scratch)
}

fn unencodable(error: BuildError) -> ClientError {
    ClientError::invalid(format!("the records make no batch: {error}"))
}

fn own_bytes() -> ClientError {
    ClientError::new(Kind::Protocol, "a batch of this producer does not read back; report this")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(values: &[&str]) -> Batch {
        let mut batch = Batch::new(0, 1, Instant::now(), BatchBuilder::new());
        for value in values {
            let record = NewRecord { value: Some(value.as_bytes()), ..NewRecord::default() };
            batch.builder.push(&record).expect("small");
            batch.pending.push(Pending { timestamp_ms: 0, callback: None });
        }
        batch
    }

    fn header(bytes: &Chain) -> Header {
        let header = Header::from_chain(bytes, 0).expect("a batch");
        let payload = bytes.sub(HEADER_BYTES..bytes.len());
        let pieces = payload.slices().iter().map(|slice| &slice[..]);
        assert_eq!(checksum(&header.encode(), pieces), header.crc);
        header
    }

    #[test]
    fn a_new_stamp_changes_the_header_and_its_checksum() {
        let mut batch = batch(&["a", "b"]);
        let mut scratch = Vec::new();
        batch.stamp = Some(Stamp { producer_id: 9, epoch: 0, base_sequence: 17 });
        let first = header(&batch.seal(Codec::Lz4, &mut scratch).expect("sealed"));
        assert_eq!((first.producer_id.0, first.base_sequence), (9, 17));
        batch.stamp = Some(Stamp { producer_id: 9, epoch: 1, base_sequence: 0 });
        let second = header(&batch.seal(Codec::Lz4, &mut scratch).expect("sealed again"));
        assert_eq!((second.producer_epoch, second.base_sequence), (1, 0));
        assert_ne!(first.crc, second.crc);
    }

    #[test]
    fn a_split_batch_keeps_its_records_and_sequences_in_order() {
        let mut whole = batch(&["a", "b", "c"]);
        whole.stamp = Some(Stamp { producer_id: 9, epoch: 0, base_sequence: 10 });
        let mut scratch = Vec::new();
        whole.seal(Codec::Zstd, &mut scratch).expect("sealed");
        let (mut first, mut second) = whole.split(Codec::Zstd).expect("reads back");
        let one = header(&first.seal(Codec::Zstd, &mut scratch).expect("sealed"));
        let two = header(&second.seal(Codec::Zstd, &mut scratch).expect("sealed"));
        assert_eq!((one.record_count, two.record_count), (1, 2));
        assert_eq!((one.base_sequence, two.base_sequence), (10, 11));
    }
}
