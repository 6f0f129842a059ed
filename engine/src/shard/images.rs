//! Following the metadata image: which logs this shard opens, changes and gives up.
//!
//! Images are applied one at a time, in order, and told to the other shards when applied, so that
//! a created topic is answered only when every owner serves it. Deletions of an image come before
//! its creations, on all shards: a name's directory goes from one topic to the next.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io::ErrorKind,
    path::Path,
    rc::Rc,
    sync::Arc,
};

use super::{Recovered, Shard, frame::Header, partition::Partition, settings, signal::Signal};
use crate::{
    error::{Error, Result},
    io::{Disk, Env, buf::Chain},
    log::{Log, Settings},
    meta::{Image, Topic},
    types::{PartitionIndex, ShardId, TopicPartition, uuid_text},
};

/// Image versions by shard, and who waits for the lowest of them to rise.
struct Progress {
    versions: RefCell<Vec<u64>>,
    waiting: RefCell<Vec<Rc<Signal>>>,
}

/// How far each shard has come, and the images that wait.
pub(super) struct Applied {
    /// Deletions carried out.
    retired: Progress,
    /// All carried out.
    served: Progress,
    queue: RefCell<VecDeque<Arc<Image>>>,
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
        let version = image.version();
        self.inner.applied.retired.set(self.id(), version);
        self.tell(&Header::Retired { shard: self.id().0, version });
        for topic in image.topics() {
            let known = before.topic_by_id(topic.id);
            let same = known.is_some_and(|known| Arc::ptr_eq(known, topic));
            if !same || before.version() == image.version() {
                outcome = outcome.and(self.serve(topic).await);
            }
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
        let identity = format!("version: 0\ntopic_id: {}\n", uuid_text(&topic.id.0));
        if self.is_anothers(name, &identity).await? {
            self.wait_for_retirement().await;
        }
        for (at, directory) in self.inner.directories.iter().enumerate() {
            let path = directory.path.join(name);
            match find_identity(&directory.disk, &path).await? {
                Found::Nothing => {}
                Found::Unmarked => return self.identify(at, name, &identity).await,
                Found::Marked(found) if found == identity.as_bytes() => return Ok(at),
                Found::Marked(_) => self.set_aside(at, name, topic).await?,
            }
        }
        self.identify(self.emptiest_directory(), name, &identity).await
    }

    /// Whether a directory of that name belongs to another topic.
    async fn is_anothers(&self, name: &str, identity: &str) -> Result<bool> {
        for directory in &self.inner.directories {
            match find_identity(&directory.disk, &directory.path.join(name)).await? {
                Found::Marked(found) if found != identity.as_bytes() => return Ok(true),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Completes when all shards have carried out the deletions of the image being applied. The
    /// owner of a deleted topic's directory renames it by its name: were a new topic's in that
    /// place by then, it would go instead.
    async fn wait_for_retirement(&self) {
        let applied = &self.inner.applied;
        // At a start no log is open that could be deleted, and nobody takes messages yet.
        if applied.served.of(self.id()) > 0 {
            applied.retired.everywhere(applied.retired.of(self.id())).await;
        }
    }

    async fn set_aside(&self, at: usize, name: &str, topic: &Topic) -> Result<()> {
        let directory = &self.inner.directories[at];
        let path = directory.path.join(name);
        let aside = directory.path.join(format!("{name}.{}-stray", topic.id));
        eprintln!(
            "millrace: {} belongs to another topic of that name; kept as {}",
            path.display(),
            aside.display()
        );
        let renamed = directory.disk.rename(&path, &aside).await;
        renamed.map_err(|error| Error::from_io(&path.display().to_string(), &error))
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

/// What lies where a partition's directory would.
enum Found {
    Nothing,
    /// A directory that names no topic: new, or not ours.
    Unmarked,
    /// The bytes that name its topic.
    Marked(Vec<u8>),
}

/// An unreadable directory is no absent one: taken for absent, its partition would begin anew,
/// empty, somewhere else.
async fn find_identity<D: Disk>(disk: &D, path: &Path) -> Result<Found> {
    let failed = |error| Error::from_io(&path.display().to_string(), &error);
    match disk.list(path).await {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(failed(error)),
    }
    match disk.read_file(&path.join("partition.metadata"), 4096).await {
        Ok(bytes) => Ok(Found::Marked(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Found::Unmarked),
        Err(error) => Err(failed(error)),
    }
}
