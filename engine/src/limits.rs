//! Every bound of the engine in one place, with compile-time proofs of their relations.
//!
//! A queue, cache, buffer or wait without a limit from here does not pass review.

/// Alignment of direct I/O in memory, file offset and length, in bytes.
pub const DIRECT_ALIGNMENT_BYTES: usize = 4096;

/// Sizes of pooled buffers, in bytes, ascending.
pub const BUFFER_CLASS_BYTES: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Size of one receive buffer, in bytes (research: 16 KiB and 256 KiB are both slower).
pub const RECEIVE_BUFFER_BYTES: usize = 64 << 10;

/// Receive buffers that one shard lends to the kernel.
pub const RECEIVE_BUFFERS_PER_SHARD: usize = 64;

/// Unread receive buffers of one connection, beyond which its receive stops.
pub const RECEIVE_BUFFERS_PER_CONNECTION: usize = 16;

/// Default budget of pooled buffers of one shard, in bytes; receive, append, tail and cold reads.
pub const BUFFER_BUDGET_PER_SHARD_BYTES: usize = 256 << 20;

/// Largest request frame, in bytes: Kafka's default of `socket.request.max.bytes`.
pub const FRAME_CAP_BYTES: usize = 100 << 20;

/// Longest read of a log in one buffer, in bytes.
pub const READ_CHUNK_BYTES: usize = 256 << 10;

/// Messages waiting for one shard, divided among the shards that send to it.
pub const MAILBOX_DEPTH: usize = 4096;

/// Submission queue entries of a shard's ring.
pub const RING_ENTRIES: u32 = 512;

/// Completion queue entries of a shard's ring.
pub const RING_COMPLETIONS: u32 = 4096;

/// Threads of a process for work that may block; more in flight than disks take does not help.
pub const BLOCKING_THREADS: usize = 4;

/// Free space of a data directory, below which a start is refused, in bytes.
pub const FREE_DISK_MIN_BYTES: u64 = 64 << 20;

/// Batches remembered per producer id and partition (KIP-98's five requests in flight).
pub const PRODUCER_BATCHES_KEPT: usize = 5;

/// Shards of one process.
pub const SHARDS_MAX: usize = 256;

// A direct write starts and ends in a pooled buffer, so every class is a multiple of the alignment.
const _: () = {
    let mut class = 0;
    while class < BUFFER_CLASS_BYTES.len() {
        assert!(BUFFER_CLASS_BYTES[class].is_multiple_of(DIRECT_ALIGNMENT_BYTES));
        class += 1;
    }
};
// Receive and cold-read buffers come from the pool, so each size is a class.
const _: () = assert!(RECEIVE_BUFFER_BYTES == BUFFER_CLASS_BYTES[2]);
const _: () = assert!(READ_CHUNK_BYTES == BUFFER_CLASS_BYTES[3]);
// Lent receive buffers leave most of the budget to appends and tail reads.
const _: () =
    assert!(RECEIVE_BUFFERS_PER_SHARD * RECEIVE_BUFFER_BYTES * 4 <= BUFFER_BUDGET_PER_SHARD_BYTES);
// One connection can never hold all receive buffers of its shard.
const _: () = assert!(RECEIVE_BUFFERS_PER_CONNECTION * 2 <= RECEIVE_BUFFERS_PER_SHARD);
