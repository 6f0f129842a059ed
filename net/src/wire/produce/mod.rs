//! Produce, versions 3 to 13: records from clients.
//!
//! 5 adds the log start offset to the answer, 8 says which records are bad (KIP-467), 9 is
//! flexible, 10 adds leader hints (KIP-951), 13 names topics by id (KIP-516). From 7 on records may
//! be compressed with zstd. An answer to `acks` 0 is never sent.

mod request;
mod response;

pub use request::{PartitionProduceData, ProduceRequest};
pub use response::{PartitionProduceResponse, ProduceResponse, RecordError};
