//! What is so in the cluster at one point of the metadata log: topics, partitions, identity.
//!
//! Immutable and shared: a reader keeps the image that it has and is handed a newer one. Making a
//! new one per change is cheap, since topics and most of the indexes are shared between images.

use std::{fmt, sync::Arc};

use smallvec::SmallVec;

use super::{name, sorted::Sorted};
use crate::{
    config::{Overrides, TopicConfig},
    types::{LeaderEpoch, NodeId, PartitionIndex, TopicId},
};

/// Replicas of a partition, the preferred leader first.
pub type Replicas = SmallVec<[NodeId; 4]>;

/// Who keeps and who leads a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionState {
    /// The leader.
    pub leader: NodeId,
    /// Grows with each change of leader.
    pub leader_epoch: LeaderEpoch,
    /// All replicas.
    pub replicas: Replicas,
    /// The replicas in sync.
    pub isr: Replicas,
}

impl PartitionState {
    /// A new partition that `node` alone keeps.
    #[must_use]
    pub fn new_on(node: NodeId) -> Self {
        let replicas: Replicas = [node].into_iter().collect();
        Self { leader: node, leader_epoch: LeaderEpoch(0), isr: replicas.clone(), replicas }
    }
}

/// One topic.
#[derive(Clone, Debug, PartialEq)]
pub struct Topic {
    /// Its name.
    pub name: Arc<str>,
    /// Its id, of this topic alone even if the name is used again.
    pub id: TopicId,
    /// Its partitions by index.
    pub partitions: Vec<PartitionState>,
    /// Settings that were given, as text.
    pub overrides: Overrides,
    /// The settings that hold.
    pub config: Arc<TopicConfig>,
}

impl Topic {
    /// Partition `index`, if there is one.
    #[must_use]
    pub fn partition(&self, index: PartitionIndex) -> Option<&PartitionState> {
        self.partitions.get(usize::try_from(index.0).ok()?)
    }
}

/// The cluster at one point of the metadata log.
#[derive(Clone)]
pub struct Image {
    version: u64,
    cluster_id: Arc<str>,
    node_id: NodeId,
    format_level: u16,
    next_producer_id: i64,
    partitions: usize,
    by_name: Sorted<Arc<str>, Arc<Topic>>,
    by_id: Sorted<TopicId, Arc<Topic>>,
    folded: Sorted<String, Arc<str>>,
}

impl fmt::Debug for Image {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Image(version {}, {} topics)", self.version, self.by_name.len())
    }
}

impl Image {
    /// An image before the first record.
    pub(crate) fn empty() -> Self {
        Self {
            version: 0,
            cluster_id: Arc::from(""),
            node_id: NodeId(0),
            format_level: 0,
            next_producer_id: 0,
            partitions: 0,
            by_name: Sorted::default(),
            by_id: Sorted::default(),
            folded: Sorted::default(),
        }
    }

    /// Records of the metadata log that are in the image: its offset there, never falling.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The cluster's id: 22 characters of base64url, as Kafka makes them.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// This node.
    #[must_use]
    pub fn node_id(&self) -> NodeId {
        self.node_id
    }

    /// What the records may contain; a newer level is refused by an older program.
    #[must_use]
    pub fn format_level(&self) -> u16 {
        self.format_level
    }

    /// The first producer id that has not been handed out.
    #[must_use]
    pub fn next_producer_id(&self) -> i64 {
        self.next_producer_id
    }

    /// The topic called `name`.
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.by_name.get(name)
    }

    /// The topic with `id`.
    #[must_use]
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.by_id.get(&id)
    }

    /// All topics by name, ascending.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.by_name.iter().map(|(_, topic)| topic)
    }

    /// Number of topics.
    #[must_use]
    pub fn topic_count(&self) -> usize {
        self.by_name.len()
    }

    /// Number of partitions of all topics.
    #[must_use]
    pub fn partition_count(&self) -> usize {
        self.partitions
    }

    /// A topic whose name is the same as `name` but for `.` and `_`.
    pub(super) fn colliding(&self, name: &str) -> Option<&Arc<str>> {
        self.folded.get(name::folded(name).as_str())
    }

    pub(super) fn set_version(&mut self, version: u64) {
        assert!(version >= self.version, "an image never goes back");
        self.version = version;
    }

    pub(super) fn set_identity(&mut self, cluster_id: &str, node_id: NodeId) {
        let same = self.cluster_id.is_empty() || &*self.cluster_id == cluster_id;
        assert!(same, "a cluster keeps its id");
        self.cluster_id = Arc::from(cluster_id);
        self.node_id = node_id;
    }

    pub(super) fn set_format_level(&mut self, level: u16) {
        assert!(level >= self.format_level, "the format never goes back");
        self.format_level = level;
    }

    pub(super) fn set_next_producer_id(&mut self, next: i64) {
        assert!(next >= self.next_producer_id, "a producer id is never handed out twice");
        self.next_producer_id = next;
    }

    /// Puts a topic in, in place of the one with its id if there is one.
    pub(super) fn put(&mut self, topic: Topic) {
        assert!(!topic.name.is_empty(), "a topic has a name");
        if let Some(old) = self.by_id.get(&topic.id) {
            assert!(topic.partitions.len() >= old.partitions.len(), "partitions are never taken");
            assert_eq!(old.name, topic.name, "a topic keeps its name");
            self.partitions -= old.partitions.len();
        }
        self.partitions += topic.partitions.len();
        let topic = Arc::new(topic);
        self.folded.insert(name::folded(&topic.name), topic.name.clone());
        self.by_id.insert(topic.id, topic.clone());
        self.by_name.insert(topic.name.clone(), topic);
        assert_eq!(self.by_id.len(), self.by_name.len(), "both indexes hold the same topics");
    }

    /// Takes a topic out; whether it was there.
    pub(super) fn remove(&mut self, id: TopicId) -> bool {
        let Some(topic) = self.by_id.get(&id).cloned() else { return false };
        assert!(self.partitions >= topic.partitions.len(), "the count holds every partition");
        self.partitions -= topic.partitions.len();
        self.folded.remove(name::folded(&topic.name).as_str());
        self.by_id.remove(&id);
        self.by_name.remove(&*topic.name);
        assert_eq!(self.by_id.len(), self.by_name.len(), "both indexes hold the same topics");
        true
    }
}
