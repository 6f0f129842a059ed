//! The producers' state at an offset, in a file of our own (`<offset>.producers`): Kafka's snapshot
//! keeps one batch per producer, and a repeated batch is to be recognised after a restart among all
//! five. docs/format.md has the bytes.

use smallvec::SmallVec;

use super::{
    frame::{Fields, Format},
    producers::{Producer, ProducerBatch, Producers},
};
use crate::{
    limits::PRODUCER_BATCHES_KEPT,
    types::{Offset, ProducerId},
};

const FORMAT: Format = Format { magic: *b"MRPS", version: 1 };

/// The bytes of a snapshot of `producers` at `end`.
pub(super) fn encode(producers: &Producers, end: Offset) -> Vec<u8> {
    let mut content = Vec::with_capacity(12 + producers.len() * 64);
    content.extend_from_slice(&end.0.to_be_bytes());
    let count = u32::try_from(producers.len()).expect("far fewer than 2^32 producers");
    content.extend_from_slice(&count.to_be_bytes());
    for (id, producer) in producers.iter() {
        let start = producer.transaction_start.map_or(-1, |offset| offset.0);
        content.extend_from_slice(&id.0.to_be_bytes());
        content.extend_from_slice(&producer.epoch.to_be_bytes());
        content.extend_from_slice(&producer.coordinator_epoch.to_be_bytes());
        content.extend_from_slice(&start.to_be_bytes());
        content.extend_from_slice(&producer.last_timestamp_ms.to_be_bytes());
        content.push(u8::try_from(producer.batches.len()).expect("at most five batches are kept"));
        for batch in &producer.batches {
            content.extend_from_slice(&batch.first_sequence.to_be_bytes());
            content.extend_from_slice(&batch.last_sequence.to_be_bytes());
            content.extend_from_slice(&batch.base_offset.0.to_be_bytes());
            content.extend_from_slice(&batch.last_offset.0.to_be_bytes());
            content.extend_from_slice(&batch.timestamp_ms.to_be_bytes());
        }
    }
    FORMAT.encode(&content)
}

/// The producers in a snapshot's bytes and the offset it was taken at; `None` for damage.
pub(super) fn decode(bytes: &[u8]) -> Option<(Producers, Offset)> {
    let mut fields = Fields(FORMAT.decode(bytes)?);
    let end = Offset(fields.i64()?);
    let count = fields.u32()?;
    let mut producers = Producers::default();
    for _ in 0..count {
        let id = ProducerId(fields.i64()?);
        producers.restore(id, producer(&mut fields)?);
    }
    fields.0.is_empty().then_some((producers, end))
}

fn producer(fields: &mut Fields<'_>) -> Option<Producer> {
    let epoch = fields.i16()?;
    let coordinator_epoch = fields.i32()?;
    let start = fields.i64()?;
    let last_timestamp_ms = fields.i64()?;
    let count = usize::from(fields.u8()?);
    let mut batches = SmallVec::new();
    for _ in 0..count {
        batches.push(ProducerBatch {
            first_sequence: fields.i32()?,
            last_sequence: fields.i32()?,
            base_offset: Offset(fields.i64()?),
            last_offset: Offset(fields.i64()?),
            timestamp_ms: fields.i64()?,
        });
    }
    let transaction_start = (start >= 0).then_some(Offset(start));
    let producer =
        Producer { epoch, coordinator_epoch, transaction_start, last_timestamp_ms, batches };
    (count <= PRODUCER_BATCHES_KEPT).then_some(producer)
}
