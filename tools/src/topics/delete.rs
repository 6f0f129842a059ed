//! `millrace topics delete`.

use clap::Args;

use crate::{
    bootstrap::Bootstrap,
    failure::{Failure, Outcome},
};

/// Delete topics and all their records
#[derive(Debug, Args)]
pub struct Delete {
    #[command(flatten)]
    bootstrap: Bootstrap,
    /// Name of the topic; may be given several times, or several separated by commas
    #[arg(long, required = true, value_delimiter = ',')]
    topic: Vec<String>,
    /// Do nothing for topics that do not exist
    #[arg(long)]
    if_exists: bool,
}

impl Delete {
    pub(super) fn run(self) -> Outcome {
        let mut admin = self.bootstrap.admin()?;
        let names: Vec<&str> = self.topic.iter().map(String::as_str).collect();
        let mut failed = None;
        for (name, result) in names.iter().zip(admin.delete_topics(&names)?) {
            match result {
                Err(error) if self.if_exists && error.is_unknown_topic() => {}
                Err(error) => failed = Some(error.during(&format!("topic {name}"))),
                Ok(()) => {}
            }
        }
        failed.map_or(Ok(()), |error| Err(Failure::from(error)))
    }
}
