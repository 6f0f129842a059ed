//! Fetch, versions 4 to 18: records to consumers and followers.
//!
//! 5 adds log start offsets, 7 sessions (KIP-227), 9 the leader epoch (KIP-320), 11 the rack
//! (KIP-392), 12 is flexible and adds epochs of fetched records (KIP-595), 13 names topics by id
//! (KIP-516), 15 moves the replica into a tag (KIP-903), 16 adds leader hints (KIP-951), 17 the
//! directory (KIP-853), 18 the follower's high watermark (KIP-1166).

mod request;
mod response;

pub use request::{FetchPartition, FetchRequest, FetchSession};
pub use response::{AbortedTransaction, EpochEndOffset, FetchResponse, PartitionData};
