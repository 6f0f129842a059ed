//! `millrace topics describe`: the lines of `kafka-topics.sh --describe`, tabs and all, since
//! scripts read them.

use clap::Args;
use millrace_engine::types::uuid_text;
use millrace_net::client::{
    admin::{Admin, ConfigSource, Resource},
    cluster::{PartitionInfo, TopicInfo},
};

use crate::{
    bootstrap::Bootstrap,
    failure::{Failure, Outcome},
    output::Output,
};

/// Print partitions, leaders, replicas and changed settings
#[derive(Debug, Args)]
pub struct Describe {
    #[command(flatten)]
    bootstrap: Bootstrap,
    /// Name of the topic, or several separated by commas; all if not given
    #[arg(long, value_delimiter = ',')]
    topic: Vec<String>,
    /// Print nothing, and succeed, when the topic does not exist
    #[arg(long)]
    if_exists: bool,
    /// Leave out the topics that the broker keeps for itself
    #[arg(long)]
    exclude_internal: bool,
    /// Only partitions of which a replica is not in sync
    #[arg(long)]
    under_replicated_partitions: bool,
    /// Only partitions without a leader
    #[arg(long)]
    unavailable_partitions: bool,
    /// Only topics with settings that were changed, without their partitions
    #[arg(long)]
    topics_with_overrides: bool,
}

impl Describe {
    pub(super) fn run(self) -> Outcome {
        let mut admin = self.bootstrap.admin()?;
        let names: Vec<&str> = self.topic.iter().map(String::as_str).collect();
        let cluster = admin.metadata((!names.is_empty()).then_some(&names))?;
        let mut output = Output::new();
        for topic in cluster.topics.values() {
            if let Some(error) = topic.failure() {
                if self.if_exists {
                    continue;
                }
                return Err(Failure::from(error));
            }
            if !(self.exclude_internal && topic.internal) {
                self.describe(&mut admin, topic, &mut output)?;
            }
        }
        output.flush()
    }

    fn describe(&self, admin: &mut Admin, topic: &TopicInfo, output: &mut Output) -> Outcome {
        let partial = self.under_replicated_partitions || self.unavailable_partitions;
        if !partial {
            let configs = changed_configs(admin, &topic.name)?;
            if self.topics_with_overrides && configs.is_empty() {
                return Ok(());
            }
            output.line(&topic_line(topic, &configs))?;
        }
        if self.topics_with_overrides {
            return Ok(());
        }
        for partition in &topic.partitions {
            let behind = partition.isr.len() < partition.replicas.len();
            let wanted = (self.under_replicated_partitions && behind)
                || (self.unavailable_partitions && partition.leader < 0);
            if wanted || !partial {
                output.line(&partition_line(&topic.name, partition))?;
            }
        }
        Ok(())
    }
}

/// `name=value` of every setting that is not at its default, in the broker's order.
fn changed_configs(admin: &mut Admin, topic: &str) -> Outcome<Vec<String>> {
    let entries = admin.describe_configs(&Resource::Topic(topic.to_owned()), None)?;
    let changed = entries.iter().filter(|entry| entry.source != ConfigSource::DefaultConfig);
    Ok(changed
        .map(|entry| format!("{}={}", entry.name, entry.value.as_deref().unwrap_or_default()))
        .collect())
}

fn topic_line(topic: &TopicInfo, configs: &[String]) -> String {
    let replication_factor = topic.partitions.first().map_or(0, |first| first.replicas.len());
    format!(
        "Topic: {}\tTopicId: {}\tPartitionCount: {}\tReplicationFactor: {replication_factor}\t\
         Configs: {}",
        topic.name,
        uuid_text(&topic.topic_id.0),
        topic.partitions.len(),
        configs.join(","),
    )
}

fn partition_line(topic: &str, partition: &PartitionInfo) -> String {
    let leader =
        if partition.leader < 0 { "none".to_owned() } else { partition.leader.to_string() };
    format!(
        "\tTopic: {topic}\tPartition: {}\tLeader: {leader}\tReplicas: {}\tIsr: {}",
        partition.partition,
        nodes(&partition.replicas),
        nodes(&partition.isr),
    )
}

fn nodes(ids: &[i32]) -> String {
    ids.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use millrace_engine::types::TopicId;
    use millrace_net::wire::ErrorCode;

    use super::*;

    #[test]
    fn lines_are_those_of_kafka_topics() {
        let partition = PartitionInfo {
            partition: 0,
            leader: 1,
            leader_epoch: 0,
            replicas: vec![1, 2],
            isr: vec![2],
            offline: Vec::new(),
        };
        assert_eq!(
            partition_line("t", &partition),
            "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 2"
        );
        let topic = TopicInfo {
            name: "t".to_owned(),
            topic_id: TopicId([0; 16]),
            internal: false,
            error_code: ErrorCode::None,
            partitions: vec![partition],
        };
        assert_eq!(
            topic_line(&topic, &["a=1".to_owned(), "b=".to_owned()]),
            "Topic: t\tTopicId: AAAAAAAAAAAAAAAAAAAAAA\tPartitionCount: 1\tReplicationFactor: 2\t\
             Configs: a=1,b="
        );
    }
}
