//! Sealing: a complete segment is cut to its size, indexed, and recorded as such.

use std::rc::Rc;

use super::state::Shared;
use crate::io::Env;

/// What a seal record says of its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SealRecord {
    pub(super) size: u64,
}

/// Seals the next complete segment in the background, if there is one.
pub(super) fn start<E: Env>(_shared: &Rc<Shared<E>>) {}
