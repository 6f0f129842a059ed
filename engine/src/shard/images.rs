//! Following the metadata image: which logs this shard opens, changes and gives up.
//!
//! Images are applied one at a time, in order, and told to the other shards when applied, so that
//! a created topic is answered only when every owner serves it. Deletions of an image come before
//! its creations, on all shards: a name's directory goes from one topic to the next.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    sync::Arc,
};

use super::{
    Recovered, Shard,
    frame::Header,
    identity::{self, Found},
    partition::Partition,
    settings,
    signal::Signal,
};
use crate::{
    error::{Error, Kind, Result},
    io::{Disk, Env, buf::Chain},
    log::{Log, Settings, delete_directory},
    meta::{Image, Topic},
    types::{PartitionIndex, ShardId, TopicPartition},
};

/// Image versions by shard, and who waits for the lowest of them to rise.
struct Progress {
    versions: RefCell<Vec<u64>>,
    waiting: RefCell<Vec<Rc<Signal>>>,
}

/// What changes the partition table; one at a time.
pub(super) enum Work {
    /// The metadata changed.
    Image(Arc<Image>),
    /// Partitions that could not be opened are to be tried again.
    Reopen,
}

/// How far each shard has come, and the images that wait.
pub(super) struct Applied {
    /// Deletions carried out.
    retired: Progress,
    /// All carried out.
    served: Progress,
    queue: RefCell<VecDeque<Work>>,
    running: Cell<bool>,
}

impl Applied {
    pub(super) fn new(shards: u16) -> Self {
        Self {
            retired: Progress::new(shards),
            served: Progress::new(shards),
            queue: RefCell::default(),
            running: Cell::new(false),
        }
    }
}

impl Progress {
    fn new(shards: u16) -> Self {
        let versions = RefCell::new(vec![0; usize::from(shards)]);
        Self { versions, waiting: RefCell::default() }
    }

    fn set(&self, shard: ShardId, version: u64) {
        let mut versions = self.versions.borrow_mut();
        let known = &mut versions[usize::from(shard.0)];
        *known = version.max(*known);
        drop(versions);
        for signal in self.waiting.take() {
            signal.fire();
        }
    }

    fn of(&self, shard: ShardId) -> u64 {
        self.versions.borrow()[usize::from(shard.0)]
    }

    /// Completes when no shard is behind `version`.
    async fn everywhere(&self, version: u64) {
        while self.versions.borrow().iter().any(|reached| *reached < version) {
            let signal = Rc::<Signal>::default();
            self.waiting.borrow_mut().push(signal.clone());
            signal.wait().await;
        }
    }
}

impl<E: Env> Shard<E> {
    /// Completes when every shard has applied the image of `version` or a newer one.
    pub async fn applied_everywhere(&self, version: u64) {
        self.inner.applied.served.everywhere(version).await;
    }

    pub(super) fn other_retired(&self, shard: ShardId, version: u64) {
        self.inner.applied.retired.set(shard, version);
    }

    pub(super) fn other_applied(&self, shard: ShardId, version: u64) {
        self.inner.applied.served.set(shard, version);
    }

    pub(super) fn queue_work(&self, work: Work) {
        self.inner.applied.queue.borrow_mut().push_back(work);
        if self.inner.applied.running.replace(true) {
            return;
        }
        let shard = self.clone();
        self.inner.env.spawn(async move { shard.apply_queued().await });
    }

    async fn apply_queued(&self) {
        loop {
            let next = self.inner.applied.queue.borrow_mut().pop_front();
            match next {
                None => break,
                Some(Work::Reopen) => self.reopen().await,
                Some(Work::Image(image)) => {
                    if let Err(error) = self.apply(image).await {
                        self.report_unopened(&error);
                    }
                }
            }
            self.reopen_later();
        }
        self.inner.applied.running.set(false);
    }

    /// Brings the partition table in line with `image`. The first partition that could not be
    /// opened is the error, unless it is damaged; all are noted, and the others are served.
    pub(super) async fn apply(&self, image: Arc<Image>) -> Result<()> {
        let before = self.inner.image.replace(image.clone());
        assert!(image.version() >= before.version(), "images are applied in their order");
        let mut outcome = Ok(());
        for gone in before.topics().filter(|topic| image.topic_by_id(topic.id).is_none()) {
            self.retire(gone).await;
        }
        let version = image.version();
        self.inner.applied.retired.set(self.id(), version);
        self.tell(&Header::Retired { shard: self.id().0, version });
        let is_new = |topic: &&Arc<Topic>| {
            let known = before.topic_by_id(topic.id);
            let same = known.is_some_and(|known| Arc::ptr_eq(known, topic));
            !same || before.version() == image.version()
        };
        let changed: Vec<_> = image.topics().filter(is_new).collect();
        if !changed.is_empty() {
            self.wait_for_retirement().await;
        }
        for topic in changed {
            outcome = outcome.and(self.serve(topic).await);
        }
        self.inner.applied.served.set(self.id(), version);
        self.tell(&Header::Applied { shard: self.id().0, version });
        outcome
    }

    /// Tells all other shards.
    fn tell(&self, header: &Header) {
        for other in (0..self.count()).map(ShardId).filter(|other| *other != self.id()) {
            self.post(other, header, Chain::new());
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
            let Some(found) = found else {
                self.give_up_unopened(topic, partition).await;
                continue;
            };
            found.retire();
            if let Err(error) = found.log.delete().await {
                eprintln!("millrace: files of a deleted partition stay behind: {error}");
            }
        }
    }

    /// Deletes what the tries to open a partition have left: nothing was ever stored in it.
    async fn give_up_unopened(&self, topic: &Topic, partition: TopicPartition) {
        if !self.inner.unopened.holds(partition) {
            return;
        }
        self.inner.unopened.forget(partition);
        let name = format!("{}-{}", topic.name, partition.partition.0);
        for directory in &self.inner.directories {
            let path = directory.path.join(&name);
            let found = identity::find(&directory.disk, &path).await;
            if !matches!(found, Ok(Found::Marked(found)) if found == topic.id) {
                continue;
            }
            if let Err(error) = delete_directory(&self.inner.env, &directory.disk, &path).await {
                eprintln!("millrace: {} stays behind: {error}", path.display());
            }
        }
    }

    /// Opens what is not open yet and passes on the settings in force.
    async fn serve(&self, topic: &Topic) -> Result<()> {
        let mut outcome = Ok(());
        let owned: Vec<_> = self.owned(topic).collect();
        for partition in owned {
            if let Some(found) = self.find(partition) {
                if let Err(error) = found.log.set_settings(self.settings_of(topic)) {
                    eprintln!(
                        "millrace: settings of {}-{}: {error}",
                        topic.name, partition.partition.0
                    );
                }
                continue;
            }
            if self.inner.unopened.is_given_up(partition) {
                continue;
            }
            match self.open_or_note(topic, partition).await {
                // Reported, and no fault of the disk: the others are served.
                Err(error) if error.kind() == Kind::Corrupt => {}
                opened => outcome = outcome.and(opened),
            }
        }
        outcome
    }

    fn settings_of(&self, topic: &Topic) -> Settings {
        settings::of_topic(&topic.config, self.inner.producer_id_expiration_ms)
    }

    /// Opens a partition's log, made if absent, and serves it from then on.
    pub(super) async fn open(&self, topic: &Topic, partition: TopicPartition) -> Result<()> {
        let name = format!("{}-{}", topic.name, partition.partition.0);
        let at = self.directory_of(&name, topic).await?;
        let directory = &self.inner.directories[at];
        if self.inner.unopened.holds(partition) {
            self.sync_names(at, &name).await?;
        }
        let (log, report) = Log::open(
            self.inner.env.clone(),
            directory.volume.clone(),
            self.inner.pool.clone(),
            directory.path.join(&name),
            self.settings_of(topic),
        )
        .await?;
        let mut recovered = self.inner.recovered.get();
        recovered += Recovered::of(&report);
        self.inner.recovered.set(recovered);
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
        for (at, directory) in self.inner.directories.iter().enumerate() {
            let path = directory.path.join(name);
            match identity::find(&directory.disk, &path).await? {
                Found::Nothing => {}
                Found::Unmarked => return self.identify(at, name, topic).await,
                Found::Marked(found) if identity::is_same(&path, found, topic.id)? => {
                    return Ok(at);
                }
                Found::Marked(found) => self.set_aside(at, name, found).await?,
            }
        }
        match self.take_back(name, topic.id).await? {
            Some(at) => Ok(at),
            None => self.identify(self.emptiest_directory(), name, topic).await,
        }
    }

    /// Completes when all shards have carried out the deletions of the image being applied, and all
    /// of the images before it. The owner of a deleted topic's directory finds it by its name: were
    /// a new topic's in that place by then, it would go instead.
    async fn wait_for_retirement(&self) {
        let applied = &self.inner.applied;
        // At a start no log is open that could be deleted, and nobody takes messages yet.
        if applied.served.of(self.id()) > 0 {
            applied.retired.everywhere(applied.retired.of(self.id())).await;
        }
    }

    /// An earlier try may have left names that no directory sync covered; they would be taken for
    /// durable now that they are found.
    async fn sync_names(&self, at: usize, name: &str) -> Result<()> {
        let directory = &self.inner.directories[at];
        for path in [&directory.path, &directory.path.join(name)] {
            let synced = directory.disk.sync_dir(path).await;
            synced.map_err(|error| Error::from_io(&path.display().to_string(), &error))?;
        }
        Ok(())
    }

    async fn identify(&self, at: usize, name: &str, topic: &Topic) -> Result<usize> {
        let directory = &self.inner.directories[at];
        let path = directory.path.join(name);
        let failed = |error| Error::from_io(&path.display().to_string(), &error);
        directory.disk.create_dir(&path).await.map_err(failed)?;
        let (file, text) = (identity::path_in(&path), identity::text_of(topic.id));
        directory.disk.write_file(&file, text.as_bytes()).await.map_err(failed)?;
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
