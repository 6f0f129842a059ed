//! `millrace topics create`.

use clap::Args;
use millrace_net::client::admin::NewTopic;

use crate::{
    bootstrap::Bootstrap,
    failure::{Failure, Outcome},
    output::Output,
    settings,
};

/// Create a topic
#[derive(Debug, Args)]
pub struct Create {
    #[command(flatten)]
    bootstrap: Bootstrap,
    /// Name of the topic
    #[arg(long)]
    topic: String,
    /// Number of partitions; the broker's num.partitions if not given
    #[arg(long)]
    partitions: Option<i32>,
    /// Replicas of each partition; the broker's default.replication.factor if not given
    #[arg(long)]
    replication_factor: Option<i16>,
    /// Node ids of the replicas: partitions separated by commas, replicas by colons
    #[arg(long, conflicts_with_all = ["partitions", "replication_factor"])]
    replica_assignment: Option<String>,
    /// A topic setting; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    config: Vec<String>,
    /// Do nothing when the topic exists
    #[arg(long)]
    if_not_exists: bool,
    /// Only check whether the topic could be created
    #[arg(long)]
    validate_only: bool,
}

impl Create {
    pub(super) fn run(self) -> Outcome {
        let topic = self.topic()?;
        let mut admin = self.bootstrap.admin()?;
        match admin.create_topic(&topic, self.validate_only) {
            Err(error) if self.if_not_exists && error.is_topic_exists() => {
                return Ok(());
            }
            result => result.map_err(|error| error.during(&format!("topic {}", self.topic)))?,
        };
        let done = if self.validate_only { "Could create" } else { "Created" };
        let mut output = Output::new();
        output.line(&format!("{done} topic {}.", self.topic))?;
        output.flush()
    }

    fn topic(&self) -> Outcome<NewTopic> {
        let mut topic = NewTopic::new(&self.topic);
        topic.partitions = self.partitions.unwrap_or(-1);
        topic.replication_factor = self.replication_factor.unwrap_or(-1);
        topic.configs =
            self.config.iter().map(|it| settings::parse("--config", it)).collect::<Outcome<_>>()?;
        if let Some(assignment) = &self.replica_assignment {
            topic.assignments = assignments(assignment)?;
        }
        Ok(topic)
    }
}

fn assignments(text: &str) -> Outcome<Vec<Vec<i32>>> {
    let bad = || Failure::line(format!("--replica-assignment {text}: give node ids as in 1:2,2:1"));
    text.split(',')
        .map(|nodes| nodes.split(':').map(|node| node.trim().parse().map_err(|_| bad())).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_replica_assignments() {
        assert_eq!(assignments("1:2,2:1").expect("two"), [vec![1, 2], vec![2, 1]]);
        assert!(assignments("1:x").is_err());
    }
}
