//! `millrace topics`: what `kafka-topics.sh` and `kafka-configs.sh` do for topics.

mod alter;
mod create;
mod delete;
mod describe;
mod list;

use clap::Subcommand;

use crate::failure::Outcome;

/// The actions on topics.
#[derive(Debug, Subcommand)]
pub enum Topics {
    /// Create a topic
    #[command(visible_alias = "--create")]
    Create(create::Create),
    /// Print the names of all topics
    #[command(visible_alias = "--list")]
    List(list::List),
    /// Print partitions, leaders, replicas and changed settings
    #[command(visible_alias = "--describe")]
    Describe(describe::Describe),
    /// Add partitions, or change settings
    #[command(visible_alias = "--alter")]
    Alter(alter::Alter),
    /// Delete topics and all their records
    #[command(visible_alias = "--delete")]
    Delete(delete::Delete),
}

impl Topics {
    /// Does it.
    pub fn run(self) -> Outcome {
        match self {
            Self::Create(action) => action.run(),
            Self::List(action) => action.run(),
            Self::Describe(action) => action.run(),
            Self::Alter(action) => action.run(),
            Self::Delete(action) => action.run(),
        }
    }
}
