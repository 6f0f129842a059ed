//! The sticky failure of one disk, shared by the volumes of all shards on it.
//!
//! Invariant: once failed, a disk stays failed for the life of the process (never flush twice).

use std::sync::{Arc, OnceLock};

use crate::error::{Error, Kind};

/// Whether a disk has failed, and why; clones share the answer between shards.
#[derive(Clone, Debug, Default)]
pub struct DiskHealth {
    reason: Arc<OnceLock<String>>,
}

impl DiskHealth {
    /// A disk with no failure known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Marks the disk as failed; the first reason stays.
    pub fn fail(&self, reason: impl Into<String>) {
        let _already_failed = self.reason.set(reason.into());
    }

    /// The failure, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.reason.get().map(|reason| Error::new(Kind::Fatal, reason.clone()))
    }

    /// Whether the disk has failed.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.reason.get().is_some()
    }
}
