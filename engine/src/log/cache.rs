//! The bounds on what sealed segments keep in memory for readers: indexes and open files, over all
//! logs of a volume, oldest out first.

use std::{collections::VecDeque, rc::Weak};

use super::state::Shared;
use crate::{
    io::Env,
    limits::{INDEX_CACHE_BYTES, OPEN_SEALED_FILES},
    types::Offset,
};

/// What is kept for a sealed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cached {
    /// Its indexes, with their size in bytes.
    Indexes(usize),
    /// Its open file.
    File,
}

/// What was cached when, for the whole volume.
pub(super) struct Cache<E: Env> {
    indexes: VecDeque<(Weak<Shared<E>>, Offset, usize)>,
    index_bytes: usize,
    files: VecDeque<(Weak<Shared<E>>, Offset)>,
}

impl<E: Env> Cache<E> {
    /// Nothing cached.
    pub(super) fn new() -> Self {
        Self { indexes: VecDeque::new(), index_bytes: 0, files: VecDeque::new() }
    }

    /// Takes note of a newly cached thing.
    pub(super) fn push(&mut self, log: Weak<Shared<E>>, base: Offset, what: Cached) {
        match what {
            Cached::Indexes(bytes) => {
                self.index_bytes += bytes;
                self.indexes.push_back((log, base, bytes));
            }
            Cached::File => self.files.push_back((log, base)),
        }
    }

    /// The oldest thing beyond the bounds.
    pub(super) fn pop_surplus(&mut self) -> Option<(Weak<Shared<E>>, Offset, Cached)> {
        if self.index_bytes > INDEX_CACHE_BYTES && self.indexes.len() > 1 {
            let (log, base, bytes) = self.indexes.pop_front()?;
            self.index_bytes -= bytes;
            return Some((log, base, Cached::Indexes(bytes)));
        }
        if self.files.len() > OPEN_SEALED_FILES {
            let (log, base) = self.files.pop_front()?;
            return Some((log, base, Cached::File));
        }
        None
    }
}
