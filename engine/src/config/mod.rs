//! Settings: of the broker and of topics, under Kafka's own names.
//!
//! Owns the tables of names, types, bounds, defaults and texts, the `server.properties` syntax,
//! the layers that a value can come from, and the typed [`BrokerConfig`] and [`TopicConfig`].
//! Knows no file, no environment, no Kafka error code: texts come in, typed values go out.
//!
//! Invariant: a typed configuration that exists is valid. Failure is a [`ConfigError`], one line
//! that names the setting, where it came from and the nearest known name.

mod accepted_table;
mod alter;
mod broker;
mod broker_table;
mod definition;
mod describe;
mod error;
mod listener;
mod nearest;
mod properties;
mod source;
mod topic;
mod topic_table;

pub use accepted_table::ACCEPTED_DEFINITIONS;
pub use alter::{Change, Operation, apply};
pub use broker::{BrokerConfig, Explained};
pub use broker_table::BROKER_DEFINITIONS;
pub use definition::{Definition, Rule, Synonym, Usage, Value, ValueType};
pub use describe::{Entry, EntrySource, EntrySynonym};
pub use error::ConfigError;
pub use listener::{Listener, SecurityProtocol};
pub use properties::{Property, parse as parse_properties};
pub use source::{Flag, Origin, Sources, broker_definition, environment_name};
pub use topic::{
    CleanupPolicy, CompressionType, Overrides, TimestampType, TopicConfig, topic_definition,
};
pub use topic_table::TOPIC_DEFINITIONS;

#[cfg(test)]
mod tests;
