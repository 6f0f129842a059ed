//! Every bound of the engine in one place, with compile-time proofs of their relations.
//!
//! A queue, cache, buffer or wait without a limit from here does not pass review.

/// Alignment of direct I/O in memory, file offset and length, in bytes.
pub const DIRECT_ALIGNMENT_BYTES: usize = 4096;

/// Sizes of pooled buffers, in bytes, ascending.
pub const BUFFER_CLASS_BYTES: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Free buffers of each class that a shard keeps after its regular upkeep.
pub const BUFFERS_KEPT_PER_CLASS: usize = 64;

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

/// Size of an encoded header between shards, in bytes; the largest carries a batch header.
pub const HOP_FRAME_BYTES: usize = 160;

/// How often a listening address that is in use is tried again at start, and how long apart: two
/// seconds, within which the ring of a killed predecessor is taken down even on a busy host.
pub const BIND_RETRIES: usize = 100;

/// See [`BIND_RETRIES`].
pub const BIND_RETRY_INTERVAL: std::time::Duration = std::time::Duration::from_millis(20);

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

/// Most bytes that the records of one batch may take once decompressed. Kafka has no such bound,
/// so a few KiB of zstd can cost it gigabytes; clients fill batches by uncompressed size, about
/// `batch.size` or one record of at most `max.request.size` (1 MiB), far below.
pub const DECOMPRESSED_BATCH_CAP_BYTES: usize = 64 << 20;

/// Most bytes of records, decompressed, that are looked at on a shard's core: about 0.1 ms in the
/// worst case (gzip, or records of a few bytes each), a tenth of a round of its tasks, and as long
/// as the way to another thread and back. More goes to the threads for long work.
pub const QUICK_RECORDS_BYTES: usize = 64 << 10;

/// Threads of a process for work that computes long: checks and recompression of large batches.
/// Each holds one batch, as sent and decompressed. They are not those for files, which nobody
/// should wait for behind a batch.
pub const LONG_WORK_THREADS: usize = 2;

/// Faulty records named in the answer to one batch; the rest only count.
pub const RECORD_ERRORS_MAX: usize = 1024;

/// Largest `partition.metadata` that is read, in bytes; it takes 45.
pub const PARTITION_METADATA_CAP_BYTES: u64 = 4096;

/// Directories of no topic that the line about them names.
pub const STRAYS_NAMED_MAX: usize = 5;

/// Two topic ids that differ in fewer bits are one, damaged: random ones differ in 61 of their 122
/// bits, and in fewer than 16 once in 10^17. One damaged character changes six at most.
pub const TOPIC_ID_NEAR_BITS: u32 = 16;

/// First pause before partitions that could not be opened are tried again, in milliseconds; doubles
/// with each round in vain.
pub const REOPEN_PAUSE_MIN_MS: u64 = 100;

/// Longest of these pauses, in milliseconds: an operator who made room sees it used soon.
pub const REOPEN_PAUSE_MAX_MS: u64 = 5_000;

/// Pause before a log that was short of room or descriptors tries again, in milliseconds.
pub const SHORTAGE_PAUSE_MS: u64 = 1_000;

/// Longest name in a directory, in bytes: `NAME_MAX` of Linux and of all its file systems.
pub const FILE_NAME_BYTES_MAX: usize = 255;

/// Partitions tried again in one round, so that the images that wait meanwhile wait shortly.
pub const REOPEN_ROUND: usize = 64;

/// Logs that one shard closes at a time at a stop; the disk is busy with fewer, and each may hold a
/// few descriptors meanwhile.
pub const LOGS_CLOSED_AT_ONCE: usize = 32;

/// Longest time that a shard's logs together take to close at a stop, in milliseconds; well below
/// the 90 seconds that service managers grant. What is not closed is recovered at the next start.
pub const CLOSE_DEADLINE_MS: u64 = 30_000;

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

/// Largest append chunk of one log, in bytes; a quiet log starts with the smallest buffer class.
pub const TAIL_CHUNK_MAX_BYTES: usize = 256 << 10;

/// Bytes of batches between two remembered batch positions of a log's tail in memory.
pub const TAIL_POINT_BYTES: u64 = 4096;

/// Bytes of one log appended but not yet taken by the device, beyond which appends wait.
pub const UNWRITTEN_PER_LOG_BYTES: usize = 16 << 20;

/// Unwritten bytes of one log from which on its write does not wait for a flush in flight.
pub const WRITE_DURING_FLUSH_BYTES: u64 = 256 << 10;

/// Rate of writes to one disk by one shard from which on the disk rests between flushes, so that
/// each covers more, in bytes per second. What one client sends with `linger.ms=0` stays below.
pub const FLUSH_REST_FROM_BYTES_PER_S: u64 = 32 << 20;

/// Time over which that rate is taken, in nanoseconds: several groups of writes with their flush.
pub const FLUSH_RATE_WINDOW_NS: u64 = 10_000_000;

/// The rest in units of the time that the writes and the flush before it took.
pub const FLUSH_REST_SHARE: u64 = 8;

/// The longest rest of a disk, in nanoseconds.
pub const FLUSH_REST_MAX_NS: u64 = 2_000_000;

/// Smallest and first step of zeroing ahead of the appends, in bytes.
pub const PREPARE_STEP_MIN_BYTES: u64 = 64 << 10;

/// Largest step of zeroing ahead of the appends, in bytes.
pub const PREPARE_STEP_MAX_BYTES: u64 = 8 << 20;

/// Largest index file read into memory, in bytes: twice Kafka's default of `segment.index.bytes`.
pub const INDEX_FILE_CAP_BYTES: u64 = 20 << 20;

/// Largest of the log's other small files, in bytes.
pub const SMALL_FILE_CAP_BYTES: u64 = 64 << 20;

/// Memory of the indexes of sealed segments that one volume caches, in bytes.
pub const INDEX_CACHE_BYTES: usize = 32 << 20;

/// Files of sealed segments that one volume keeps open for readers.
pub const OPEN_SEALED_FILES: usize = 256;

/// Bytes by which a deleted segment shrinks at a time before it is unlinked.
pub const TRUNCATE_STEP_BYTES: u64 = 64 << 20;

/// Bytes read at a time in a search by timestamp.
pub const TIMESTAMP_READ_BYTES: usize = 64 << 10;

/// Share of a shard's buffers that written tail chunks may hold for readers.
pub const TAIL_BUDGET_SHARE: usize = 2;

/// Bytes read ahead for one reader from disk, below which more are read: Kafka's default of
/// `max.partition.fetch.bytes`, and what is cut off at its end.
pub const READ_AHEAD_WINDOW_BYTES: usize = (1 << 20) + READ_CHUNK_BYTES;

/// Readers from disk, by their place in a log, that one volume remembers.
pub const READ_AHEAD_STREAMS: usize = 256;

/// Share of the memory for written tail chunks that may be held besides by what is read ahead.
pub const READ_AHEAD_BUDGET_SHARE: usize = 4;

/// Silence of a reader from disk after which what was read ahead for it goes, in milliseconds.
pub const READ_AHEAD_IDLE_MS: u64 = 2_000;

/// Silence after which a log gives its tail back, in milliseconds.
pub const TAIL_IDLE_MS: i64 = 10_000;

/// Pause between two rounds of a volume's care for quiet logs, in milliseconds.
pub const CARE_INTERVAL_MS: u64 = 2_000;

/// Bytes written since the last durable-end record, beyond which the next round of care writes a
/// new one for the next flush to cover.
pub const DURABLE_RECORD_BYTES: u64 = 1 << 20;

/// Bytes written since the last durable-end record, beyond which the next one is synced by itself.
pub const DURABLE_RECORD_SYNC_BYTES: u64 = 64 << 20;

/// Producers that one log remembers; beyond it those silent longest are forgotten first.
pub const PRODUCERS_PER_LOG: usize = 100_000;

// A chunk comes from the pool, and zeroing steps and writes are direct.
const _: () = assert!(TAIL_CHUNK_MAX_BYTES == BUFFER_CLASS_BYTES[3]);
const _: () = assert!(PREPARE_STEP_MIN_BYTES.is_multiple_of(DIRECT_ALIGNMENT_BYTES as u64));
const _: () = assert!(PREPARE_STEP_MAX_BYTES.is_multiple_of(PREPARE_STEP_MIN_BYTES));
// What is read ahead and the tails leave a quarter of the buffers to what cannot do without.
const _: () = assert!(TAIL_BUDGET_SHARE * READ_AHEAD_BUDGET_SHARE >= 8);
const _: () = assert!(
    (READ_AHEAD_WINDOW_BYTES + READ_CHUNK_BYTES) * 8
        <= BUFFER_BUDGET_PER_SHARD_BYTES / TAIL_BUDGET_SHARE / READ_AHEAD_BUDGET_SHARE
);
// One log alone never takes the larger part of the buffers from the others.
const _: () = assert!(UNWRITTEN_PER_LOG_BYTES * 4 <= BUFFER_BUDGET_PER_SHARD_BYTES);

/// Partitions of one topic: what one node opens in reasonable time, as Kafka's bound per request.
pub const TOPIC_PARTITIONS_MAX: usize = 10_000;

/// Partitions of all topics together.
pub const PARTITIONS_MAX: usize = 100_000;

/// Bytes of one topic setting's value in the metadata log.
pub const METADATA_VALUE_BYTES_MAX: usize = 32 << 10;

/// Metadata commands that wait for the writer.
pub const METADATA_COMMANDS_QUEUED: usize = 1024;

/// Bytes of records after which a group of metadata commands is committed.
pub const METADATA_GROUP_BYTES: usize = 1 << 20;

/// Longest group of records in the metadata log; a longer declared length is corruption.
pub const METADATA_FRAME_BYTES_MAX: usize = 4 << 20;

/// Metadata log length beyond which a snapshot replaces it, unless the snapshot is as long.
pub const METADATA_LOG_BYTES: u64 = 4 << 20;

/// Longest metadata log or snapshot that is read at start.
pub const METADATA_FILE_BYTES_MAX: u64 = 1 << 30;

/// Producer ids reserved at a time (KIP-730).
pub const PRODUCER_ID_BLOCK: i32 = 1000;

// A group that is just short of its bound plus the longest record (a topic with all partitions, 64
// bytes each being generous, and 64 settings of the longest value) still is one frame.
const _: () = assert!(
    METADATA_GROUP_BYTES + TOPIC_PARTITIONS_MAX * 64 + 64 * METADATA_VALUE_BYTES_MAX
        <= METADATA_FRAME_BYTES_MAX
);
