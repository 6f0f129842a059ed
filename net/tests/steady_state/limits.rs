//! What a request may take, and whether it did.

use crate::counters::Taken;

/// What the shards may take for one request, on the average.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Allocations and reallocations.
    pub allocations: u64,
    /// Bytes asked of the allocator: less than the payload, so that no copy hides there.
    pub heap_bytes: u64,
    /// Bytes that are copied beside the payload: headers of requests and answers.
    pub header_bytes: u64,
}

/// Holds what all shards together took for `requests` against `limits`, and each shard's copied
/// bytes against what `payload_bytes` says it must copy of every request, by shard: all of that,
/// once, and no more than headers beside it.
pub fn check(
    taken: &[Taken],
    requests: u64,
    payload_bytes: &[u64],
    limits: &Limits,
) -> Result<(), String> {
    let all: Taken = taken.iter().copied().sum();
    if all.allocations > limits.allocations * requests {
        return Err(format!("{} allocations for {requests} requests", all.allocations));
    }
    if all.heap_bytes > limits.heap_bytes * requests {
        return Err(format!("{} heap bytes for {requests} requests", all.heap_bytes));
    }
    for (shard, (one, payload_bytes)) in taken.iter().zip(payload_bytes).enumerate() {
        let once = payload_bytes * requests..=(payload_bytes + limits.header_bytes) * requests;
        if !once.contains(&one.copied_bytes) {
            return Err(format!("shard {shard} copied {} bytes, not {once:?}", one.copied_bytes));
        }
    }
    Ok(())
}

/// Allocations that each record beyond the first batch's costs, from two runs of as many
/// requests, with `few` and `many` records in each batch.
pub fn allocations_per_record(few: (u64, Taken), many: (u64, Taken), requests: u64) -> f64 {
    let count = |taken: Taken| i64::try_from(taken.allocations).expect("small");
    let more = i64::try_from((many.0 - few.0) * requests).expect("small");
    let difference = count(many.1) - count(few.1);
    difference as f64 / more as f64
}
