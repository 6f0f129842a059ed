//! The engine's few error kinds, each of which says what the caller is to do.
//!
//! Kafka's error codes are not known here; `net::wire` maps each kind to one.

use std::{fmt, io};

/// What the caller can do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing changed; the same call may succeed later.
    Retry,
    /// The partition is not owned here (any more); ask the metadata image again.
    NotOwner,
    /// The caller's epoch is older than the one in force.
    Fenced,
    /// No room: disk, memory budget or a limit of `limits`.
    Full,
    /// The input breaks a rule; repeating it cannot help.
    Invalid,
    /// Stored bytes do not check out; they are kept and never served.
    Corrupt,
    /// A write or flush failed: final for that file or disk in this process.
    Fatal,
}

/// A failure of the engine: its kind and one line for the operator (what, where, what to do).
#[derive(Clone, Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    os_code: Option<i32>,
}

/// The engine's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `kind` with one line of text.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), os_code: None }
    }

    /// An I/O failure of `what` (a path or an action): `Full` for ENOSPC and EDQUOT, else `Fatal`.
    #[must_use]
    pub fn from_io(what: &str, error: &io::Error) -> Self {
        let kind = if Self::is_full(error) { Kind::Full } else { Kind::Fatal };
        Self { os_code: error.raw_os_error(), ..Self::new(kind, format!("{what}: {error}")) }
    }

    /// Whether an I/O call changed nothing for want of something that comes back: room (ENOSPC,
    /// EDQUOT) or descriptors (EMFILE, ENFILE). Of a flush it says nothing: a failed one is final.
    #[must_use]
    pub fn is_shortage(error: &io::Error) -> bool {
        Self::is_full(error) || matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
    }

    /// Whether an I/O call found no room.
    pub(crate) fn is_full(error: &io::Error) -> bool {
        matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
    }

    /// The system's own code (`errno`) of an I/O failure; `None` for any other.
    #[must_use]
    pub fn os_code(&self) -> Option<i32> {
        self.os_code
    }

    /// What the caller can do.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
