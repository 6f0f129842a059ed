//! The sticky failure of one file system, shared by all who flush there: the volumes of all shards
//! and of all its data directories, and the metadata log.
//!
//! A device reports what it lost to one flush only, whoever's that is, and the next one succeeds.
//! Invariant: once failed, a file system stays failed for the life of the process.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use crate::error::{Error, Kind, Result};

/// Whether a file system has failed, and why; clones share the answer.
#[derive(Clone, Debug, Default)]
pub struct DiskHealth {
    reason: Arc<OnceLock<String>>,
}

impl DiskHealth {
    /// A file system with no failure known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The healths of `directories`, which exist, in their order; those of one file system (by its
    /// device number, stat(2)) share theirs. Blocks; call it before shards run.
    ///
    /// # Errors
    /// The first directory that cannot be looked at.
    pub fn of_directories(directories: &[PathBuf]) -> Result<Vec<Self>> {
        let mut known: Vec<(u64, Self)> = Vec::with_capacity(directories.len());
        for path in directories {
            let found = fs::metadata(path);
            let found = found.map_err(|e| Error::from_io(&path.display().to_string(), &e))?;
            let same = known.iter().find(|(device, _)| *device == found.dev());
            let health = same.map(|(_, health)| health.clone()).unwrap_or_default();
            known.push((found.dev(), health));
        }
        Ok(known.into_iter().map(|(_, health)| health).collect())
    }

    /// Marks the file system as failed; the first reason stays.
    pub fn fail(&self, reason: impl Into<String>) {
        let _already_failed = self.reason.set(reason.into());
    }

    /// The failure, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.reason.get().map(|reason| Error::new(Kind::Fatal, reason.clone()))
    }

    /// Whether the file system has failed.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.reason.get().is_some()
    }

    /// Runs `work`, a flush of `what`, on a thread that may block: not at all once the file system
    /// has failed, and a failure of it is everybody's.
    ///
    /// # Errors
    /// The failure of the file system, also one that somebody else met meanwhile: it may have been
    /// about what this flush was to cover.
    pub fn flush(&self, what: &str, work: impl FnOnce() -> io::Result<()>) -> Result<()> {
        self.failure().map_or(Ok(()), Err)?;
        if let Err(error) = work() {
            self.fail(format!(
                "flushing {what}: {error}; nothing there is written until a restart"
            ));
        }
        self.failure().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_one_file_system_fail_together() {
        let (first, second) = (tempfile::tempdir(), tempfile::tempdir());
        let [first, second] = [first, second].map(|dir| dir.expect("a directory"));
        let paths = [first.path().to_owned(), "/proc".into(), second.path().to_owned()];
        let healths = DiskHealth::of_directories(&paths).expect("they exist");
        healths[0].fail("lost");
        let failed: Vec<_> = healths.iter().map(DiskHealth::is_failed).collect();
        assert_eq!(failed, [true, false, true]);
        let missing = [first.path().join("nowhere")];
        DiskHealth::of_directories(&missing).expect_err("its file system is unknown");
    }

    #[test]
    fn a_flush_does_not_succeed_once_another_has_failed() {
        let health = DiskHealth::new();
        health.flush("a", || Ok(())).expect("good");
        let elsewhere = health.clone();
        let meanwhile = health.flush("b", || {
            elsewhere.fail("lost");
            Ok(())
        });
        assert_eq!(meanwhile.expect_err("lost meanwhile").to_string(), "lost");
        let again = health.flush("c", || panic!("nothing is flushed after a failure"));
        assert_eq!(again.expect_err("stays").kind(), Kind::Fatal);
        let own = DiskHealth::new();
        own.flush("d", || Err(io::ErrorKind::Other.into())).expect_err("failed");
        assert!(own.is_failed(), "for everybody");
    }
}
