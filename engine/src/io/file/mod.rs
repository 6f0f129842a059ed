//! Files of a shard, direct where the file system allows it.
//!
//! Owns descriptors and what a disk's probe found; knows nothing of segments. Data moves through
//! the shard's ring, all that may block on metadata through the blocking threads. Failures are
//! returned as they come: that a failed write or flush is final is the log's rule, and nothing
//! here tries again.

mod disk;
mod nature;
mod open_file;

pub use self::{disk::RealDisk, open_file::RealFile};

#[cfg(test)]
mod tests;
