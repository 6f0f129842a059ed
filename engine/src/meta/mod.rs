//! The metadata of the cluster: topics, their ids, partitions and settings, producer-id blocks.
//!
//! Owns the records, the state machine that applies them (sans-I/O), the log that keeps them and
//! the thread that writes it. Knows no socket, no Kafka error code and no record batch.
//!
//! A change is a [`Command`] to a [`MetaHandle`]; it becomes records, which are durable before the
//! [`Image`] that holds them is published, which is before the command is answered. The writer is
//! one local thread today. A quorum (openraft) will take its place behind the same handle: readers
//! of images and senders of commands must not notice, so nothing here may promise more than a
//! quorum can. A failed write or flush is final: commands are refused from then on, reads go on.

mod command;
mod identity;
mod image;
mod journal;
mod name;
mod plan;
mod record;
mod sorted;
mod state;
mod store;
pub mod writer;

pub use command::{Command, NewTopic, Outcome, Refusal, TopicRef};
pub use image::{Image, PartitionState, Replicas, Topic};
pub use plan::Plan;
pub use record::Record;
pub use state::State;
pub use writer::{Directory, MetaHandle};

#[cfg(test)]
mod tests;
