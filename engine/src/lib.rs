//! The data of Millrace: record batches, partition logs, metadata and the shards that own them.
//!
//! Knows nothing of sockets outside [`io`], of Kafka API versions, of Kafka error codes or of the
//! command line.

pub mod batch;
pub mod config;
pub mod error;
pub mod io;
pub mod limits;
pub mod log;
pub mod meta;
pub mod shard;
pub mod types;
