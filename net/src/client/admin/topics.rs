//! Making, widening and deleting topics.

use millrace_engine::types::TopicId;

use super::{Admin, checked, missing, settled};
use crate::{
    client::error::Result,
    wire::typed::{
        self, StrBytes,
        create_partitions::{CreatePartitionsRequest, CreatePartitionsTopic},
        create_topics::{
            CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
        },
        delete_topics::{DeleteTopicState, DeleteTopicsRequest},
    },
};

/// A topic to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// Number of partitions; -1 for the broker's `num.partitions`.
    pub partitions: i32,
    /// Replicas per partition; -1 for the broker's `default.replication.factor`.
    pub replication_factor: i16,
    /// Node ids per partition, instead of the two numbers above; empty to let the broker place.
    pub assignments: Vec<Vec<i32>>,
    /// Topic settings that differ from the broker's.
    pub configs: Vec<(String, String)>,
}

impl NewTopic {
    /// A topic with the broker's defaults.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            partitions: -1,
            replication_factor: -1,
            assignments: Vec::new(),
            configs: Vec::new(),
        }
    }
}

/// A topic that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicCreated {
    /// Its id; zero from a broker older than 2.8.
    pub topic_id: TopicId,
    /// Its partitions; -1 from a broker older than 2.4.
    pub partitions: i32,
    /// Its replication factor; -1 from a broker older than 2.4.
    pub replication_factor: i16,
}

impl Admin {
    /// Makes a topic, or with `validate_only` checks whether it could be made.
    ///
    /// # Errors
    /// The broker's refusal: the topic exists, or a name, number or setting is out of bounds.
    pub fn create_topic(&mut self, topic: &NewTopic, validate_only: bool) -> Result<TopicCreated> {
        let mut request = CreateTopicsRequest::default();
        request.timeout_ms = self.broker_timeout_ms();
        request.validate_only = validate_only;
        request.topics = vec![creatable(topic)];
        self.call(|links, deadline| {
            let response = links.call_any(&request, deadline)?;
            let result = response.topics.first().ok_or_else(|| missing("the topic"))?;
            checked(result.error_code, result.error_message.as_deref())?;
            Ok(TopicCreated {
                topic_id: typed::topic_id(result.topic_id),
                partitions: result.num_partitions,
                replication_factor: result.replication_factor,
            })
        })
    }

    /// Deletes topics by name; one result per name, in order.
    ///
    /// # Errors
    /// When no broker answers.
    pub fn delete_topics(&mut self, names: &[&str]) -> Result<Vec<Result<()>>> {
        let mut results = Vec::with_capacity(names.len());
        // One request per topic: a retry then never meets a topic that an earlier attempt deleted.
        for name in names {
            let timeout_ms = self.broker_timeout_ms();
            results.push(self.call(|links, deadline| {
                let version = links.version_at_any::<DeleteTopicsRequest>(deadline)?;
                let response = links.call_any(&deletion(name, version, timeout_ms), deadline)?;
                let result = response.responses.first().ok_or_else(|| missing("the topic"))?;
                settled(result.error_code, result.error_message.as_deref())
            })?);
        }
        Ok(results)
    }

    /// Raises the number of partitions of a topic to `count`.
    ///
    /// # Errors
    /// The broker's refusal: the topic is unknown or has as many already.
    pub fn create_partitions(&mut self, topic: &str, count: i32) -> Result<()> {
        let mut entry = CreatePartitionsTopic::default();
        entry.name = StrBytes::from(topic);
        entry.count = count;
        entry.assignments = None;
        let mut request = CreatePartitionsRequest::default();
        request.timeout_ms = self.broker_timeout_ms();
        request.topics = vec![entry];
        self.call(|links, deadline| {
            let response = links.call_any(&request, deadline)?;
            let result = response.results.first().ok_or_else(|| missing("the topic"))?;
            settled(result.error_code, result.error_message.as_deref())
        })?
    }
}

fn creatable(topic: &NewTopic) -> CreatableTopic {
    let mut entry = CreatableTopic::default();
    entry.name = StrBytes::from(topic.name.as_str());
    let placed = !topic.assignments.is_empty();
    entry.num_partitions = if placed { -1 } else { topic.partitions };
    entry.replication_factor = if placed { -1 } else { topic.replication_factor };
    entry.assignments = (0..)
        .zip(&topic.assignments)
        .map(|(partition, nodes)| {
            let mut assignment = CreatableReplicaAssignment::default();
            assignment.partition_index = partition;
            assignment.broker_ids.clone_from(nodes);
            assignment
        })
        .collect();
    entry.configs = topic
        .configs
        .iter()
        .map(|(name, value)| {
            let mut config = CreatableTopicConfig::default();
            config.name = StrBytes::from(name.as_str());
            config.value = Some(StrBytes::from(value.as_str()));
            config
        })
        .collect();
    entry
}

/// Names moved into a structure with version 6 (KIP-516); each version says only its own.
fn deletion(name: &str, version: i16, timeout_ms: i32) -> DeleteTopicsRequest {
    let mut request = DeleteTopicsRequest::default();
    request.timeout_ms = timeout_ms;
    let name = StrBytes::from(name);
    if version >= 6 {
        let mut state = DeleteTopicState::default();
        state.name = Some(name);
        request.topics = vec![state];
    } else {
        request.topic_names = vec![name];
    }
    request
}
