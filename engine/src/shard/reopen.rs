//! Partitions that could not be opened: a full disk, a missing right, no descriptor left, a damaged
//! `partition.metadata`.
//!
//! They answer as failed, not as unknown, and are tried again, ever more rarely, in turn with the
//! images, until they open or are deleted. An error of the device itself is final as everywhere:
//! what a failed flush was to cover may look durable the next time.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
    time::Duration,
};

use super::{Shard, failure::Failure, images::Work, signal::race};
use crate::{
    error::{Error, Kind, Result},
    io::Env,
    limits::{REOPEN_PAUSE_MAX_MS, REOPEN_PAUSE_MIN_MS, REOPEN_ROUND},
    meta::Topic,
    types::TopicPartition,
};

/// The partitions of one shard that exist and are not open.
pub(super) struct Unopened {
    failures: RefCell<HashMap<TopicPartition, Reason>>,
    /// Those to be tried again; what was forgotten meanwhile is passed over.
    turn: RefCell<VecDeque<TopicPartition>>,
    /// A round is due or queued.
    waiting: Cell<bool>,
    pause_ms: Cell<u64>,
}

/// Why a partition is not open.
#[derive(Clone, Copy)]
struct Reason {
    failure: Failure,
    /// It is not tried again in this process.
    is_final: bool,
}

impl Default for Unopened {
    fn default() -> Self {
        Self {
            failures: RefCell::default(),
            turn: RefCell::default(),
            waiting: Cell::new(false),
            pause_ms: Cell::new(REOPEN_PAUSE_MIN_MS),
        }
    }
}

impl Unopened {
    /// What a question about the partition is answered, if it is one of these.
    pub(super) fn failure(&self, partition: TopicPartition) -> Option<Failure> {
        self.failures.borrow().get(&partition).map(|reason| reason.failure)
    }

    /// Whether an earlier try to open the partition has failed.
    pub(super) fn holds(&self, partition: TopicPartition) -> bool {
        self.failures.borrow().contains_key(&partition)
    }

    /// Whether opening the partition is not to be tried in this process.
    pub(super) fn is_given_up(&self, partition: TopicPartition) -> bool {
        self.failures.borrow().get(&partition).is_some_and(|reason| reason.is_final)
    }

    /// The partition is open or deleted.
    pub(super) fn forget(&self, partition: TopicPartition) {
        self.failures.borrow_mut().remove(&partition);
    }

    /// Returns whether it was noted before.
    fn note(&self, partition: TopicPartition, error: &Error) -> bool {
        let failure = match error.kind() {
            Kind::Full => Failure::Full,
            Kind::Corrupt => Failure::Corrupt,
            _ => Failure::Storage,
        };
        let reason = Reason { failure, is_final: is_final(error) };
        let known = self.failures.borrow_mut().insert(partition, reason);
        if known.is_none() {
            self.turn.borrow_mut().push_back(partition);
        }
        known.is_some()
    }

    /// The next one to try; one whose last error was final is passed over.
    fn next(&self) -> Option<TopicPartition> {
        let mut turn = self.turn.borrow_mut();
        while let Some(partition) = turn.pop_front() {
            if self.holds(partition) && !self.is_given_up(partition) {
                return Some(partition);
            }
        }
        None
    }

    /// Sets the pause before the next round by what this one brought.
    fn pace(&self, opened: usize) {
        let longer_ms = (self.pause_ms.get() * 2).min(REOPEN_PAUSE_MAX_MS);
        self.pause_ms.set(if opened > 0 { REOPEN_PAUSE_MIN_MS } else { longer_ms });
    }
}

/// Whether the device itself failed.
fn is_final(error: &Error) -> bool {
    error.os_code() == Some(libc::EIO)
}

impl<E: Env> Shard<E> {
    /// Opens a partition, or notes that it could not be opened.
    pub(super) async fn open_or_note(
        &self,
        topic: &Topic,
        partition: TopicPartition,
    ) -> Result<()> {
        let opened = self.open(topic, partition).await;
        match &opened {
            Ok(()) => self.inner.unopened.forget(partition),
            Err(error) => {
                let noted_before = self.inner.unopened.note(partition, error);
                if error.kind() == Kind::Corrupt && !noted_before {
                    let name = format!("{}-{}", topic.name, partition.partition.0);
                    eprintln!("millrace: {name} is not served: {error}");
                    let mut recovered = self.inner.recovered.get();
                    recovered.damaged_partitions += 1;
                    self.inner.recovered.set(recovered);
                }
            }
        }
        opened
    }

    /// Tells the operator, once for all partitions of an image.
    pub(super) fn report_unopened(&self, error: &Error) {
        let count = self.inner.unopened.failures.borrow().len();
        let (plural, next) = match (count, is_final(error)) {
            (1, false) => ("", "tried again until it opens"),
            (1, true) => ("", "not tried again before a restart"),
            (_, false) => ("s", "tried again until they open"),
            (_, true) => ("s", "not tried again before a restart"),
        };
        eprintln!("millrace: {error}; {count} partition{plural} not served, {next}");
    }

    /// Has the partitions that could not be opened tried again after a pause.
    pub(super) fn reopen_later(&self) {
        let unopened = &self.inner.unopened;
        if unopened.turn.borrow().is_empty() || unopened.waiting.replace(true) {
            return;
        }
        let (shard, pause) = (self.clone(), Duration::from_millis(unopened.pause_ms.get()));
        self.inner.env.spawn_background(async move {
            if race(shard.stopped(), shard.inner.env.sleep(pause)).await.is_none() {
                shard.queue_work(Work::Reopen);
            }
        });
    }

    /// One round: tries each partition once, as many as a round may.
    pub(super) async fn reopen(&self) {
        let unopened = &self.inner.unopened;
        unopened.waiting.set(false);
        let image = self.image();
        let (mut opened, mut failed) = (0, Vec::new());
        for _ in 0..REOPEN_ROUND {
            let Some(partition) = unopened.next() else { break };
            let Some(topic) = image.topic_by_id(partition.topic) else { continue };
            match self.open_or_note(topic, partition).await {
                Ok(()) => opened += 1,
                Err(error) if is_final(&error) => self.report_unopened(&error),
                Err(_) => failed.push(partition),
            }
        }
        unopened.turn.borrow_mut().extend(failed);
        unopened.pace(opened);
        if opened > 0 && unopened.failures.borrow().is_empty() {
            eprintln!("millrace: every partition that could not be opened is served now");
        }
    }
}
