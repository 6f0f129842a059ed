//! One partition on its owning shard: its log and everyone who waits for it.
//!
//! Owns the order of appends and the queue of unanswered producers. Invariant: producers are
//! answered in offset order, each when `ack_end` has passed its batch, none after the log failed.

use std::{
    cell::{Cell, RefCell},
    collections::{HashSet, VecDeque},
    hash::{BuildHasherDefault, DefaultHasher},
    rc::Rc,
};

use super::{
    Shard,
    failure::Failure,
    join::Slot,
    reads::{Fetched, ReadSpec, Reading},
};
use crate::{
    batch::Accepted,
    io::Env,
    log::{Appended, ColdRead, Log, Marks, Read},
    types::{LeaderEpoch, Offset, ShardId, TopicPartition},
};

/// The answer to a produce of one batch.
pub type Produced = Result<Appended, Failure>;

/// Where the answer to a produce goes.
pub(super) enum ProduceReply {
    /// To a request of this shard.
    Local(Slot<Produced>),
    /// To a request of another shard, by its token.
    Remote(ShardId, u64),
}

/// Fetches that wait for this partition to move, by the shard that they came to and their token
/// there. Each comes and goes once per fetch, so it is found without a look at the others.
type Watchers = HashSet<(ShardId, u64), BuildHasherDefault<DefaultHasher>>;

/// A batch that found no room.
struct Stalled {
    batch: Accepted,
    acks: i8,
    now_ms: i64,
    reply: ProduceReply,
}

pub(super) struct Partition<E: Env> {
    pub(super) id: TopicPartition,
    pub(super) log: Log<E>,
    /// Index of the log directory it lies in.
    pub(super) directory: usize,
    epoch: Cell<LeaderEpoch>,
    unanswered: RefCell<VecDeque<(Offset, Appended, ProduceReply)>>,
    stalled: RefCell<VecDeque<Stalled>>,
    watchers: RefCell<Watchers>,
    notified: Cell<Offset>,
    shard: Shard<E>,
}

impl<E: Env> Partition<E> {
    pub(super) fn new(
        id: TopicPartition,
        log: Log<E>,
        epoch: LeaderEpoch,
        directory: usize,
        shard: Shard<E>,
    ) -> Rc<Self> {
        assert!(directory < shard.inner.directories.len(), "a log lies in a known directory");
        assert_eq!(shard.owner(id), shard.id(), "a partition lives on its owner");
        let partition = Rc::new(Self {
            id,
            log,
            directory,
            epoch: Cell::new(epoch),
            unanswered: RefCell::default(),
            stalled: RefCell::default(),
            watchers: RefCell::default(),
            notified: Cell::default(),
            shard,
        });
        let weak = Rc::downgrade(&partition);
        partition.log.set_on_advance(Box::new(move |marks| {
            if let Some(partition) = weak.upgrade() {
                partition.advanced(marks);
            }
        }));
        partition
    }

    pub(super) fn epoch(&self) -> LeaderEpoch {
        self.epoch.get()
    }

    /// Appends in arrival order; the reply follows when the acks rule holds.
    pub(super) fn produce(&self, batch: Accepted, acks: i8, now_ms: i64, reply: ProduceReply) {
        // A batch that overtook a stalled one would break the producer's order.
        if !self.stalled.borrow().is_empty() {
            self.stalled.borrow_mut().push_back(Stalled { batch, acks, now_ms, reply });
            return;
        }
        self.append(Stalled { batch, acks, now_ms, reply });
    }

    /// Returns whether the batch is dealt with; a stalled one went back to the front of the queue.
    fn append(&self, wanted: Stalled) -> bool {
        match self.log.append(&wanted.batch, self.epoch.get(), wanted.now_ms) {
            Ok(appended) => self.appended(appended, wanted.acks, wanted.reply),
            Err(error) => match Failure::of_append(&error) {
                Some(failure) => self.answer(wanted.reply, Err(failure)),
                None => {
                    self.stalled.borrow_mut().push_front(wanted);
                    self.shard.call_for_room(self.id);
                    return false;
                }
            },
        }
        true
    }

    fn appended(&self, appended: Appended, acks: i8, reply: ProduceReply) {
        let end = appended.last_offset.plus(1);
        assert!(appended.base_offset <= appended.last_offset, "a batch has a record");
        assert!(end <= self.log.marks().log_end(), "what was appended is in the log");
        if acks == 0 || end <= self.log.marks().ack_end() {
            return self.answer(reply, Ok(appended));
        }
        let mut unanswered = self.unanswered.borrow_mut();
        // A duplicate of a batch still in flight has an earlier end than those behind it.
        let at = unanswered.partition_point(|(other, _, _)| *other <= end);
        unanswered.insert(at, (end, appended, reply));
    }

    fn answer(&self, reply: ProduceReply, produced: Produced) {
        match reply {
            ProduceReply::Local(slot) => slot.fulfil(produced),
            ProduceReply::Remote(to, token) => self.shard.post_produced(to, token, &produced),
        }
    }

    fn advanced(&self, marks: &Marks) {
        if let Some(error) = self.log.failure() {
            self.fail_all(error.kind().into());
        }
        loop {
            let mut unanswered = self.unanswered.borrow_mut();
            match unanswered.front() {
                Some((end, _, _)) if *end <= marks.ack_end() => {}
                _ => break,
            }
            let (_, appended, reply) = unanswered.pop_front().expect("the front was there");
            drop(unanswered);
            assert!(appended.last_offset < marks.ack_end(), "an answer follows the acks rule");
            self.answer(reply, Ok(appended));
        }
        // Only readable records are news to a fetch; a failure must reach it as well.
        let readable = marks.high_watermark();
        assert!(readable >= self.notified.get(), "the high watermark never goes back");
        if self.notified.replace(readable) != readable || self.log.failure().is_some() {
            self.notify_watchers();
        }
        self.retry_stalled();
    }

    fn retry_stalled(&self) {
        loop {
            let Some(wanted) = self.stalled.borrow_mut().pop_front() else { return };
            if !self.append(wanted) {
                return;
            }
        }
    }

    fn fail_all(&self, failure: Failure) {
        let unanswered = self.unanswered.take();
        let stalled = self.stalled.take();
        for reply in unanswered
            .into_iter()
            .map(|(_, _, reply)| reply)
            .chain(stalled.into_iter().map(|wanted| wanted.reply))
        {
            self.answer(reply, Err(failure));
        }
    }

    /// Answers everyone who waits: the partition is served here no more.
    pub(super) fn retire(&self) {
        self.fail_all(Failure::NotOwner);
        self.notify_watchers();
    }

    /// Tries batches again that found no room.
    pub(super) fn unstall(&self) {
        self.retry_stalled();
    }

    /// Tells the fetch that `shard` calls `token` of the next move, once.
    pub(super) fn watch(&self, shard: ShardId, token: u64) {
        assert_ne!(token, 0, "a fetch that does not wait has no token");
        self.watchers.borrow_mut().insert((shard, token));
    }

    /// Takes back [`Partition::watch`].
    pub(super) fn unwatch(&self, shard: ShardId, token: u64) {
        self.watchers.borrow_mut().remove(&(shard, token));
    }

    fn notify_watchers(&self) {
        let mut watchers = self.watchers.take();
        for (shard, token) in watchers.drain() {
            if shard == self.shard.id() {
                self.shard.moved(token);
            } else {
                self.shard.post_moved(shard, token);
            }
        }
        // Firing only schedules, so nobody watches yet; the next ones find the memory.
        let mut place = self.watchers.borrow_mut();
        if place.is_empty() {
            *place = watchers;
        }
    }

    /// Reads what is readable now: whole batches, from memory or, for the old part, from disk.
    pub(super) async fn read(&self, read: &ReadSpec) -> Fetched {
        match self.read_memory(read) {
            Reading::Done(fetched) => fetched,
            Reading::Cold(begun, cold) => self.read_disk(read, begun, cold).await,
        }
    }

    /// The part of a read that waits for nothing: all of it, unless the bytes are on disk.
    pub(super) fn read_memory(&self, read: &ReadSpec) -> Reading {
        let mut fetched = self.look(read);
        if fetched.failure.is_some() {
            return Reading::Done(fetched);
        }
        let (from, up_to) = (Offset(read.offset), self.readable_end(read));
        match self.log.read(from, read.max_bytes as usize, up_to) {
            Read::Ready(chain) => {
                assert!(!chain.is_empty(), "a ready read holds a batch at least");
                fetched.records = chain;
            }
            Read::Empty => {}
            Read::OutOfRange => fetched = fetched.failed(Failure::OffsetOutOfRange),
            Read::Cold(cold) => return Reading::Cold(fetched, cold),
        }
        Reading::Done(fetched)
    }

    /// Goes on with a read whose bytes are on disk.
    pub(super) async fn read_disk(
        &self,
        read: &ReadSpec,
        mut begun: Fetched,
        cold: ColdRead,
    ) -> Fetched {
        match self.log.read_cold(cold).await {
            Ok(chain) => begun.records = chain,
            // Retention may have taken the segment between the look-up and the read.
            Err(_) if Offset(read.offset) < self.log.marks().log_start() => {
                return begun.failed(Failure::OffsetOutOfRange);
            }
            Err(error) => return begun.failed(error.kind().into()),
        }
        begun
    }

    /// How much a read could bring, without reading.
    pub(super) fn count(&self, read: &ReadSpec) -> Fetched {
        let mut fetched = self.look(read);
        if fetched.failure.is_none() {
            let bytes = self.log.bytes_between(Offset(read.offset), self.readable_end(read));
            fetched.readable_bytes = bytes.min(read.max_bytes as usize);
        }
        fetched
    }

    /// Offset up to which a reader of this kind may read.
    fn readable_end(&self, read: &ReadSpec) -> Offset {
        let marks = self.log.marks();
        if read.read_committed { marks.last_stable_offset() } else { marks.high_watermark() }
    }

    /// What a read would say of the partition, without reading: for answers that are full.
    pub(super) fn look(&self, read: &ReadSpec) -> Fetched {
        let marks = self.log.marks();
        let fetched = Fetched::empty(&marks);
        if let Err(failure) = self.check_epoch(read.leader_epoch) {
            return fetched.failed(failure);
        }
        let from = Offset(read.offset);
        if from < marks.log_start() || from > marks.log_end() {
            return fetched.failed(Failure::OffsetOutOfRange);
        }
        fetched
    }

    pub(super) fn check_epoch(&self, asked: i32) -> Result<(), Failure> {
        let ours = self.epoch.get().0;
        match asked {
            -1 => Ok(()),
            older if older < ours => Err(Failure::FencedLeaderEpoch),
            newer if newer > ours => Err(Failure::UnknownLeaderEpoch),
            _ => Ok(()),
        }
    }
}
