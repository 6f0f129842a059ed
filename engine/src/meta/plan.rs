//! What a command comes to: records, or a refusal in Kafka's words.
//!
//! Owns every rule about what may be asked. Reads the state and changes nothing.

use super::{
    command::{Command, NewTopic, Outcome, Refusal, TopicRef},
    image::{Image, PartitionState, Topic},
    name,
    record::Record,
    state::State,
};
use crate::{
    config::{self, ConfigError, Overrides, TopicConfig},
    limits,
    types::{NodeId, ProducerId, TopicId},
};
use std::sync::Arc;

/// The records that a command comes to, and how it will be answered.
#[derive(Debug)]
pub struct Plan {
    /// The records, in order.
    pub records: Vec<Record>,
    /// Whether they are not to be kept.
    pub validate_only: bool,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    Created(TopicId),
    Deleted(TopicId),
    Grown(TopicId),
    Altered(TopicId),
    ProducerIds(i64),
}

impl Plan {
    fn new(record: Record, validate_only: bool, answer: Answer) -> Self {
        Self { records: vec![record], validate_only, answer }
    }

    /// The answer, from the images before and after the records.
    pub(super) fn outcome(&self, before: &Image, after: &Image) -> Outcome {
        let topic = |image: &Image, id: TopicId| -> Arc<Topic> {
            image.topic_by_id(id).expect("the planned topic is there").clone()
        };
        match self.answer {
            Answer::Created(id) => Outcome::TopicCreated(topic(after, id)),
            Answer::Deleted(id) => Outcome::TopicDeleted(topic(before, id)),
            Answer::Grown(id) => Outcome::PartitionsCreated(topic(after, id)),
            Answer::Altered(id) => Outcome::ConfigAltered(topic(after, id)),
            Answer::ProducerIds(first) => {
                Outcome::ProducerIds { first: ProducerId(first), count: limits::PRODUCER_ID_BLOCK }
            }
        }
    }
}

impl State {
    /// What `command` comes to on this state; `new_id` is for a topic that it makes and must never
    /// have been used.
    pub fn plan(&self, command: &Command, new_id: TopicId) -> Result<Plan, Refusal> {
        match command {
            Command::CreateTopic(topic) => self.plan_create(topic, new_id),
            Command::DeleteTopic(topic) => self.plan_delete(topic),
            Command::CreatePartitions { topic, count, assignments, validate_only } => {
                self.plan_grow(topic, *count, assignments.as_deref(), *validate_only)
            }
            Command::AlterConfig { topic, changes, validate_only } => {
                let topic = self.known(topic)?;
                let overrides =
                    config::apply(self.broker(), &topic.overrides, changes).map_err(invalid)?;
                self.plan_config(topic, overrides, *validate_only)
            }
            Command::ReplaceConfig { topic, overrides, validate_only } => {
                self.plan_config(self.known(topic)?, overrides.clone(), *validate_only)
            }
            Command::ReserveProducerIds => self.plan_producer_ids(),
        }
    }

    fn plan_create(&self, new: &NewTopic, id: TopicId) -> Result<Plan, Refusal> {
        name::check(&new.name).map_err(Refusal::InvalidTopic)?;
        if new.name == name::CLUSTER_METADATA {
            let message = format!("Creation of internal topic {} is prohibited.", new.name);
            return Err(Refusal::InvalidRequest(message));
        }
        if self.image().topic(&new.name).is_some() {
            return Err(Refusal::TopicExists(format!("Topic '{}' already exists.", new.name)));
        }
        if let Some(other) = self.image().colliding(&new.name) {
            let message = format!("Topic '{}' collides with existing topic: {other}", new.name);
            return Err(Refusal::InvalidTopic(message));
        }
        assert!(id != TopicId::NONE, "a topic has an id");
        assert!(self.image().topic_by_id(id).is_none(), "a topic's id is new");
        let overrides = self.new_overrides(new)?;
        let count = self.new_partition_count(new)?;
        self.check_room(count)?;
        self.check_total(count)?;
        let record = Record::TopicCreated {
            name: new.name.clone(),
            id,
            partitions: vec![PartitionState::new_on(self.image().node_id()); count],
            overrides,
        };
        Ok(Plan::new(record, new.validate_only, Answer::Created(id)))
    }

    fn new_overrides(&self, new: &NewTopic) -> Result<Overrides, Refusal> {
        let mut overrides = Overrides::new();
        for (setting, value) in &new.configs {
            let Some(value) = value else {
                let message = format!("Null value not supported for topic configs: {setting}");
                return Err(Refusal::InvalidConfig(message));
            };
            overrides.insert(setting.clone(), value.clone());
        }
        self.check_overrides(&overrides)?;
        Ok(overrides)
    }

    /// Partitions of a new topic, once number, replicas and assignments are found to agree.
    fn new_partition_count(&self, new: &NewTopic) -> Result<usize, Refusal> {
        if !new.assignments.is_empty() {
            return self.assigned_partition_count(new);
        }
        let wanted = match new.partitions {
            -1 => self.broker().num_partitions,
            count => count,
        };
        let count = usize::try_from(wanted).ok().filter(|count| *count > 0).ok_or_else(|| {
            let message = "Number of partitions was set to an invalid non-positive value.";
            Refusal::InvalidPartitions(message.to_owned())
        })?;
        self.check_replication_factor(match new.replication_factor {
            -1 => self.broker().default_replication_factor,
            factor => factor,
        })?;
        Ok(count)
    }

    fn assigned_partition_count(&self, new: &NewTopic) -> Result<usize, Refusal> {
        let both = |what: &str| {
            Err(Refusal::InvalidRequest(format!(
                "A manual partition assignment was specified, but {what} was not set to -1."
            )))
        };
        if new.replication_factor != -1 {
            return both("replication factor");
        }
        if new.partitions != -1 {
            return both("numPartitions");
        }
        let mut assignments: Vec<_> = new.assignments.iter().collect();
        assignments.sort_by_key(|(partition, _)| *partition);
        for (expected, (partition, nodes)) in assignments.iter().enumerate() {
            if usize::try_from(*partition) != Ok(expected) {
                let message = "partitions should be a consecutive 0-based integer sequence";
                return Err(Refusal::InvalidReplicaAssignment(message.to_owned()));
            }
            self.check_assignment(nodes)?;
        }
        Ok(assignments.len())
    }

    fn check_replication_factor(&self, factor: i16) -> Result<(), Refusal> {
        let message = match factor {
            1 => return Ok(()),
            i16::MIN..=0 => "Replication factor must be larger than 0, or -1 to use the default \
                             value."
                .to_owned(),
            _ => format!(
                "Unable to replicate the partition {factor} time(s): The target replication \
                 factor of {factor} cannot be reached because only 1 broker(s) are registered."
            ),
        };
        Err(Refusal::InvalidReplicationFactor(message))
    }

    /// One partition's replicas by hand: exactly this node, as long as it is the only one.
    fn check_assignment(&self, nodes: &[NodeId]) -> Result<(), Refusal> {
        let node = self.image().node_id();
        let message = if nodes.is_empty() {
            "The manual partition assignment includes an empty replica list.".to_owned()
        } else if let Some(NodeId(other)) = nodes.iter().find(|other| **other != node) {
            format!(
                "The manual partition assignment includes broker {other}, but no such broker is \
                 registered."
            )
        } else if nodes.len() > 1 {
            let NodeId(node) = node;
            format!("The manual partition assignment includes the broker {node} more than once.")
        } else {
            return Ok(());
        };
        Err(Refusal::InvalidReplicaAssignment(message))
    }

    /// Whether a topic of `count` partitions (or one that grew to it) fits the limits.
    fn check_room(&self, count: usize) -> Result<(), Refusal> {
        if count > limits::TOPIC_PARTITIONS_MAX {
            let most = limits::TOPIC_PARTITIONS_MAX;
            let message = format!("A topic has at most {most} partitions here, not {count}.");
            return Err(Refusal::InvalidPartitions(message));
        }
        Ok(())
    }

    fn check_total(&self, added: usize) -> Result<(), Refusal> {
        if self.image().partition_count() + added > limits::PARTITIONS_MAX {
            let most = limits::PARTITIONS_MAX;
            let message = format!("This node keeps at most {most} partitions in all.");
            return Err(Refusal::InvalidPartitions(message));
        }
        Ok(())
    }

    fn plan_delete(&self, topic: &TopicRef) -> Result<Plan, Refusal> {
        let topic = match topic {
            TopicRef::Name(name) => self.known(name)?,
            TopicRef::Id(id) => self.image().topic_by_id(*id).ok_or_else(|| {
                let message = "This server does not host this topic ID.";
                Refusal::UnknownTopicId(message.to_owned())
            })?,
        };
        if !self.broker().delete_topic_enable {
            let message = "Topic deletion is disabled (delete.topic.enable is false).";
            return Err(Refusal::TopicDeletionDisabled(message.to_owned()));
        }
        Ok(Plan::new(Record::TopicRemoved(topic.id), false, Answer::Deleted(topic.id)))
    }

    fn plan_grow(
        &self,
        topic: &str,
        count: i32,
        assignments: Option<&[Vec<NodeId>]>,
        validate_only: bool,
    ) -> Result<Plan, Refusal> {
        let topic = self.known(topic)?;
        let before = topic.partitions.len();
        let name = &topic.name;
        let count = usize::try_from(count).unwrap_or(0);
        if count == before {
            let message = format!("Topic already has {before} partition(s).");
            return Err(Refusal::InvalidPartitions(message));
        }
        let Some(added) = count.checked_sub(before) else {
            return Err(Refusal::InvalidPartitions(format!(
                "The topic {name} currently has {before} partition(s); {count} would not be an \
                 increase."
            )));
        };
        self.check_room(count)?;
        self.check_total(added)?;
        if let Some(assignments) = assignments {
            if assignments.len() != added {
                return Err(Refusal::InvalidReplicaAssignment(format!(
                    "Attempted to add {added} additional partition(s), but only {} assignment(s) \
                     were specified.",
                    assignments.len()
                )));
            }
            assignments.iter().try_for_each(|nodes| self.check_assignment(nodes))?;
        }
        let partitions = vec![PartitionState::new_on(self.image().node_id()); added];
        let record = Record::PartitionsAdded { id: topic.id, partitions };
        Ok(Plan::new(record, validate_only, Answer::Grown(topic.id)))
    }

    fn plan_config(
        &self,
        topic: &Topic,
        overrides: Overrides,
        validate_only: bool,
    ) -> Result<Plan, Refusal> {
        self.check_overrides(&overrides)?;
        let answer = Answer::Altered(topic.id);
        if overrides == topic.overrides {
            // A change to what already is so is common in tools that declare a wanted state.
            return Ok(Plan { records: Vec::new(), validate_only, answer });
        }
        Ok(Plan::new(Record::ConfigChanged { id: topic.id, overrides }, validate_only, answer))
    }

    fn check_overrides(&self, overrides: &Overrides) -> Result<(), Refusal> {
        let most = limits::METADATA_VALUE_BYTES_MAX;
        // Before the value is checked, since that repeats it in its refusal.
        match overrides.iter().find(|(_, value)| value.len() > most) {
            Some((setting, _)) => {
                let message = format!("The value of {setting} is longer than {most} bytes.");
                Err(Refusal::InvalidConfig(message))
            }
            None => TopicConfig::resolve(self.broker(), overrides).map(drop).map_err(invalid),
        }
    }

    fn plan_producer_ids(&self) -> Result<Plan, Refusal> {
        let first = self.image().next_producer_id();
        let next = first
            .checked_add(i64::from(limits::PRODUCER_ID_BLOCK))
            .ok_or_else(|| Refusal::Failed("All producer ids have been handed out.".to_owned()))?;
        Ok(Plan::new(Record::ProducerIdsReserved(next), false, Answer::ProducerIds(first)))
    }

    fn known(&self, name: &str) -> Result<&Arc<Topic>, Refusal> {
        self.image().topic(name).ok_or_else(|| {
            let message = "This server does not host this topic-partition.";
            Refusal::UnknownTopic(message.to_owned())
        })
    }
}

fn invalid(error: ConfigError) -> Refusal {
    Refusal::InvalidConfig(error.to_string())
}
