//! Which Kafka error each refusal of the engine is.

use std::cmp::Ordering;

use millrace_engine::{
    batch::Rejection, meta::Refusal, shard::failure::Failure, types::LeaderEpoch,
};

use crate::wire::ErrorCode;

/// The error code of a shard's refusal. CORRUPT_MESSAGE says that the request's own bytes are at
/// fault, so a log that is damaged answers as a failed disk does: clients retry that with fresh
/// metadata, and nobody blames the batch. Only a reader is told of stored bytes (`super::fetch`).
#[must_use]
pub fn code_of_failure(failure: Failure) -> ErrorCode {
    match failure {
        Failure::NotOwner => ErrorCode::NotLeaderOrFollower,
        Failure::OffsetOutOfRange => ErrorCode::OffsetOutOfRange,
        Failure::FencedLeaderEpoch => ErrorCode::FencedLeaderEpoch,
        Failure::UnknownLeaderEpoch => ErrorCode::UnknownLeaderEpoch,
        Failure::OutOfOrderSequence => ErrorCode::OutOfOrderSequenceNumber,
        Failure::InvalidProducerEpoch => ErrorCode::InvalidProducerEpoch,
        Failure::Transactional => ErrorCode::InvalidTxnState,
        Failure::Full | Failure::Storage | Failure::Corrupt => ErrorCode::KafkaStorageError,
        Failure::Invalid => ErrorCode::InvalidRequest,
    }
}

/// The error code of a batch that did not pass the checks.
#[must_use]
pub fn code_of_rejection(rejection: &Rejection) -> ErrorCode {
    match rejection {
        Rejection::Corrupt => ErrorCode::CorruptMessage,
        Rejection::InvalidRecord { .. } => ErrorCode::InvalidRecord,
        Rejection::TooLarge => ErrorCode::MessageTooLarge,
        Rejection::LargerThanSegment => ErrorCode::RecordListTooLarge,
        Rejection::UnsupportedCodec => ErrorCode::UnsupportedCompressionType,
        Rejection::InvalidTimestamp { .. } => ErrorCode::InvalidTimestamp,
    }
}

/// The error code of a refused metadata change.
#[must_use]
pub fn code_of_refusal(refusal: &Refusal) -> ErrorCode {
    match refusal {
        Refusal::InvalidTopic(_) => ErrorCode::InvalidTopicException,
        Refusal::TopicExists(_) => ErrorCode::TopicAlreadyExists,
        Refusal::UnknownTopic(_) => ErrorCode::UnknownTopicOrPartition,
        Refusal::UnknownTopicId(_) => ErrorCode::UnknownTopicId,
        Refusal::InvalidPartitions(_) => ErrorCode::InvalidPartitions,
        Refusal::InvalidReplicationFactor(_) => ErrorCode::InvalidReplicationFactor,
        Refusal::InvalidReplicaAssignment(_) => ErrorCode::InvalidReplicaAssignment,
        Refusal::InvalidConfig(_) => ErrorCode::InvalidConfig,
        Refusal::InvalidRequest(_) => ErrorCode::InvalidRequest,
        Refusal::TopicDeletionDisabled(_) => ErrorCode::TopicDeletionDisabled,
        // The next try may find the writer free, or another broker.
        Refusal::Busy(_) | Refusal::Stopping(_) => ErrorCode::RequestTimedOut,
        Refusal::Failed(_) => ErrorCode::KafkaStorageError,
    }
}

/// What is wrong with the leader epoch that a client takes for the current one (KIP-320); -1 claims
/// none.
pub(super) fn epoch_error(asked: i32, ours: LeaderEpoch) -> Option<ErrorCode> {
    match asked.cmp(&ours.0) {
        _ if asked == -1 => None,
        Ordering::Less => Some(ErrorCode::FencedLeaderEpoch),
        Ordering::Equal => None,
        Ordering::Greater => Some(ErrorCode::UnknownLeaderEpoch),
    }
}
