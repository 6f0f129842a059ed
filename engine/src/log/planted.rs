//! Bugs planted on purpose, so that the model test proves it would catch them. Outside of tests
//! nothing is planted and the question costs nothing.

/// A bug that the model test must catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// Acknowledge once the device has taken the write, before any flush.
    AcknowledgeAtWrite,
    /// Let a flush cover a write that was still in flight when it was submitted.
    CoverUnreaped,
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug on this thread, or takes it away.
#[cfg(test)]
pub(super) fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether this bug is planted.
#[cfg(test)]
pub(super) fn is_planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Whether this bug is planted: never.
#[cfg(not(test))]
pub(super) const fn is_planted(_bug: Bug) -> bool {
    false
}
