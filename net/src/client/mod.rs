//! A Kafka client on blocking threads: producer, consumer and admin, for tools, bench and tests.
//!
//! Owns connections to brokers, batching, retries and positions. Knows nothing of the engine but
//! the record batch codec, and nothing of the broker in this workspace: it speaks to any Kafka.
//!
//! What decides (accumulator, partitioner, sequences) does no I/O and takes time as an argument;
//! threads around it move bytes. Failure behaviour: retried as Kafka's client does until
//! `delivery.timeout.ms` or `default.api.timeout.ms`, then an error of one line.

pub mod admin;
pub mod cluster;
pub mod codes;
pub mod config;
pub mod consumer;
pub mod error;
pub mod link;
pub mod links;
pub mod murmur2;
pub mod partitioner;
pub mod protocol;
