//! One disk as one shard sees it: the flush that all its logs share, its failure, and the care for
//! quiet logs.
//!
//! At most one flush is in flight. It covers what each log had *written and seen completed* before
//! the flush was submitted, nothing else: a write still in flight belongs to the next group. Where
//! the disk's flush does not cover all files, each file is synced by itself.
//!
//! Failure: a failed flush is final for every log of the volume and, through [`DiskHealth`], of the
//! other shards' volumes on the disk. Nothing is flushed twice.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::{Rc, Weak},
    time::Duration,
};

use smallvec::SmallVec;

use super::{
    cache::{Cache, Cached},
    care,
    event::Event,
    gate::Gate,
    planted::{Bug, is_planted},
    read_ahead::ReadAhead,
    seal,
    segment::Phase,
    state::{FileOf, Shared},
};
use crate::{
    io::{Disk, DiskFile, Env, FlushScope, health::DiskHealth},
    limits::CARE_INTERVAL_MS,
    types::Offset,
};

/// Logs that one flush covers; a few lie in place.
type Group<E> = SmallVec<[Rc<Shared<E>>; 4]>;

/// The flush domain of one disk on one shard; cheap to clone.
pub struct Volume<E: Env> {
    inner: Rc<Inner<E>>,
}

impl<E: Env> Clone for Volume<E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

struct Inner<E: Env> {
    env: E,
    disk: E::Disk,
    health: DiskHealth,
    tail_budget_bytes: usize,
    gate: Gate,
    read_ahead: ReadAhead<E>,
    state: RefCell<State<E>>,
}

/// Logs are held weakly: each holds its volume.
struct State<E: Env> {
    /// Logs with completed writes that no flush covers yet.
    dirty: Vec<Weak<Shared<E>>>,
    flushing: bool,
    members: Vec<Weak<Shared<E>>>,
    /// Full tail chunks over all logs, oldest first, with their size.
    chunks: VecDeque<(Weak<Shared<E>>, usize)>,
    chunk_bytes: usize,
    cache: Cache<E>,
    /// Logs with something to do once they are quiet.
    cared_for: Vec<Weak<Shared<E>>>,
    caring: bool,
    flushes: u64,
}

impl<E: Env> Volume<E> {
    /// The volume of `disk` on this shard. `tail_budget_bytes` bounds the memory that written tail
    /// chunks hold for readers; `health` is shared by all shards' volumes of the disk.
    pub fn new(env: E, disk: E::Disk, health: DiskHealth, tail_budget_bytes: usize) -> Self {
        let state = State {
            dirty: Vec::new(),
            flushing: false,
            members: Vec::new(),
            chunks: VecDeque::new(),
            chunk_bytes: 0,
            cache: Cache::new(),
            cared_for: Vec::new(),
            caring: false,
            flushes: 0,
        };
        let state = RefCell::new(state);
        let inner = Inner {
            env,
            disk,
            health,
            tail_budget_bytes,
            gate: Gate::default(),
            read_ahead: ReadAhead::new(tail_budget_bytes),
            state,
        };
        Self { inner: Rc::new(inner) }
    }

    /// The disk.
    #[must_use]
    pub fn disk(&self) -> &E::Disk {
        &self.inner.disk
    }

    /// The disk's sticky failure.
    #[must_use]
    pub fn health(&self) -> &DiskHealth {
        &self.inner.health
    }

    /// What the writes of flushed logs pass through.
    pub(super) fn gate(&self) -> &Gate {
        &self.inner.gate
    }

    /// What is read from the disk ahead of its readers.
    pub(super) fn read_ahead(&self) -> &ReadAhead<E> {
        &self.inner.read_ahead
    }

    /// Device flushes (or file syncs) completed so far, for metrics.
    #[must_use]
    pub fn flushes(&self) -> u64 {
        self.inner.state.borrow().flushes
    }

    pub(super) fn join(&self, shared: &Rc<Shared<E>>) {
        let mut state = self.inner.state.borrow_mut();
        state.members.retain(|member| member.strong_count() > 0);
        state.members.push(Rc::downgrade(shared));
    }

    /// Covers what `shared` has written by the next flush.
    pub(super) fn request_flush(&self, shared: &Rc<Shared<E>>) {
        if std::mem::replace(&mut shared.state.borrow_mut().awaits_flush, true) {
            return;
        }
        let start = {
            let mut state = self.inner.state.borrow_mut();
            state.dirty.push(Rc::downgrade(shared));
            !std::mem::replace(&mut state.flushing, true)
        };
        if start {
            self.inner.env.spawn(flush_groups(self.clone()));
        }
    }

    fn take_group(&self, group: &mut Group<E>) {
        let mut state = self.inner.state.borrow_mut();
        assert!(state.flushing && group.is_empty(), "one group at a time");
        group.extend(state.dirty.drain(..).filter_map(|log| log.upgrade()));
        state.flushing = !group.is_empty();
    }

    /// Fails every log of the volume, and the disk in all shards.
    pub(super) fn fail(&self, reason: &str) {
        self.inner.health.fail(reason);
        let members = self.inner.state.borrow().members.clone();
        let Some(failure) = self.inner.health.failure() else { return };
        for member in members.iter().filter_map(Weak::upgrade) {
            member.fail(failure.clone());
        }
    }

    /// Takes note of memory that a log's tail took, and gives back the oldest beyond the budget.
    pub(super) fn note_tail(&self, shared: &Rc<Shared<E>>, bytes: usize) {
        self.push_chunk(shared, bytes);
        let budget = self.inner.tail_budget_bytes;
        self.evict_while(|noted, _freed| noted > budget);
    }

    /// Gives back at least `bytes`, as far as there are any: what is read ahead, then written tail
    /// chunks, oldest first.
    pub(super) fn evict(&self, bytes: usize) {
        let ahead = self.inner.read_ahead.give_back();
        self.evict_while(|_noted, freed| ahead + freed < bytes);
    }

    /// Looks at each chunk at most once, while `wanted` says so of the bytes noted and freed.
    fn evict_while(&self, wanted: impl Fn(usize, usize) -> bool) {
        let mut freed = 0;
        let candidates = self.inner.state.borrow().chunks.len();
        for _ in 0..candidates {
            if !wanted(self.inner.state.borrow().chunk_bytes, freed) {
                return;
            }
            let Some((log, chunk_bytes)) = self.pop_chunk() else { return };
            let Some(log) = log.upgrade() else { continue };
            let (given_back, held) = give_back(&log);
            freed += given_back;
            if given_back == 0 && held >= chunk_bytes {
                self.push_chunk(&log, chunk_bytes);
            }
        }
    }

    fn pop_chunk(&self) -> Option<(Weak<Shared<E>>, usize)> {
        let mut state = self.inner.state.borrow_mut();
        let chunk = state.chunks.pop_front()?;
        state.chunk_bytes -= chunk.1;
        Some(chunk)
    }

    fn push_chunk(&self, log: &Rc<Shared<E>>, bytes: usize) {
        let mut state = self.inner.state.borrow_mut();
        state.chunks.push_back((Rc::downgrade(log), bytes));
        state.chunk_bytes += bytes;
    }

    /// Takes note of something cached for a sealed segment; drops the oldest beyond the bounds.
    pub(super) fn note_cached(&self, shared: &Rc<Shared<E>>, base: Offset, what: Cached) {
        self.inner.state.borrow_mut().cache.push(Rc::downgrade(shared), base, what);
        loop {
            let surplus = self.inner.state.borrow_mut().cache.pop_surplus();
            let Some((log, base, what)) = surplus else { return };
            let Some(log) = log.upgrade() else { continue };
            let mut state = log.state.borrow_mut();
            let Some(segment) = state.segment(base) else { continue };
            match what {
                Cached::Indexes(_) => segment.cached = None,
                Cached::File if segment.phase == Phase::Sealed => segment.file = None,
                Cached::File => {}
            }
        }
    }

    /// Looks at the log every few seconds until it is quiet and has nothing left to do.
    pub(super) fn care_for(&self, shared: &Rc<Shared<E>>) {
        let start = {
            let mut state = self.inner.state.borrow_mut();
            state.cared_for.push(Rc::downgrade(shared));
            !std::mem::replace(&mut state.caring, true)
        };
        if start {
            self.inner.env.spawn_background(care_rounds(self.clone()));
        }
    }
}

/// Gives back the oldest chunk of a log, or the unused part of its only one; returns the bytes
/// given back and still held. A log whose bytes are not written yet keeps them.
fn give_back<E: Env>(log: &Shared<E>) -> (usize, usize) {
    let mut state = log.state.borrow_mut();
    let written = state.written;
    let held = state.tail.held_bytes();
    if state.tail.front_is_evictable(written) {
        state.tail.evict_front();
    } else if written == state.tail.end() && state.tail.can_shrink() {
        state.tail.shrink(&log.pool, log.env.wall_ms());
    }
    let left = state.tail.held_bytes();
    (held - left, left)
}

async fn flush_groups<E: Env>(volume: Volume<E>) {
    let gate = &volume.inner.gate;
    let clock = || volume.inner.env.monotonic_ns();
    let mut group = Group::new();
    let mut opened_ns = clock();
    loop {
        // Completions reaped in this turn join the group, and writes that waited for the last flush
        // start now.
        volume.inner.env.yield_now().await;
        gate.drain().await;
        volume.take_group(&mut group);
        if group.is_empty() {
            gate.open();
            return;
        }
        gate.flush();
        group.iter().for_each(|log| begin(log));
        flush_group(&volume, &mut group).await;
        let now_ns = clock();
        if let Some(rest) = gate.rest(now_ns - opened_ns, now_ns) {
            volume.inner.env.sleep(rest).await;
        }
        opened_ns = clock();
        gate.open();
    }
}

/// Flushes what the group's logs have written and tells them, or fails them all.
async fn flush_group<E: Env>(volume: &Volume<E>, group: &mut Group<E>) {
    let result = if volume.inner.health.is_failed() {
        Err(std::io::Error::other("the disk has failed before"))
    } else {
        flush(volume, group).await
    };
    // Another shard's failed flush may have taken our writes' only error with it.
    let failed_elsewhere = volume.inner.health.is_failed();
    match result {
        Ok(()) if !failed_elsewhere => {
            volume.inner.state.borrow_mut().flushes += 1;
            group.drain(..).for_each(|log| end(&log));
        }
        Ok(()) => volume.fail("the disk has failed before"),
        Err(error) => volume.fail(&format!(
            "flush of the disk failed: {error}; its partitions refuse writes until a restart"
        )),
    }
    group.clear();
}

async fn flush<E: Env>(volume: &Volume<E>, group: &[Rc<Shared<E>>]) -> std::io::Result<()> {
    if volume.disk().flush_scope() == FlushScope::Disk {
        return volume.disk().flush().await;
    }
    sync_each(&volume.inner.env, group.iter().flat_map(|log| files_to_sync(log))).await
}

/// Syncs all files at once and waits for the last; the first failure counts.
async fn sync_each<E: Env>(
    env: &E,
    files: impl Iterator<Item = Rc<FileOf<E>>>,
) -> std::io::Result<()> {
    struct Syncs {
        left: Cell<usize>,
        failure: RefCell<Option<std::io::Error>>,
        done: Event,
    }
    let syncs =
        Rc::new(Syncs { left: Cell::new(0), failure: RefCell::default(), done: Event::default() });
    for file in files {
        syncs.left.set(syncs.left.get() + 1);
        let syncs = syncs.clone();
        env.spawn(async move {
            if let Err(error) = file.sync().await {
                syncs.failure.borrow_mut().get_or_insert(error);
            }
            syncs.left.set(syncs.left.get() - 1);
            syncs.done.notify();
        });
    }
    syncs.done.wait_for(|| (syncs.left.get() == 0).then_some(())).await;
    syncs.failure.take().map_or(Ok(()), Err)
}

/// Files of a log with writes that are not durable; more than one right after a roll.
fn files_to_sync<E: Env>(log: &Shared<E>) -> Vec<Rc<FileOf<E>>> {
    let state = log.state.borrow();
    let durable_end = state.marks.durable_end();
    let undurable = state.segments.iter().filter(|segment| segment.end > durable_end);
    undurable.filter_map(|segment| segment.file.clone()).collect()
}

/// Notes what the flush about to be submitted will cover.
fn begin<E: Env>(log: &Shared<E>) {
    let mut state = log.state.borrow_mut();
    assert!(state.awaits_flush, "a log is flushed when it asked for it");
    assert!(state.written_end >= state.marks.durable_end(), "durable bytes were written");
    state.awaits_flush = false;
    state.flush_target =
        if is_planted(Bug::CoverUnreaped) { state.submitted_end } else { state.written_end };
}

/// The flush has completed.
fn end<E: Env>(log: &Rc<Shared<E>>) {
    let marks = {
        let mut state = log.state.borrow_mut();
        if state.has_failed() {
            return;
        }
        let target = state.flush_target;
        assert!(target <= state.written_end, "a flush covers what was written, no more");
        state.marks.set_durable(target);
        // Whatever the settings say now: a topic may have been relaxed since the flush was asked
        // for, and what is durable satisfies every rule.
        state.marks.acknowledge(target);
        state.marks
    };
    log.changed.notify();
    log.tell(&marks);
    seal::start(log);
}

async fn care_rounds<E: Env>(volume: Volume<E>) {
    loop {
        volume.inner.env.sleep(Duration::from_millis(CARE_INTERVAL_MS)).await;
        let logs = std::mem::take(&mut volume.inner.state.borrow_mut().cared_for);
        for log in logs.iter().filter_map(Weak::upgrade) {
            if care::look_after(&log).await {
                volume.inner.state.borrow_mut().cared_for.push(Rc::downgrade(&log));
            }
        }
        let mut state = volume.inner.state.borrow_mut();
        if state.cared_for.is_empty() {
            state.caring = false;
            return;
        }
    }
}
