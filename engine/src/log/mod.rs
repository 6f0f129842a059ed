//! One partition's log: segments on disk in Kafka's names and bytes, its end in memory, and the
//! group flush that makes appends durable.
//!
//! Owns the files of a partition's directory. Knows neither replicas, nor connections, nor API
//! versions. [`Log`] is the handle, [`Volume`] the flush domain that the logs of one disk and shard
//! share; both live on one shard and are not `Send`.
//!
//! Invariant: what `ack_end` has passed survives what `flush.messages` promises. A failed write is
//! final for its log, a failed flush for its disk: appends are refused, reads go on. Want of room
//! is neither: appends are refused until there is some.

mod append;
mod cache;
mod care;
mod checkpoint;
mod close;
mod cold;
mod epochs;
mod event;
mod frame;
mod gate;
mod index;
mod inventory;
mod marks;
#[cfg(test)]
mod model;
mod planted;
mod prepare;
mod producers;
mod read;
mod read_ahead;
mod recover;
mod remove;
mod retain;
mod room;
mod scan;
mod seal;
mod segment;
mod settings;
mod snapshot;
mod state;
mod tail;
#[cfg(test)]
mod tests;
mod timestamps;
mod volume;
mod writer;

use std::{cell::RefCell, path::PathBuf, rc::Rc};

pub use append::{AppendError, Appended};
pub use marks::Marks;
pub use read::{ColdRead, Read};
pub use remove::{delete_directory, is_deleted_name, name_aside, remove_later};
pub use settings::Settings;
pub use volume::Volume;

use crate::{
    batch::{Accepted, TimestampedOffset},
    error::{Error, Result},
    io::{
        Disk, Env,
        buf::{Chain, Pool},
    },
    types::{LeaderEpoch, Offset},
};
use recover::Recovery;
use state::Shared;

/// One partition's log; clones are handles of the same one.
pub struct Log<E: Env> {
    shared: Rc<Shared<E>>,
}

impl<E: Env> Clone for Log<E> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

/// What opening a log found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Bytes of batches read and checked.
    pub scanned_bytes: u64,
    /// Bytes behind the last whole batch that were cut as never acknowledged. Space prepared for
    /// writes and never used is not counted.
    pub cut_bytes: u64,
    /// Damage found before the recorded durable end, one line each; those bytes are kept and the
    /// partition takes no appends.
    pub damage: Vec<String>,
}

impl<E: Env> Log<E> {
    /// Opens the log in `dir`, made when absent, and recovers it.
    ///
    /// # Errors
    /// `Invalid` for settings no log can obey; an I/O error as [`Error::from_io`] has it.
    pub async fn open(
        env: E,
        volume: Volume<E>,
        pool: Pool,
        dir: PathBuf,
        settings: Settings,
    ) -> Result<(Self, RecoveryReport)> {
        settings.check()?;
        let path = dir.display().to_string();
        volume.disk().create_dir(&dir).await.map_err(|error| Error::from_io(&path, &error))?;
        let mut recovery = Recovery::<E> {
            disk: volume.disk(),
            pool: &pool,
            dir: &dir,
            settings: Rc::new(settings),
            now_ms: env.wall_ms(),
            report: RecoveryReport::default(),
        };
        let state = recovery.run().await.map_err(|error| Error::from_io(&path, &error))?;
        let report = recovery.report;
        let shared = Rc::new(Shared {
            env,
            volume,
            pool,
            dir,
            state: RefCell::new(state),
            on_advance: RefCell::new(None),
            changed: event::Event::default(),
        });
        shared.volume.join(&shared);
        if must_record(&shared) {
            let written = checkpoint::write(&shared).await;
            written.map_err(|error| Error::from_io(&path, &error))?;
        }
        seal::start(&shared);
        Ok((Self { shared }, report))
    }

    /// Appends a batch that passed `batch::check`: assigns its offsets, copies its payload once and
    /// wakes the writer. Allocates a small constant at most. Acknowledge it when `ack_end` has
    /// passed its last offset.
    ///
    /// # Errors
    /// See [`AppendError`]; nothing has changed then.
    pub fn append(
        &self,
        batch: &Accepted,
        epoch: LeaderEpoch,
        now_ms: i64,
    ) -> std::result::Result<Appended, AppendError> {
        append::append(&self.shared, &batch.header, &batch.payload, epoch, now_ms)
    }

    /// As [`Log::append`], for a batch made here: `header` as it is to be stored but for base
    /// offset and leader epoch, and the bytes behind it. The payload is copied once; the writer is
    /// woken.
    ///
    /// # Errors
    /// See [`AppendError`]; nothing has changed then.
    #[cfg(test)]
    pub(crate) fn append_parts(
        &self,
        header: &crate::batch::Header,
        payload: &Chain,
        epoch: LeaderEpoch,
        now_ms: i64,
    ) -> std::result::Result<Appended, AppendError> {
        append::append(&self.shared, header, payload, epoch, now_ms)
    }

    /// The marks at this moment.
    #[must_use]
    pub fn marks(&self) -> Marks {
        self.shared.state.borrow().marks
    }

    /// Sets what is called after each move of the marks and when the log fails (then with the
    /// marks as they are). It may call the log, but not append from within.
    pub fn set_on_advance(&self, callback: Box<dyn Fn(&Marks)>) {
        *self.shared.on_advance.borrow_mut() = Some(Rc::from(callback));
    }

    /// Why the log takes no appends: its own failure or its disk's, which last, or, of kind `Full`,
    /// what it is short of now.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.shared.failure()
    }

    /// Whole batches from the one that holds `from` on, ending at or before `up_to`, of at most
    /// `max_bytes` but at least one. The first batch may begin before `from`.
    #[must_use]
    pub fn read(&self, from: Offset, max_bytes: usize, up_to: Offset) -> Read {
        read::read(&self.shared, from, max_bytes, up_to)
    }

    /// Reads from disk what [`Log::read`] said is [`Read::Cold`]; empty when a gap in the offsets
    /// leaves nothing before `up_to`, and when memory is short.
    ///
    /// # Errors
    /// `Corrupt` when the bytes there are no batch, `Invalid` when they were deleted meanwhile,
    /// else the disk's.
    pub async fn read_cold(&self, read: ColdRead) -> Result<Chain> {
        cold::read_cold(&self.shared, read).await
    }

    /// The first record before `up_to` whose timestamp is at least `timestamp_ms`, exact inside the
    /// batch; `None` when there is none.
    ///
    /// # Errors
    /// `Retry` when memory is short, `Corrupt` when a batch cannot be read, the failure of a log
    /// that was deleted, else the disk's.
    pub async fn offset_for_timestamp(
        &self,
        timestamp_ms: i64,
        up_to: Offset,
    ) -> Result<Option<TimestampedOffset>> {
        timestamps::offset_for_timestamp(&self.shared, timestamp_ms, up_to).await
    }

    /// The first record that carries the largest timestamp of the log (`ListOffsets` -3).
    ///
    /// # Errors
    /// As [`Log::offset_for_timestamp`].
    pub async fn max_timestamp_offset(&self) -> Result<Option<TimestampedOffset>> {
        timestamps::max_timestamp_offset(&self.shared).await
    }

    /// Raises the start of the log to `to`, at most the high watermark; durable when it completes.
    /// Returns the start, which was `to` or later.
    ///
    /// # Errors
    /// `Invalid` when `to` lies outside, else the failure of the log.
    pub async fn delete_records(&self, to: Offset) -> Result<Offset> {
        retain::delete_records(&self.shared, to).await
    }

    /// Removes what retention allows at `now_ms` (wall time) and forgets silent producers; to be
    /// called every few minutes (`log.retention.check.interval.ms`) in the background. Returns the
    /// number of segments removed.
    ///
    /// # Errors
    /// The failure of the log.
    pub async fn apply_retention(&self, now_ms: i64) -> Result<usize> {
        retain::apply_retention(&self.shared, now_ms).await
    }

    /// Deletes the log: appends fail from now on, and when it completes the name of its directory
    /// is free for another log, durably; then only drop the handle. The files go in the background.
    ///
    /// # Errors
    /// The disk's; what is left under a name ending in `-delete` is for [`remove_later`].
    pub async fn delete(&self) -> Result<()> {
        remove::delete(&self.shared).await
    }

    /// A clean stop: refuses appends from now on, makes everything durable and seals it.
    ///
    /// # Errors
    /// The failure of the log or of its disk; what was acknowledged before is safe.
    pub async fn close(&self) -> Result<()> {
        close::close(&self.shared).await
    }

    /// Bytes between two offsets, as near as memory tells without I/O; for `fetch.min.bytes`.
    #[must_use]
    pub fn bytes_between(&self, from: Offset, up_to: Offset) -> usize {
        read::bytes_between(&self.shared, from, up_to)
    }

    /// The largest leader epoch at or below `epoch` and the offset behind its last record.
    #[must_use]
    pub fn epoch_end(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        let state = self.shared.state.borrow();
        state.epochs.end_of(epoch, state.marks.log_end())
    }

    /// The leader epoch of the record at `offset`; `None` when no epoch so early is known.
    #[must_use]
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.shared.state.borrow().epochs.at(offset)
    }

    /// The leader epoch of the newest record; `None` in a log that never had one.
    #[must_use]
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.shared.state.borrow().epochs.latest()
    }

    /// Bytes of batches on disk and in memory, without space prepared ahead (`DescribeLogDirs`).
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.shared.state.borrow().segments.iter().map(|segment| segment.size).sum()
    }

    /// Number of segments, the active one included.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.shared.state.borrow().segments.len()
    }

    /// Obeys other settings from now on. A topic that stops being relaxed is flushed with its next
    /// append.
    ///
    /// # Errors
    /// `Invalid` for settings no log can obey; the old ones stay.
    pub fn set_settings(&self, settings: Settings) -> Result<()> {
        settings.check()?;
        self.shared.state.borrow_mut().settings = Rc::new(settings);
        Ok(())
    }
}

/// Whether a durable-end record is due before anybody sees the opened log: it was Kafka's and is
/// ours from here on, or its start follows from a record that may lie in a cache which a killed
/// process filled.
fn must_record<E: Env>(shared: &Shared<E>) -> bool {
    let mut state = shared.state.borrow_mut();
    state.noted_at_flush = Some(shared.volume.flushes());
    let taken_over = state.checkpoint_sequence == 0 && state.tail.end() > 0;
    let log_start = state.marks.log_start();
    let by_segments = state.segments.front().map(|first| (first.base, first.size > 0));
    let by_record = log_start.0 > 0 && by_segments != Some((log_start, true));
    state.closed.is_none() && (taken_over || by_record)
}
