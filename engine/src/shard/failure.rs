//! Why a shard could not do what it was asked; `net` maps each to Kafka's error code.

use crate::{error::Kind, log::AppendError};

/// A refusal of a shard. The position of each is its code between cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Failure {
    /// The partition is not served here: unknown, deleted, or not open yet.
    NotOwner = 1,
    /// The offset lies outside the log.
    OffsetOutOfRange,
    /// The asker's leader epoch is older than ours (KIP-320).
    FencedLeaderEpoch,
    /// The asker's leader epoch is newer than ours (KIP-320).
    UnknownLeaderEpoch,
    /// A producer's sequence leaves a gap or goes back (KIP-98).
    OutOfOrderSequence,
    /// A producer's epoch is older than the one in force (KIP-98).
    InvalidProducerEpoch,
    /// A transactional batch, while transactions are not served.
    Transactional,
    /// Disk or memory is full; the same call may succeed later.
    Full,
    /// The disk failed: final for this partition in this process.
    Storage,
    /// Stored bytes do not check out and are not served.
    Corrupt,
    /// The request breaks a rule.
    Invalid,
}

impl Failure {
    const ALL: [Self; 11] = [
        Self::NotOwner,
        Self::OffsetOutOfRange,
        Self::FencedLeaderEpoch,
        Self::UnknownLeaderEpoch,
        Self::OutOfOrderSequence,
        Self::InvalidProducerEpoch,
        Self::Transactional,
        Self::Full,
        Self::Storage,
        Self::Corrupt,
        Self::Invalid,
    ];

    /// The code of an outcome: 0 for success.
    #[must_use]
    pub fn code_of<T>(outcome: &Result<T, Self>) -> u8 {
        outcome.as_ref().err().map_or(0, |failure| *failure as u8)
    }

    /// The failure of a code; `None` for 0. A code of nobody is taken as [`Failure::Invalid`].
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        (code != 0).then(|| *Self::ALL.get(usize::from(code) - 1).unwrap_or(&Self::Invalid))
    }
}

impl From<Kind> for Failure {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Retry | Kind::NotOwner => Self::NotOwner,
            Kind::Fenced => Self::FencedLeaderEpoch,
            Kind::Full => Self::Full,
            Kind::Invalid => Self::Invalid,
            Kind::Corrupt => Self::Corrupt,
            Kind::Fatal => Self::Storage,
        }
    }
}

impl Failure {
    /// What an append that the log refused means to its producer; `None` asks to try again after
    /// the next advance.
    #[must_use]
    pub fn of_append(error: &AppendError) -> Option<Self> {
        Some(match error {
            AppendError::Busy => return None,
            AppendError::OutOfOrderSequence { .. } => Self::OutOfOrderSequence,
            AppendError::InvalidProducerEpoch { .. } => Self::InvalidProducerEpoch,
            AppendError::TransactionalRefused => Self::Transactional,
            AppendError::Failed(error) => error.kind().into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_back() {
        for failure in Failure::ALL {
            assert_eq!(Failure::from_code(Failure::code_of::<()>(&Err(failure))), Some(failure));
        }
        assert_eq!(Failure::from_code(0), None);
        assert_eq!(Failure::from_code(200), Some(Failure::Invalid));
    }
}
