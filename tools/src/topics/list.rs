//! `millrace topics list`.

use clap::Args;

use crate::{bootstrap::Bootstrap, failure::Outcome, output::Output};

/// Print the names of all topics
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    bootstrap: Bootstrap,
    /// Leave out the topics that the broker keeps for itself
    #[arg(long)]
    exclude_internal: bool,
}

impl List {
    pub(super) fn run(self) -> Outcome {
        let cluster = self.bootstrap.admin()?.metadata(None)?;
        let mut output = Output::new();
        for topic in cluster.topics.values() {
            if !(self.exclude_internal && topic.internal) {
                output.line(&topic.name)?;
            }
        }
        output.flush()
    }
}
