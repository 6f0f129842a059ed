//! A shard: one pinned core, its partitions, and the mailbox through which other cores reach them.
//!
//! Owns the partition table, the order of appends, who waits for what, and the hop to the owning
//! core. Knows neither Kafka API versions nor error codes nor files. Invariant: a partition is
//! touched by its owning shard alone; no borrow is held across an await. Failure behaviour: a
//! message that does not check out ends the process, since it can only come from this process.

pub mod calls;
mod close;
pub mod failure;
pub mod frame;
mod identity;
mod images;
pub mod join;
mod mailbox;
pub mod message;
mod partition;
mod pending;
pub mod reads;
mod recovered;
mod reopen;
mod settings;
pub mod signal;
mod strays;
#[cfg(test)]
mod tests;
mod upkeep;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeSet, HashMap, VecDeque},
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    path::PathBuf,
    rc::Rc,
    sync::Arc,
};

pub use partition::Produced;
pub use recovered::Recovered;

use partition::{Partition, ProduceReply};

use self::{
    frame::{Frame, Header, PartitionKey, ProducedCode},
    join::Slot,
    message::Message,
    pending::Pending,
    signal::Signal,
};
use crate::{
    batch::Accepted,
    io::{
        Env,
        buf::{Chain, Pool},
        health::DiskHealth,
        mesh::Mesh,
    },
    limits,
    log::Volume,
    meta::Image,
    types::{PartitionIndex, ShardId, TopicId, TopicPartition},
};

/// A handle to the shard of the calling thread; clones are the same shard.
pub struct Shard<E: Env> {
    inner: Rc<Inner<E>>,
}

impl<E: Env> Clone for Shard<E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

/// A directory of `log.dirs` as this shard sees it.
pub struct LogDirectory<E: Env> {
    path: PathBuf,
    disk: E::Disk,
    /// Its flush domain on this shard.
    volume: Volume<E>,
}

impl<E: Env> LogDirectory<E> {
    /// The directory at `path` on `disk`. `health` is shared by all shards: a failed flush on one
    /// fails the disk on all.
    #[must_use]
    pub fn new(env: &E, pool: &Pool, path: PathBuf, disk: E::Disk, health: DiskHealth) -> Self {
        let tail_budget_bytes = pool.budget_bytes() / limits::TAIL_BUDGET_SHARE;
        let volume = Volume::new(env.clone(), disk.clone(), health, tail_budget_bytes);
        Self { path, disk, volume }
    }
}

/// What a shard is made of; see [`Shard::start`].
pub struct Parts<E: Env> {
    /// Which shard this is.
    pub id: ShardId,
    /// How many there are.
    pub count: u16,
    /// The world.
    pub env: E,
    /// The shard's buffers.
    pub pool: Pool,
    /// The queues to and from the other shards.
    pub mesh: Mesh<Message>,
    /// The disks.
    pub directories: Vec<LogDirectory<E>>,
    /// The metadata to start from.
    pub image: Arc<Image>,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
}

/// Counters of one shard since its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Messages sent to other shards: the cost of not being on the owning core.
    pub hops: u64,
    /// What opening its partitions cut or found damaged.
    pub recovered: Recovered,
}

/// A question to another shard, kept until its answer comes.
enum Asked {
    Produce(Slot<Produced>),
    Read(Slot<reads::Fetched>),
    Call(Slot<Result<calls::CallAnswer, failure::Failure>>),
}

struct Inner<E: Env> {
    id: ShardId,
    count: u16,
    env: E,
    pool: Pool,
    mesh: Mesh<Message>,
    directories: Vec<LogDirectory<E>>,
    producer_id_expiration_ms: i64,
    image: RefCell<Arc<Image>>,
    partitions: RefCell<HashMap<TopicPartition, Rc<Partition<E>>>>,
    asked: RefCell<Pending<Asked>>,
    watches: RefCell<HashMap<u64, Rc<Signal>>>,
    last_watch: Cell<u64>,
    /// Answers that found a full queue, per target shard; bounded by the questions outstanding.
    outbox: RefCell<Vec<VecDeque<Message>>>,
    connections: RefCell<VecDeque<message::Arrival>>,
    connection_came: Signal,
    applied: images::Applied,
    unopened: reopen::Unopened,
    stopping: Cell<bool>,
    stop: Signal,
    /// Fired when a batch found no room.
    stalled: Signal,
    /// The partitions whose batches found none; sorted, so that a simulation repeats itself.
    stalled_partitions: RefCell<BTreeSet<TopicPartition>>,
    /// Which shards ask nothing any more.
    drained: RefCell<Vec<bool>>,
    all_drained: Signal,
    hops: Cell<u64>,
    recovered: Cell<Recovered>,
}

impl<E: Env> Shard<E> {
    /// Which shard this is.
    #[must_use]
    pub fn id(&self) -> ShardId {
        self.inner.id
    }

    /// How many shards there are.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.inner.count
    }

    /// The world of this shard.
    #[must_use]
    pub fn env(&self) -> &E {
        &self.inner.env
    }

    /// The shard's buffers.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.inner.pool
    }

    /// The newest metadata this shard has applied.
    #[must_use]
    pub fn image(&self) -> Arc<Image> {
        self.inner.image.borrow().clone()
    }

    /// What this shard has counted so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters { hops: self.inner.hops.get(), recovered: self.inner.recovered.get() }
    }

    /// The shard that owns `partition`. Consecutive partitions of a topic go to consecutive
    /// shards, so that one busy topic uses every core; topics start at different ones.
    #[must_use]
    pub fn owner(&self, partition: TopicPartition) -> ShardId {
        placement(partition, self.inner.count)
    }

    /// A partition's name for the operator, which is its directory's.
    fn name_of(&self, partition: TopicPartition) -> String {
        let index = partition.partition.0;
        match self.image().topic_by_id(partition.topic) {
            Some(topic) => format!("{}-{index}", topic.name),
            None => format!("partition {index} of the deleted topic {}", partition.topic),
        }
    }

    fn find(&self, partition: TopicPartition) -> Option<Rc<Partition<E>>> {
        self.inner.partitions.borrow().get(&partition).cloned()
    }

    /// Why this shard does not serve a partition that it was asked for as the owner.
    fn absence(&self, partition: TopicPartition) -> failure::Failure {
        let known = self.inner.unopened.failure(partition);
        known.unwrap_or(failure::Failure::NotOwner)
    }

    /// Appends a checked batch on the owning shard. Completes when the batch has its place in the
    /// partition's order (appended here, or queued to its owner); the slot is fulfilled when the
    /// acks rule holds: for acks 0 at the append, else when the batch is below `ack_end`.
    pub async fn produce(
        &self,
        partition: TopicPartition,
        batch: Accepted,
        acks: i8,
        now_ms: i64,
        slot: Slot<Produced>,
    ) {
        let owner = self.owner(partition);
        if owner == self.id() {
            match self.find(partition) {
                Some(found) => found.produce(batch, acks, now_ms, ProduceReply::Local(slot)),
                None => slot.fulfil(Err(self.absence(partition))),
            }
            return;
        }
        let token = self.inner.asked.borrow_mut().insert(Asked::Produce(slot));
        let partition = key_of(partition);
        let header =
            Header::Produce { token, partition, acks, now_ms, batch: batch.header.encode() };
        self.ask(owner, token, &header, batch.payload).await;
    }

    /// Sends the question of `token`, waiting for room in the queue. One that does not leave, as
    /// the asker went away or the other shard has ended, is forgotten: its slot counts as dropped.
    async fn ask(&self, to: ShardId, token: u64, header: &Header, payload: Chain) {
        let message = self.data(header, payload);
        let mut unsent = Unsent { shard: self, token: Some(token) };
        match self.inner.mesh.send(to, message).await {
            Ok(()) => unsent.token = None,
            // The process is stopping, and this shard ends as well.
            Err(_) => self.begin_stop(),
        }
    }

    /// Sends an answer without waiting: what finds no room goes out as soon as there is some.
    fn post(&self, to: ShardId, header: &Header, payload: Chain) {
        let message = self.data(header, payload);
        self.post_message(to, message);
    }

    fn data(&self, header: &Header, payload: Chain) -> Message {
        self.inner.hops.set(self.inner.hops.get() + 1);
        Message::Data { from: self.id(), frame: Frame::encode(header), payload }
    }

    fn post_produced(&self, to: ShardId, token: u64, produced: &Produced) {
        let mut result =
            ProducedCode { failure: failure::Failure::code_of(produced), ..Default::default() };
        if let Ok(appended) = produced {
            result.base_offset = appended.base_offset.0;
            result.last_offset = appended.last_offset.0;
            result.log_append_time_ms = appended.log_append_time_ms;
            result.log_start = appended.log_start.0;
            result.duplicate = appended.duplicate;
        }
        self.post(to, &Header::Produced { token, result }, Chain::new());
    }

    fn post_moved(&self, to: ShardId, watch: u64) {
        self.post(to, &Header::Moved { watch }, Chain::new());
    }

    /// `partition` has batches that wait for room.
    fn call_for_room(&self, partition: TopicPartition) {
        self.inner.stalled_partitions.borrow_mut().insert(partition);
        self.inner.stalled.fire();
    }

    fn next_watch(&self) -> u64 {
        let watch = self.inner.last_watch.get() + 1;
        self.inner.last_watch.set(watch);
        assert_ne!(watch, 0, "zero stands for no watch");
        watch
    }
}

/// A question on its way into the queue, forgotten when it goes with its token.
struct Unsent<'a, E: Env> {
    shard: &'a Shard<E>,
    token: Option<u64>,
}

impl<E: Env> Drop for Unsent<'_, E> {
    fn drop(&mut self) {
        if let Some(token) = self.token {
            let forgotten = self.shard.inner.asked.borrow_mut().take(token);
            drop(forgotten);
        }
    }
}

fn placement(partition: TopicPartition, count: u16) -> ShardId {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(partition.topic.0);
    let index = u64::from(partition.partition.0.unsigned_abs());
    assert!(count > 0, "there is a shard");
    let shard = (hash % u64::from(count) + index) % u64::from(count);
    ShardId(u16::try_from(shard).expect("a shard number is below the count"))
}

fn key_of(partition: TopicPartition) -> PartitionKey {
    PartitionKey { topic: partition.topic.0, partition: partition.partition.0 }
}

fn partition_of(key: PartitionKey) -> TopicPartition {
    TopicPartition { topic: TopicId(key.topic), partition: PartitionIndex(key.partition) }
}
