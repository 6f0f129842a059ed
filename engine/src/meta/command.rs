//! What can be asked of the metadata, and how it is answered.
//!
//! The vocabulary between handlers and the writer, whoever that is: one local writer now, a
//! quorum's leader later. Knows no Kafka error code; `net` maps each [`Refusal`] to one.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::image::Topic;
use crate::{
    config::{Change, Overrides},
    types::{NodeId, ProducerId, TopicId},
};

/// A change asked for. With `validate_only` all is checked and answered, and nothing changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Makes a topic.
    CreateTopic(NewTopic),
    /// Removes a topic for good.
    DeleteTopic(TopicRef),
    /// Adds partitions to a topic.
    CreatePartitions {
        /// The topic.
        topic: String,
        /// Partitions that it is to have in all.
        count: i32,
        /// Replicas of each added partition, or `None` to choose.
        assignments: Option<Vec<Vec<NodeId>>>,
        /// Check alone.
        validate_only: bool,
    },
    /// Changes some settings of a topic (IncrementalAlterConfigs).
    AlterConfig {
        /// The topic.
        topic: String,
        /// The changes, in order.
        changes: Vec<Change>,
        /// Check alone.
        validate_only: bool,
    },
    /// Replaces all settings of a topic (AlterConfigs).
    ReplaceConfig {
        /// The topic.
        topic: String,
        /// All settings that it is to have.
        overrides: Overrides,
        /// Check alone.
        validate_only: bool,
    },
    /// Takes a block of producer ids that nobody else gets.
    ReserveProducerIds,
}

/// A topic to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// Partitions, or -1 for `num.partitions` (or as many as are assigned).
    pub partitions: i32,
    /// Replicas of each partition, or -1 for `default.replication.factor` (or as assigned).
    pub replication_factor: i16,
    /// Replicas by partition; empty to choose. Then the two above must be -1.
    pub assignments: Vec<(i32, Vec<NodeId>)>,
    /// Settings; a null value, which the protocol allows, is refused.
    pub configs: BTreeMap<String, Option<String>>,
    /// Check alone.
    pub validate_only: bool,
}

impl NewTopic {
    /// A topic with the broker's default of partitions, replicas and settings.
    #[must_use]
    pub fn with_defaults(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            partitions: -1,
            replication_factor: -1,
            assignments: Vec::new(),
            configs: BTreeMap::new(),
            validate_only: false,
        }
    }
}

/// Which topic is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicRef {
    /// The one of this name.
    Name(String),
    /// The one with this id.
    Id(TopicId),
}

/// What a command did, or with `validate_only` would have done.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The topic was made.
    TopicCreated(Arc<Topic>),
    /// The topic, as it last was, is gone.
    TopicDeleted(Arc<Topic>),
    /// The topic now has its new partitions.
    PartitionsCreated(Arc<Topic>),
    /// The topic now has its new settings.
    ConfigAltered(Arc<Topic>),
    /// Producer ids from `first`, `count` of them, belong to the caller.
    ProducerIds {
        /// The first.
        first: ProducerId,
        /// How many.
        count: i32,
    },
}

/// Why a command was not done; each with a line for the client. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The name is not one that a topic may have, or collides (INVALID_TOPIC_EXCEPTION).
    InvalidTopic(String),
    /// There is a topic of that name (TOPIC_ALREADY_EXISTS).
    TopicExists(String),
    /// No topic has that name (UNKNOWN_TOPIC_OR_PARTITION).
    UnknownTopic(String),
    /// No topic has that id (UNKNOWN_TOPIC_ID).
    UnknownTopicId(String),
    /// The number of partitions cannot be (INVALID_PARTITIONS).
    InvalidPartitions(String),
    /// The number of replicas cannot be (INVALID_REPLICATION_FACTOR).
    InvalidReplicationFactor(String),
    /// The assignment cannot be (INVALID_REPLICA_ASSIGNMENT).
    InvalidReplicaAssignment(String),
    /// A setting is unknown or its value wrong (INVALID_CONFIG).
    InvalidConfig(String),
    /// The command contradicts itself (INVALID_REQUEST).
    InvalidRequest(String),
    /// The broker's settings forbid deletion (TOPIC_DELETION_DISABLED).
    TopicDeletionDisabled(String),
    /// Too many commands wait; the same one may do later (REQUEST_TIMED_OUT).
    Busy(String),
    /// The writer has stopped or is stopping (REQUEST_TIMED_OUT, which clients retry).
    Stopping(String),
    /// The metadata log cannot be written any more in this process (KAFKA_STORAGE_ERROR).
    Failed(String),
}

impl Refusal {
    /// The line for the client.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::InvalidTopic(message)
            | Self::TopicExists(message)
            | Self::UnknownTopic(message)
            | Self::UnknownTopicId(message)
            | Self::InvalidPartitions(message)
            | Self::InvalidReplicationFactor(message)
            | Self::InvalidReplicaAssignment(message)
            | Self::InvalidConfig(message)
            | Self::InvalidRequest(message)
            | Self::TopicDeletionDisabled(message)
            | Self::Busy(message)
            | Self::Stopping(message)
            | Self::Failed(message) => message,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.message())
    }
}

impl std::error::Error for Refusal {}
