//! What can go wrong for a client, each with one line that says what to do.

use std::{fmt, io, sync::Arc};

use crate::wire::ErrorCode;

/// What the caller can do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A setting, a topic name or a record breaks a rule; repeating it cannot help.
    Invalid,
    /// No broker could be reached; check the address, or try later.
    Unreachable,
    /// The time for it ran out; the outcome on the broker may be unknown.
    TimedOut,
    /// The broker answered with an error code.
    Refused,
    /// The broker's bytes make no sense, or it does not speak a version we do.
    Protocol,
    /// This client was closed.
    Closed,
}

/// A failure of a client call. Cheap to clone: every record of a failed batch gets one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientError {
    kind: Kind,
    code: ErrorCode,
    message: Arc<str>,
}

/// The client's result.
pub type Result<T> = std::result::Result<T, ClientError>;

impl ClientError {
    /// An error of `kind` with one line of text.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, code: ErrorCode::None, message: message.into().into() }
    }

    pub(super) fn coded(kind: Kind, code: ErrorCode, message: String) -> Self {
        Self { kind, code, message: message.into() }
    }

    /// A bad argument or setting.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    /// A failed socket operation on the broker at `address`.
    #[must_use]
    pub fn from_io(address: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                Self::new(Kind::TimedOut, format!("{address} did not answer in time"))
            }
            io::ErrorKind::UnexpectedEof => {
                Self::new(Kind::Unreachable, format!("{address} closed the connection"))
            }
            _ => Self::new(Kind::Unreachable, format!("{address}: {error}")),
        }
    }

    /// The same failure with `context` (what was tried) in front.
    #[must_use]
    pub fn during(&self, context: &str) -> Self {
        let message = format!("{context}: {}", self.message).into();
        Self { kind: self.kind, code: self.code, message }
    }

    /// What the caller can do.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Kafka's error code in the broker's answer; `None` when it was not an answer that failed.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.code
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for ClientError {}
