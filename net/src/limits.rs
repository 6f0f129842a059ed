//! Every bound of the conversation in one place.

use std::time::Duration;

/// Requests of one connection that are read and not yet answered. Kafka's clients send at most
/// five at a time; more are for clients that pipeline without waiting.
pub const REQUESTS_OPEN_PER_CONNECTION: usize = 32;

/// A begun frame that gets no bytes for this long leaves the shared receive buffers.
pub const STALL_SETTLE: Duration = Duration::from_millis(200);

/// Bytes of begun frames that the connections of one shard may hold together, or one frame of
/// `socket.request.max.bytes` if that is more; beyond it the oldest large ones are closed.
pub const BEGUN_BYTES_PER_SHARD: usize = 128 << 20;

/// A begun frame up to this long gives way only when there is no longer one, in bytes.
pub const SMALL_FRAME_BYTES: usize = 64 << 10;

/// Unsettled pieces of a begun frame, beyond which small ones are copied together.
pub const FRAME_PIECES_MAX: usize = 32;

/// Pieces of a begun frame shorter than this on average are small, in bytes.
pub const FRAME_PIECE_BYTES_MIN: usize = 2 << 10;

// The largest frame by default fits beside many small ones.
const _: () = assert!(BEGUN_BYTES_PER_SHARD > millrace_engine::limits::FRAME_CAP_BYTES);

/// How often a shard looks for idle and stalled connections.
pub const SWEEP_INTERVAL: Duration = Duration::from_millis(200);

/// Looks in the time after which a connection idles too long, while none holds anything.
pub const IDLE_SWEEPS_PER_TIMEOUT: u32 = 8;

/// The longest pause between two such looks.
pub const IDLE_SWEEP_INTERVAL_MAX: Duration = Duration::from_secs(10);

/// How often a stopping shard looks whether its connections have ended.
pub const DRAIN_INTERVAL: Duration = Duration::from_millis(5);

/// A begun frame that gets no bytes for this long ends its connection, and so does one that is not
/// complete this long after its first byte and the time that its bytes take at the least rate.
pub const FRAME_DEADLINE: Duration = Duration::from_secs(30);

/// The least rate of a client's frames, see [`FRAME_DEADLINE`].
pub const FRAME_RATE_MIN_BYTES_PER_S: u64 = 16 << 10;

/// Most bytes of an answer handed to the kernel at a time; taken pieces give their memory back.
pub const SEND_PIECE_BYTES: usize = 1 << 20;

/// Share of a shard's buffers that answers may hold which clients have not taken. Each connection
/// has one such answer at most; its other requests wait.
pub const UNSENT_SHARE: usize = 4;

/// How long a client may take no piece of its answer while the share is spent.
pub const UNSENT_GRACE: Duration = Duration::from_secs(5);

/// Longest header of a request, in bytes: a client id of 32 KiB, and as much again for the tagged
/// fields that nobody knows yet.
pub const REQUEST_HEADER_BYTES_MAX: usize = 64 << 10;

/// Largest request other than Produce and Fetch, in bytes: none of them carries payload, and no
/// longer body is read than of 1 MiB.
pub const PLAIN_REQUEST_CAP_BYTES: usize = (1 << 20) + REQUEST_HEADER_BYTES_MAX;

/// Largest Fetch, in bytes: all partitions that there may be, each in the longest form of those
/// versions that name topics by their ids.
pub const FETCH_REQUEST_CAP_BYTES: usize = 4 << 20;

// A partition of a Fetch of version 17 takes 33 bytes; of the newest, 9 more for a follower.
const _: () = assert!(FETCH_REQUEST_CAP_BYTES > 33 * millrace_engine::limits::PARTITIONS_MAX);

/// What a Fetch takes while it waits, in units of its own length: for each of its partitions, which
/// are 16 bytes or more, what to read and who waits for it.
pub const FETCH_MEMORY_FACTOR: usize = 8;

/// Memory of the requests of one shard that wait for their turn or for their answer, in bytes;
/// beyond it those connections end whose large requests wait longest.
pub const QUEUED_BYTES_PER_SHARD: usize = 128 << 20;

// The largest request fits beside many others.
const _: () = assert!(QUEUED_BYTES_PER_SHARD > 2 * FETCH_REQUEST_CAP_BYTES * FETCH_MEMORY_FACTOR);

/// Bytes of Produce requests of one shard that wait for long work, or one alone of any size;
/// batches beyond it that need such work are refused, and clients send them again.
pub const LONG_FRAMES_BYTES_PER_SHARD: usize = 128 << 20;

// The largest frame by default fits beside many small ones.
const _: () = assert!(LONG_FRAMES_BYTES_PER_SHARD > millrace_engine::limits::FRAME_CAP_BYTES);

/// Share of a shard's buffers that one batch may take; a longer one is MESSAGE_TOO_LARGE whatever
/// `max.message.bytes` says.
pub const BATCH_SHARE: usize = 2;

/// Topics and partitions of a Produce that a shard goes through between two turns of its other
/// tasks.
pub const PRODUCED_AT_A_TIME: usize = 256;

/// Bytes of a request that a shard copies between two turns of its other tasks.
pub const MOVED_AT_A_TIME_BYTES: usize = 256 << 10;

/// Largest Fetch that lets later requests of its connection start, in bytes; some thousand
/// partitions. A longer one waits alone, so that waiting copies stay small together.
pub const WAITING_REQUEST_BYTES: usize = 64 << 10;

// What a connection's waiting requests hold together is no more than its longest one may.
const _: () =
    assert!(REQUESTS_OPEN_PER_CONNECTION * WAITING_REQUEST_BYTES <= FETCH_REQUEST_CAP_BYTES);

/// Memory of the settings in one answer to DescribeConfigs, in bytes: those of thousands of topics.
/// What does not fit is refused by itself.
pub const DESCRIBED_BYTES_MAX: usize = 64 << 20;

/// Memory of one shard for the headers of answers, in bytes.
pub const ANSWER_BUDGET_BYTES: usize = 32 << 20;

/// Longest wait at a stop for connections to get the answers they are owed.
pub const DRAIN_DEADLINE: Duration = Duration::from_secs(5);

/// Pause after a failed accept: descriptors or memory are short, and come back with connections
/// that end. The backlog keeps clients waiting meanwhile.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Shortest time between two complaints about failed accepts.
pub const ACCEPT_REPORT_INTERVAL: Duration = Duration::from_secs(10);
