//! Proof: what the suites of this crate share.
//!
//! Owns real processes (ours and Apache Kafka's), a raw protocol connection that trusts nothing of
//! ours, and the house rules. Knows no inside of a broker: a suite sees one only through a socket,
//! a signal or a file, so that what it shows holds for any build.

pub mod broker;
pub mod corpus;
pub mod kafka;
pub mod kernel;
pub mod load;
pub mod manifest;
pub mod mount;
mod native_load;
pub mod proxy;
pub mod server;
pub mod spread;
pub mod tidy;
pub mod wire;
