//! What the error codes of an answer mean for a client: retry, look for the leader, or give up.

use super::error::{ClientError, Kind};
use crate::wire::ErrorCode;

/// What to do about a code, where its name alone does not say it.
fn advice(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::OffsetOutOfRange => "the offset is outside of the log",
        ErrorCode::CorruptMessage => "the batch's checksum does not match its bytes",
        ErrorCode::UnknownTopicOrPartition => "the broker has no such topic or partition",
        ErrorCode::LeaderNotAvailable => "the partition has no leader at the moment",
        ErrorCode::NotLeaderOrFollower => "the partition is led by another broker",
        ErrorCode::RequestTimedOut => "the broker ran out of time",
        ErrorCode::ReplicaNotAvailable => "the replica is not ready",
        ErrorCode::MessageTooLarge => "raise max.message.bytes of the topic or send less at once",
        ErrorCode::NetworkException => "the broker lost its connection to another",
        ErrorCode::CoordinatorLoadInProgress => "the coordinator is loading",
        ErrorCode::CoordinatorNotAvailable => "there is no coordinator at the moment",
        ErrorCode::NotCoordinator => "another broker coordinates",
        ErrorCode::InvalidTopicException => "a name has 1 to 249 of letters, digits, '.', '_', '-'",
        ErrorCode::RecordListTooLarge => "the batch exceeds segment.bytes of the topic",
        ErrorCode::NotEnoughReplicas => "fewer replicas in sync than min.insync.replicas",
        ErrorCode::NotEnoughReplicasAfterAppend => "appended, but replicas fell out of sync",
        ErrorCode::InvalidRequiredAcks => "acks is 0, 1 or all",
        ErrorCode::TopicAuthorizationFailed => "not allowed on this topic",
        ErrorCode::ClusterAuthorizationFailed => "not allowed on this cluster",
        ErrorCode::InvalidTimestamp => "the timestamp is outside of the topic's bounds",
        ErrorCode::UnsupportedVersion => "the broker does not know this request version",
        ErrorCode::TopicAlreadyExists => "the topic exists already",
        ErrorCode::InvalidPartitions => "the number of partitions must be above the present one",
        ErrorCode::InvalidReplicationFactor => "there are not that many brokers",
        ErrorCode::InvalidReplicaAssignment => "the replica assignment is not consistent",
        ErrorCode::InvalidConfig => "a topic setting is unknown or out of range",
        ErrorCode::NotController => "another broker is the controller",
        ErrorCode::InvalidRequest => "the broker does not accept this request",
        ErrorCode::UnsupportedForMessageFormat => "the log's format is too old",
        ErrorCode::PolicyViolation => "a policy of the cluster forbids it",
        ErrorCode::OutOfOrderSequenceNumber => "batches before this one did not arrive",
        ErrorCode::DuplicateSequenceNumber => "the batch is in the log already",
        ErrorCode::InvalidProducerEpoch => "another producer took over this id",
        ErrorCode::KafkaStorageError => "the broker's disk failed; see the broker's log",
        ErrorCode::UnknownProducerId => "the broker has forgotten this producer",
        ErrorCode::FencedLeaderEpoch => "the leader changed",
        ErrorCode::UnknownLeaderEpoch => "the broker has not heard of the new leader yet",
        ErrorCode::UnsupportedCompressionType => "choose another compression.type",
        ErrorCode::OffsetNotAvailable => "the new leader does not know its end yet",
        ErrorCode::InvalidRecord => "the broker refuses a record of the batch",
        ErrorCode::ThrottlingQuotaExceeded => "a quota is used up",
        ErrorCode::UnknownTopicId => "the topic was deleted or made anew",
        ErrorCode::InconsistentTopicId => "the topic was made anew",
        _ => "the broker refused; see its log",
    }
}

impl ClientError {
    /// The broker refused with `code`; `message` is its own text, if it sent one.
    #[must_use]
    pub fn refused(code: ErrorCode, message: Option<&str>) -> Self {
        let text = message.filter(|message| !message.is_empty()).unwrap_or(advice(code));
        let line = text.lines().next().unwrap_or_default();
        Self::coded(Kind::Refused, code, format!("{line} ({}, {})", code.name(), code.code()))
    }

    /// Whether the broker says that the topic exists already.
    #[must_use]
    pub fn is_topic_exists(&self) -> bool {
        self.code() == ErrorCode::TopicAlreadyExists
    }

    /// Whether the broker says that there is no such topic or partition.
    #[must_use]
    pub fn is_unknown_topic(&self) -> bool {
        self.code() == ErrorCode::UnknownTopicOrPartition
    }

    /// Whether trying again may help: a retriable answer, or no answer at all.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self.kind() {
            Kind::Refused => self.code().is_retriable(),
            Kind::Unreachable | Kind::TimedOut => true,
            Kind::Invalid | Kind::Protocol | Kind::Closed => false,
        }
    }
}
