//! What the error codes of an answer mean for a client: retry, look for the leader, or give up.

use super::error::{ClientError, Kind};

/// Success.
pub const NONE: i16 = 0;
/// The fetch position is not in the log.
pub const OFFSET_OUT_OF_RANGE: i16 = 1;
/// The topic or partition does not exist (yet).
pub const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
/// The partition has no leader at the moment.
pub const LEADER_NOT_AVAILABLE: i16 = 5;
/// The batch is larger than the topic allows.
pub const MESSAGE_TOO_LARGE: i16 = 10;
/// The topic exists already.
pub const TOPIC_ALREADY_EXISTS: i16 = 36;
/// Sequence numbers have a gap.
pub const OUT_OF_ORDER_SEQUENCE_NUMBER: i16 = 45;
/// The batch is in the log already.
pub const DUPLICATE_SEQUENCE_NUMBER: i16 = 46;
/// The producer's epoch is older than the broker's.
pub const INVALID_PRODUCER_EPOCH: i16 = 47;
/// The broker has forgotten this producer.
pub const UNKNOWN_PRODUCER_ID: i16 = 59;

struct Meaning {
    code: i16,
    name: &'static str,
    advice: &'static str,
    retriable: bool,
}

const fn fails(code: i16, name: &'static str, advice: &'static str) -> Meaning {
    Meaning { code, name, advice, retriable: false }
}

const fn passes(code: i16, name: &'static str, advice: &'static str) -> Meaning {
    Meaning { code, name, advice, retriable: true }
}

/// The codes a client of ours can meet; the flag is `RetriableException` of Kafka's client.
const MEANINGS: &[Meaning] = &[
    fails(-1, "UNKNOWN_SERVER_ERROR", "see the broker's log"),
    fails(1, "OFFSET_OUT_OF_RANGE", "the offset is outside of the log"),
    passes(2, "CORRUPT_MESSAGE", "the batch's checksum does not match its bytes"),
    passes(3, "UNKNOWN_TOPIC_OR_PARTITION", "the broker has no such topic or partition"),
    passes(5, "LEADER_NOT_AVAILABLE", "the partition has no leader at the moment"),
    passes(6, "NOT_LEADER_OR_FOLLOWER", "the partition is led by another broker"),
    passes(7, "REQUEST_TIMED_OUT", "the broker ran out of time"),
    passes(9, "REPLICA_NOT_AVAILABLE", "the replica is not ready"),
    fails(10, "MESSAGE_TOO_LARGE", "raise max.message.bytes of the topic or send less at once"),
    passes(13, "NETWORK_EXCEPTION", "the broker lost its connection to another"),
    passes(14, "COORDINATOR_LOAD_IN_PROGRESS", "the coordinator is loading"),
    passes(15, "COORDINATOR_NOT_AVAILABLE", "there is no coordinator at the moment"),
    passes(16, "NOT_COORDINATOR", "another broker coordinates"),
    fails(17, "INVALID_TOPIC_EXCEPTION", "a name has 1 to 249 of letters, digits, '.', '_', '-'"),
    fails(18, "RECORD_LIST_TOO_LARGE", "the batch exceeds segment.bytes of the topic"),
    passes(19, "NOT_ENOUGH_REPLICAS", "fewer replicas in sync than min.insync.replicas"),
    passes(20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "appended, but replicas fell out of sync"),
    fails(21, "INVALID_REQUIRED_ACKS", "acks is 0, 1 or all"),
    fails(29, "TOPIC_AUTHORIZATION_FAILED", "not allowed on this topic"),
    fails(31, "CLUSTER_AUTHORIZATION_FAILED", "not allowed on this cluster"),
    fails(32, "INVALID_TIMESTAMP", "the timestamp is outside of the topic's bounds"),
    fails(35, "UNSUPPORTED_VERSION", "the broker does not know this request version"),
    fails(36, "TOPIC_ALREADY_EXISTS", "the topic exists already"),
    fails(37, "INVALID_PARTITIONS", "the number of partitions must be above the present one"),
    fails(38, "INVALID_REPLICATION_FACTOR", "there are not that many brokers"),
    fails(39, "INVALID_REPLICA_ASSIGNMENT", "the replica assignment is not consistent"),
    fails(40, "INVALID_CONFIG", "a topic setting is unknown or out of range"),
    passes(41, "NOT_CONTROLLER", "another broker is the controller"),
    fails(42, "INVALID_REQUEST", "the broker does not accept this request"),
    fails(43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", "the log's format is too old"),
    fails(44, "POLICY_VIOLATION", "a policy of the cluster forbids it"),
    fails(45, "OUT_OF_ORDER_SEQUENCE_NUMBER", "batches before this one did not arrive"),
    fails(46, "DUPLICATE_SEQUENCE_NUMBER", "the batch is in the log already"),
    fails(47, "INVALID_PRODUCER_EPOCH", "another producer took over this id"),
    passes(56, "KAFKA_STORAGE_ERROR", "the broker's disk failed; see the broker's log"),
    fails(59, "UNKNOWN_PRODUCER_ID", "the broker has forgotten this producer"),
    passes(74, "FENCED_LEADER_EPOCH", "the leader changed"),
    passes(75, "UNKNOWN_LEADER_EPOCH", "the broker has not heard of the new leader yet"),
    fails(76, "UNSUPPORTED_COMPRESSION_TYPE", "choose another compression.type"),
    passes(78, "OFFSET_NOT_AVAILABLE", "the new leader does not know its end yet"),
    fails(87, "INVALID_RECORD", "the broker refuses a record of the batch"),
    passes(89, "THROTTLING_QUOTA_EXCEEDED", "a quota is used up"),
    passes(100, "UNKNOWN_TOPIC_ID", "the topic was deleted or made anew"),
    passes(103, "INCONSISTENT_TOPIC_ID", "the topic was made anew"),
];

fn meaning(code: i16) -> Option<&'static Meaning> {
    MEANINGS.iter().find(|meaning| meaning.code == code)
}

/// Whether the same request may succeed later, after a look at fresh metadata.
#[must_use]
pub fn retriable(code: i16) -> bool {
    meaning(code).is_some_and(|meaning| meaning.retriable)
}

impl ClientError {
    /// The broker refused with `code`; `message` is its own text, if it sent one.
    #[must_use]
    pub fn refused(code: i16, message: Option<&str>) -> Self {
        let (name, advice) = meaning(code)
            .map_or(("UNKNOWN_ERROR", "see the broker's log"), |known| (known.name, known.advice));
        let text = message.filter(|message| !message.is_empty()).unwrap_or(advice);
        let line = text.lines().next().unwrap_or(advice);
        Self::coded(Kind::Refused, code, format!("{line} ({name}, {code})"))
    }

    /// Whether trying again may help: a retriable answer, or no answer at all.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self.kind() {
            Kind::Refused => retriable(self.code()),
            Kind::Unreachable | Kind::TimedOut => true,
            Kind::Invalid | Kind::Protocol | Kind::Closed => false,
        }
    }
}
