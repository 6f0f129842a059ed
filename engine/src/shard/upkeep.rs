//! A shard's life: start, the regular work beside the data path, and the orderly end.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    time::Duration,
};

use super::{Inner, Parts, Shard, frame::Header, images::Applied, signal::race};
use crate::{
    io::{Disk, Env, buf::Chain},
    limits,
    log::{is_deleted_name, remove_later},
    types::ShardId,
};

impl<E: Env> Shard<E> {
    /// Opens every partition that this shard owns and starts to take messages. Those that cannot
    /// be opened are reported in one line and tried again, as they are later on.
    pub async fn start(parts: Parts<E>) -> Self {
        let image = parts.image.clone();
        let count = parts.count;
        assert!(parts.id.0 < count, "a shard is one of those there are");
        assert!(!parts.directories.is_empty(), "there is a disk");
        let inner = Inner {
            id: parts.id,
            count,
            env: parts.env,
            pool: parts.pool,
            mesh: parts.mesh,
            directories: parts.directories,
            producer_id_expiration_ms: parts.producer_id_expiration_ms,
            image: RefCell::new(parts.image),
            partitions: RefCell::default(),
            asked: RefCell::default(),
            watches: RefCell::default(),
            last_watch: Cell::new(0),
            outbox: RefCell::new((0..count).map(|_| VecDeque::new()).collect()),
            connections: RefCell::default(),
            connection_came: super::Signal::default(),
            applied: Applied::new(count),
            unopened: super::reopen::Unopened::default(),
            stopping: Cell::new(false),
            stop: super::Signal::default(),
            stalled: super::Signal::default(),
            stalled_partitions: RefCell::default(),
            drained: RefCell::new(vec![false; usize::from(count)]),
            all_drained: super::Signal::default(),
            hops: Cell::new(0),
            recovered: Cell::default(),
        };
        let shard = Self { inner: Rc::new(inner) };
        if let Err(error) = shard.apply(image).await {
            shard.report_unopened(&error);
        }
        if shard.id() == ShardId(0) {
            shard.clear_directories().await;
        }
        shard.inner.env.spawn(shard.clone().run_mailbox());
        shard.inner.env.spawn(shard.clone().run_unstall());
        shard.reopen_later();
        shard
    }

    /// Removes in the background what an earlier process had renamed for deletion and left, and
    /// sets strays aside. Looked for before the first client, so that no deletion of this process
    /// is met half-way.
    async fn clear_directories(&self) {
        for (at, directory) in self.inner.directories.iter().enumerate() {
            let names = directory.disk.list(&directory.path).await.unwrap_or_default();
            for name in names.iter().filter(|name| is_deleted_name(name)) {
                remove_later(&self.inner.env, &directory.disk, directory.path.join(name));
            }
            self.set_strays_aside(at, names).await;
        }
    }

    /// Retention, idle rolls and expiry, every `interval`, one partition at a time.
    pub async fn run_upkeep(self, interval: Duration) {
        while race(self.stopped(), self.inner.env.sleep(interval)).await.is_none() {
            let partitions: Vec<_> = self.inner.partitions.borrow().values().cloned().collect();
            for partition in partitions {
                if self.is_stopping() {
                    return;
                }
                let now_ms = self.inner.env.wall_ms();
                if let Err(error) = partition.log.apply_retention(now_ms).await {
                    eprintln!("millrace: retention of {}: {error}", self.name_of(partition.id));
                }
                self.inner.env.yield_now().await;
            }
            self.inner.pool.trim(limits::BUFFERS_KEPT_PER_CLASS);
        }
    }

    /// Batches that found no memory are tried again until they find some: memory comes back with
    /// the flushes and reads of any partition, so a short timer is the simplest fair signal.
    async fn run_unstall(self) {
        loop {
            self.inner.stalled.wait().await;
            self.inner.stalled.rearm();
            self.inner.env.sleep(Duration::from_millis(1)).await;
            // Who finds no room again puts itself on the next list.
            for id in self.inner.stalled_partitions.take() {
                let partition = self.inner.partitions.borrow().get(&id).cloned();
                if let Some(partition) = partition {
                    partition.unstall();
                }
            }
        }
    }

    /// Tells the other shards that this one asks nothing any more, and completes when all have
    /// said so.
    pub async fn drained_everywhere(&self) {
        self.other_drained(self.id());
        for other in (0..self.count()).map(ShardId).filter(|other| *other != self.id()) {
            self.post(other, &Header::Drained { shard: self.id().0 }, Chain::new());
        }
        self.inner.all_drained.wait().await;
    }

    pub(super) fn other_drained(&self, shard: ShardId) {
        let mut drained = self.inner.drained.borrow_mut();
        drained[usize::from(shard.0)] = true;
        if drained.iter().all(|drained| *drained) {
            self.inner.all_drained.fire();
        }
    }
}
