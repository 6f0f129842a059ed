//! The topic under load: made if it is not there, and described for the report.

use millrace_net::{
    client::{
        admin::{Admin, NewTopic, Resource},
        config::ClientConfig,
        error::{ClientError, Result},
    },
    wire::ErrorCode,
};

use super::{Load, name_and_value};

/// What a report says about the topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub topic: String,
    /// Its partitions.
    pub partitions: Vec<i32>,
    /// Its `flush.messages`: 1 means that what is acknowledged is on disk.
    pub flush_messages: String,
}

impl Target {
    /// Makes the topic if it is not there, and looks at it.
    pub fn prepare(load: &Load) -> Result<Self> {
        let mut admin = Admin::connect(ClientConfig::new(&load.bootstrap_server))?;
        let mut cluster = admin.metadata(Some(&[&load.topic]))?;
        let known = cluster.topics.get(&load.topic).is_some_and(|it| it.failure().is_none());
        if !known {
            create(&mut admin, load)?;
            cluster = admin.metadata(Some(&[&load.topic]))?;
        }
        let partitions = cluster
            .topics
            .get(&load.topic)
            .map(|topic| topic.partitions.iter().map(|it| it.partition).collect())
            .unwrap_or_default();
        let resource = Resource::Topic(load.topic.clone());
        let flush_messages = admin
            .describe_configs(&resource, Some(&["flush.messages"]))?
            .into_iter()
            .find_map(|entry| entry.value)
            .unwrap_or_else(|| "unknown".to_owned());
        Ok(Self { topic: load.topic.clone(), partitions, flush_messages })
    }

    /// The durability mode in words.
    pub fn durability(&self) -> String {
        let meaning = match self.flush_messages.as_str() {
            "1" => "acknowledged means flushed",
            _ => "acknowledged before it is flushed",
        };
        format!("flush.messages={} ({meaning})", self.flush_messages)
    }
}

fn create(admin: &mut Admin, load: &Load) -> Result<()> {
    let mut topic = NewTopic::new(&load.topic);
    topic.partitions = load.partitions;
    for setting in &load.topic_config {
        let (name, value) = name_and_value("--topic-config", setting)?;
        topic.configs.push((name.to_owned(), value.to_owned()));
    }
    match admin.create_topic(&topic, false) {
        Err(error) if error.code() == ErrorCode::TopicAlreadyExists => Ok(()),
        result => result
            .map(drop)
            .map_err(|error: ClientError| error.during(&format!("topic {}", load.topic))),
    }
}
