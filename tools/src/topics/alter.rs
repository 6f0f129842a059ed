//! `millrace topics alter`.

use clap::Args;
use millrace_net::client::admin::{AlterOp, Resource};

use crate::{
    bootstrap::Bootstrap,
    failure::{Failure, Outcome},
    settings,
};

/// Add partitions, or change settings
#[derive(Debug, Args)]
pub struct Alter {
    #[command(flatten)]
    bootstrap: Bootstrap,
    /// Name of the topic
    #[arg(long)]
    topic: String,
    /// New number of partitions; it can only grow
    #[arg(long)]
    partitions: Option<i32>,
    /// Set a topic setting; may be given several times
    #[arg(long, visible_alias = "add-config", value_name = "NAME=VALUE")]
    config: Vec<String>,
    /// Take a topic setting back to its default; may be given several times
    #[arg(long, value_name = "NAME")]
    delete_config: Vec<String>,
    /// Do nothing when the topic does not exist
    #[arg(long)]
    if_exists: bool,
}

impl Alter {
    pub(super) fn run(self) -> Outcome {
        let changes = self.changes()?;
        if changes.is_empty() && self.partitions.is_none() {
            return Err(Failure::line(
                "nothing to alter; give --partitions, --config or --delete-config",
            ));
        }
        let mut admin = self.bootstrap.admin()?;
        let mut result = Ok(());
        if let Some(count) = self.partitions {
            result = admin.create_partitions(&self.topic, count);
        }
        if result.is_ok() && !changes.is_empty() {
            result = admin.alter_configs(&Resource::Topic(self.topic.clone()), &changes);
        }
        match result {
            Err(error) if self.if_exists && error.is_unknown_topic() => Ok(()),
            Err(error) => Err(error.during(&format!("topic {}", self.topic)).into()),
            Ok(()) => Ok(()),
        }
    }

    fn changes(&self) -> Outcome<Vec<AlterOp>> {
        let mut changes = Vec::new();
        for setting in &self.config {
            let (name, value) = settings::parse("--config", setting)?;
            changes.push(AlterOp::Set(name, value));
        }
        changes.extend(self.delete_config.iter().cloned().map(AlterOp::Delete));
        Ok(changes)
    }
}
