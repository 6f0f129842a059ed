//! Following the metadata image: which logs this shard opens, changes and gives up.
//!
//! Images are applied one at a time, in order, and told to the other shards when applied, so that
//! a created topic is answered only when every owner serves it.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    sync::Arc,
};

use super::{Shard, frame::Header, partition::Partition, settings, signal::Signal};
use crate::{
    error::{Error, Result},
    io::{Disk, Env, buf::Chain},
    log::{Log, Settings},
    meta::{Image, Topic},
    types::{PartitionIndex, ShardId, TopicPartition, uuid_text},
};

/// How far each shard has come, and the images that wait.
pub(super) struct Applied {
    versions: RefCell<Vec<u64>>,
    progress: RefCell<Vec<Rc<Signal>>>,
    queue: RefCell<VecDeque<Arc<Image>>>,
    running: Cell<bool>,
}

impl Applied {
    pub(super) fn new(shards: u16) -> Self {
        Self {
            versions: RefCell::new(vec![0; usize::from(shards)]),
            progress: RefCell::default(),
            queue: RefCell::default(),
            running: Cell::new(false),
        }
    }

    fn set(&self, shard: ShardId, version: u64) {
        let mut versions = self.versions.borrow_mut();
        let known = &mut versions[usize::from(shard.0)];
        *known = version.max(*known);
        drop(versions);
        for signal in self.progress.take() {
            signal.fire();
        }
    }

    fn everywhere(&self) -> u64 {
        self.versions.borrow().iter().copied().min().unwrap_or(0)
    }
}

impl<E: Env> Shard<E> {
    /// Completes when every shard has applied the image of `version` or a newer one.
    pub async fn applied_everywhere(&self, version: u64) {
        while self.inner.applied.everywhere() < version {
            let signal = Rc::<Signal>::default();
            self.inner.applied.progress.borrow_mut().push(signal.clone());
            signal.wait().await;
        }
    }

    pub(super) fn other_applied(&self, shard: ShardId, version: u64) {
        self.inner.applied.set(shard, version);
    }

    pub(super) fn queue_image(&self, image: Arc<Image>) {
        self.inner.applied.queue.borrow_mut().push_back(image);
        if self.inner.applied.running.replace(true) {
            return;
        }
        let shard = self.clone();
        self.inner.env.spawn(async move { shard.apply_queued().await });
    }

    async fn apply_queued(&self) {
        loop {
            let next = self.inner.applied.queue.borrow_mut().pop_front();
            let Some(image) = next else { break };
            if let Err(error) = self.apply(image).await {
                // The topic exists but cannot be served: its partitions answer as unavailable.
                eprintln!("millrace: a partition could not be opened: {error}");
            }
        }
        self.inner.applied.running.set(false);
    }

    /// Brings the partition table in line with `image`.
    pub(super) async fn apply(&self, image: Arc<Image>) -> Result<()> {
        let before = self.inner.image.replace(image.clone());
        assert!(image.version() >= before.version(), "images are applied in their order");
        let mut outcome = Ok(());
        for gone in before.topics().filter(|topic| image.topic_by_id(topic.id).is_none()) {
            self.retire(gone).await;
        }
        for topic in image.topics() {
            let known = before.topic_by_id(topic.id);
            let same = known.is_some_and(|known| Arc::ptr_eq(known, topic));
            if !same || before.version() == image.version() {
                outcome = outcome.and(self.serve(topic).await);
            }
        }
        self.tell_applied(image.version());
        outcome
    }

    fn tell_applied(&self, version: u64) {
        self.inner.applied.set(self.id(), version);
        for other in (0..self.count()).map(ShardId).filter(|other| *other != self.id()) {
            let header = Header::Applied { shard: self.id().0, version };
            self.post(other, &header, Chain::new());
        }
    }

    fn owned<'a>(&'a self, topic: &'a Topic) -> impl Iterator<Item = TopicPartition> + 'a {
        let indexes = 0..i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
        indexes
            .map(|index| TopicPartition { topic: topic.id, partition: PartitionIndex(index) })
            .filter(|partition| self.owner(*partition) == self.id())
    }

    async fn retire(&self, topic: &Topic) {
        for partition in self.owned(topic) {
            let found = self.inner.partitions.borrow_mut().remove(&partition);
            let Some(found) = found else { continue };
            found.retire();
            if let Err(error) = found.log.delete().await {
                eprintln!("millrace: files of a deleted partition stay behind: {error}");
            }
        }
    }

    /// Opens what is not open yet and passes on the settings in force.
    async fn serve(&self, topic: &Topic) -> Result<()> {
        let mut outcome = Ok(());
        let owned: Vec<_> = self.owned(topic).collect();
        for partition in owned {
            if let Some(found) = self.find(partition) {
                outcome = outcome.and(found.log.set_settings(self.settings_of(topic)));
                continue;
            }
            outcome = outcome.and(self.open(topic, partition).await);
        }
        outcome
    }

    fn settings_of(&self, topic: &Topic) -> Settings {
        settings::of_topic(&topic.config, self.inner.producer_id_expiration_ms)
    }

    async fn open(&self, topic: &Topic, partition: TopicPartition) -> Result<()> {
        let name = format!("{}-{}", topic.name, partition.partition.0);
        let at = self.directory_of(&name, topic).await?;
        let directory = &self.inner.directories[at];
        let (log, report) = Log::open(
            self.inner.env.clone(),
            directory.volume.clone(),
            self.inner.pool.clone(),
            directory.path.join(&name),
            self.settings_of(topic),
        )
        .await?;
        if report.cut_bytes > 0 {
            let cut = report.cut_bytes;
            eprintln!("millrace: {name}: cut {cut} bytes of a torn tail, none acknowledged");
        }
        for line in &report.damage {
            eprintln!("millrace: {name}: {line}");
        }
        let index = usize::try_from(partition.partition.0).unwrap_or(usize::MAX);
        let epoch = topic.partitions.get(index).map(|state| state.leader_epoch).unwrap_or_default();
        let opened = Partition::new(partition, log, epoch, at, self.clone());
        let other = self.inner.partitions.borrow_mut().insert(partition, opened);
        assert!(other.is_none(), "a partition is opened once");
        Ok(())
    }

    /// The log directory that holds `name` already, or the one with the fewest partitions.
    async fn directory_of(&self, name: &str, topic: &Topic) -> Result<usize> {
        let identity = format!("version: 0\ntopic_id: {}\n", uuid_text(&topic.id.0));
        for (at, directory) in self.inner.directories.iter().enumerate() {
            let path = directory.path.join(name);
            if directory.disk.list(&path).await.is_err() {
                continue;
            }
            let metadata = path.join("partition.metadata");
            match directory.disk.read_file(&metadata, 4096).await {
                Ok(found) if found != identity.as_bytes() => {
                    let aside = directory.path.join(format!("{name}.{}-stray", topic.id));
                    eprintln!(
                        "millrace: {} belongs to another topic of that name; kept as {}",
                        path.display(),
                        aside.display()
                    );
                    let renamed = directory.disk.rename(&path, &aside).await;
                    renamed.map_err(|e| Error::from_io(&path.display().to_string(), &e))?;
                }
                Ok(_) => return Ok(at),
                Err(_) => return self.identify(at, name, &identity).await,
            }
        }
        self.identify(self.emptiest_directory(), name, &identity).await
    }

    async fn identify(&self, at: usize, name: &str, identity: &str) -> Result<usize> {
        let directory = &self.inner.directories[at];
        let path = directory.path.join(name);
        let failed = |error| Error::from_io(&path.display().to_string(), &error);
        directory.disk.create_dir(&path).await.map_err(failed)?;
        let metadata = path.join("partition.metadata");
        directory.disk.write_file(&metadata, identity.as_bytes()).await.map_err(failed)?;
        Ok(at)
    }

    fn emptiest_directory(&self) -> usize {
        let mut counts = vec![0usize; self.inner.directories.len()];
        for partition in self.inner.partitions.borrow().values() {
            counts[partition.directory] += 1;
        }
        counts.iter().enumerate().min_by_key(|(_, count)| **count).map_or(0, |(at, _)| at)
    }
}
