//! The state machine: records go in, the image follows.
//!
//! Owns what each record means. Sans-I/O: no clock, no randomness, no file. Which records a command
//! becomes is `plan`'s part.
//!
//! Failure behaviour: a record that contradicts the image is corruption; the image is then of no
//! further use and the process must not start.

use std::sync::Arc;

use super::{
    command::{Command, Outcome, Refusal},
    image::{Image, Topic},
    record::Record,
};
use crate::{
    config::{BrokerConfig, Overrides, TopicConfig},
    error::{Error, Kind, Result},
    limits,
    types::TopicId,
};

/// What the records of this program may contain.
pub(super) const FORMAT_LEVEL: u16 = 1;

/// The metadata at one point, and the broker's settings that topics fall back to. A clone is cheap.
#[derive(Clone, Debug)]
pub struct State {
    image: Image,
    broker: Arc<BrokerConfig>,
}

impl State {
    /// The state before the first record.
    #[must_use]
    pub fn new(broker: Arc<BrokerConfig>) -> Self {
        Self { image: Image::empty(), broker }
    }

    /// The image as it is now.
    #[must_use]
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// The broker's settings.
    #[must_use]
    pub fn broker(&self) -> &BrokerConfig {
        &self.broker
    }

    /// Plans `command` and applies what it comes to, unless it only validates. `new_id` becomes the
    /// id of a topic that is made. The records are those applied; on a refusal nothing changed.
    pub fn execute(
        &mut self,
        command: &Command,
        new_id: TopicId,
    ) -> std::result::Result<(Vec<Record>, Outcome), Refusal> {
        let plan = self.plan(command, new_id)?;
        let mut after = self.clone();
        for record in &plan.records {
            after.apply(record).expect("a planned record agrees with the image it was planned on");
        }
        let outcome = plan.outcome(&self.image, &after.image);
        if plan.validate_only {
            return Ok((Vec::new(), outcome));
        }
        *self = after;
        Ok((plan.records, outcome))
    }

    /// Applies the record at the end of the log. `Corrupt` if it contradicts what came before,
    /// `Invalid` if it cannot hold under the broker's settings or needs a newer program.
    pub fn apply(&mut self, record: &Record) -> Result<()> {
        self.apply_content(record)?;
        self.image.set_version(self.image.version() + 1);
        Ok(())
    }

    /// Applies the records of a snapshot that holds the log's first `version` records.
    pub(super) fn load(&mut self, records: &[Record], version: u64) -> Result<()> {
        assert_eq!(self.image.version(), 0, "a snapshot comes before everything else");
        records.iter().try_for_each(|record| self.apply_content(record))?;
        self.image.set_version(version);
        Ok(())
    }

    /// Records that make this image out of nothing.
    pub(super) fn snapshot(&self) -> Vec<Record> {
        let image = &self.image;
        let mut records = vec![
            Record::FormatLevel(image.format_level()),
            Record::Identity {
                cluster_id: image.cluster_id().to_owned(),
                node_id: image.node_id(),
            },
            Record::ProducerIdsReserved(image.next_producer_id()),
        ];
        records.extend(image.topics().map(|topic| Record::TopicCreated {
            name: topic.name.to_string(),
            id: topic.id,
            partitions: topic.partitions.clone(),
            overrides: topic.overrides.clone(),
        }));
        records
    }

    fn apply_content(&mut self, record: &Record) -> Result<()> {
        match record {
            Record::FormatLevel(level) => self.format(*level),
            Record::Identity { cluster_id, node_id } => {
                self.image.set_identity(cluster_id, *node_id);
                Ok(())
            }
            Record::TopicCreated { name, id, partitions, overrides } => {
                if self.image.topic(name).is_some() || self.image.topic_by_id(*id).is_some() {
                    return Err(corrupt(format!("topic {name} is made twice")));
                }
                self.put(Topic {
                    name: Arc::from(name.as_str()),
                    id: *id,
                    partitions: partitions.clone(),
                    config: self.config(name, overrides)?,
                    overrides: overrides.clone(),
                })
            }
            Record::TopicRemoved(id) => match self.image.remove(*id) {
                true => Ok(()),
                false => Err(corrupt(format!("topic {id} is removed but not there"))),
            },
            Record::PartitionsAdded { id, partitions } => {
                let mut topic = self.topic(*id)?;
                topic.partitions.extend_from_slice(partitions);
                self.put(topic)
            }
            Record::ConfigChanged { id, overrides } => {
                let mut topic = self.topic(*id)?;
                topic.config = self.config(&topic.name, overrides)?;
                topic.overrides.clone_from(overrides);
                self.put(topic)
            }
            Record::ProducerIdsReserved(next) if *next < self.image.next_producer_id() => {
                Err(corrupt(format!("producer ids go back to {next}")))
            }
            Record::ProducerIdsReserved(next) => {
                self.image.set_next_producer_id(*next);
                Ok(())
            }
            Record::PartitionChanged { id, partition, state } => {
                let mut topic = self.topic(*id)?;
                let slot = usize::try_from(*partition).ok();
                let slot = slot.and_then(|at| topic.partitions.get_mut(at));
                match slot {
                    Some(old) if old.leader_epoch <= state.leader_epoch => old.clone_from(state),
                    Some(_) => {
                        return Err(corrupt(format!("the epoch of {id}-{partition} goes back")));
                    }
                    None => return Err(corrupt(format!("{id}-{partition} is not there"))),
                }
                self.put(topic)
            }
        }
    }

    fn format(&mut self, level: u16) -> Result<()> {
        if level > FORMAT_LEVEL {
            let message = format!(
                "the metadata is of format level {level}, this program knows {FORMAT_LEVEL}; \
                 start the newer one"
            );
            return Err(Error::new(Kind::Invalid, message));
        }
        self.image.set_format_level(level);
        Ok(())
    }

    fn topic(&self, id: TopicId) -> Result<Topic> {
        let topic = self.image.topic_by_id(id);
        topic
            .map(|topic| (**topic).clone())
            .ok_or_else(|| corrupt(format!("topic {id} is changed but not there")))
    }

    fn put(&mut self, topic: Topic) -> Result<()> {
        let count = topic.partitions.len();
        if count == 0 || count > limits::TOPIC_PARTITIONS_MAX {
            return Err(corrupt(format!("topic {} has {count} partitions", topic.name)));
        }
        self.image.put(topic);
        Ok(())
    }

    /// A topic's settings. Those without overrides share one set.
    fn config(&self, topic: &str, overrides: &Overrides) -> Result<Arc<TopicConfig>> {
        if overrides.is_empty() {
            return Ok(self.broker.topic_defaults.clone());
        }
        TopicConfig::resolve(&self.broker, overrides).map(Arc::new).map_err(|error| {
            Error::new(Kind::Invalid, format!("settings of topic {topic}: {error}"))
        })
    }
}

fn corrupt(message: String) -> Error {
    Error::new(Kind::Corrupt, message)
}
