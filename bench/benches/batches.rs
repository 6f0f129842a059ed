//! Record batches of a wanted size, as a connection receives them.

use millrace_engine::{
    batch::{BatchBuilder, BatchOptions, NewRecord},
    io::buf::{Chain, Slice},
    limits::RECEIVE_BUFFER_BYTES,
    types::ProducerId,
};

/// Time of every record, in ms since the Unix epoch.
pub const RECORD_TIME_MS: i64 = 1_700_000_000_000;

/// Value of a record, in bytes, where the batch has room for more than one.
const VALUE_BYTES: usize = 1000;

/// An uncompressed batch of exactly `bytes`, in records of about 1 KiB, by an idempotent producer.
pub fn batch_of(bytes: usize) -> Vec<u8> {
    let value: Vec<u8> = (0..=u8::MAX).cycle().take(bytes + 2 * VALUE_BYTES).collect();
    let mut builder = BatchBuilder::new();
    let record = |length| NewRecord {
        timestamp_ms: RECORD_TIME_MS,
        value: Some(&value[..length]),
        ..NewRecord::default()
    };
    while builder.size_with_bytes(&record(2 * VALUE_BYTES)) < bytes {
        builder.push(&record(VALUE_BYTES)).expect("a small record");
    }
    let last = (0..bytes).rev().find(|&length| builder.size_with_bytes(&record(length)) <= bytes);
    builder.push(&record(last.expect("a batch has room for a record"))).expect("a small record");
    let options = BatchOptions {
        producer_id: ProducerId(1),
        producer_epoch: 0,
        base_sequence: 0,
        ..BatchOptions::default()
    };
    let mut out = Vec::new();
    builder.finish(&options, &mut out).expect("records");
    assert_eq!(out.len(), bytes, "the batch has the wanted size");
    out
}

/// `bytes` cut as the kernel hands them over, in receive buffers.
pub fn received(bytes: &[u8]) -> Chain {
    let mut chain = Chain::new();
    bytes.chunks(RECEIVE_BUFFER_BYTES).for_each(|part| chain.push(Slice::copy_of(part)));
    chain
}
