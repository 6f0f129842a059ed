//! What a client knows of the cluster: brokers, topics, partitions and who leads them.
//!
//! A value made from one Metadata answer and replaced as a whole. Knows no socket.

use std::{collections::BTreeMap, time::Instant};

use millrace_engine::types::TopicId;

use super::error::ClientError;
use crate::wire::{
    ErrorCode,
    typed::{
        self,
        metadata::{
            MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
            MetadataResponseTopic,
        },
    },
};

/// One broker as it advertises itself to the listener we came through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// `node.id`.
    pub node_id: i32,
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: i32,
    /// `broker.rack`, if set.
    pub rack: Option<String>,
}

impl Broker {
    /// `host:port`, to connect to.
    #[must_use]
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            return format!("[{}]:{}", self.host, self.port);
        }
        format!("{}:{}", self.host, self.port)
    }
}

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionInfo {
    /// Index in the topic.
    pub partition: i32,
    /// Node id of the leader, or -1.
    pub leader: i32,
    /// Leader epoch, or -1 from a broker that does not tell.
    pub leader_epoch: i32,
    /// Node ids of all replicas, the preferred leader first.
    pub replicas: Vec<i32>,
    /// Node ids of the replicas in sync.
    pub isr: Vec<i32>,
    /// Node ids of replicas whose broker or disk is gone.
    pub offline: Vec<i32>,
}

/// One topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Its name.
    pub name: String,
    /// Its id; zero from a broker older than 2.8.
    pub topic_id: TopicId,
    /// Whether the broker keeps it for itself.
    pub internal: bool,
    /// Kafka's code when the broker cannot describe it.
    pub error_code: ErrorCode,
    /// Partitions by index, ascending.
    pub partitions: Vec<PartitionInfo>,
}

impl TopicInfo {
    /// The partition with index `partition`.
    #[must_use]
    pub fn partition(&self, partition: i32) -> Option<&PartitionInfo> {
        let at = self.partitions.binary_search_by_key(&partition, |info| info.partition).ok()?;
        self.partitions.get(at)
    }

    /// The broker's refusal to describe this topic, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<ClientError> {
        (!self.error_code.is_none()).then(|| {
            ClientError::refused(self.error_code, None).during(&format!("topic {}", self.name))
        })
    }
}

/// The cluster at one moment.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// `cluster.id`.
    pub cluster_id: Option<String>,
    /// Node id of the controller (with KRaft: of any live broker), or -1.
    pub controller_id: i32,
    /// Brokers by node id.
    pub brokers: BTreeMap<i32, Broker>,
    /// Topics by name: those asked for.
    pub topics: BTreeMap<String, TopicInfo>,
    /// When it was asked for.
    pub as_of: Instant,
}

impl Cluster {
    /// A cluster of which nothing is known.
    #[must_use]
    pub fn unknown(now: Instant) -> Self {
        Self {
            cluster_id: None,
            controller_id: -1,
            brokers: BTreeMap::new(),
            topics: BTreeMap::new(),
            as_of: now,
        }
    }

    /// The cluster as `response` of `now` shows it.
    #[must_use]
    pub fn of(response: MetadataResponse, now: Instant) -> Self {
        let brokers = response.brokers.iter().map(broker).map(|it| (it.node_id, it)).collect();
        let topics =
            response.topics.into_iter().map(topic).map(|it| (it.name.clone(), it)).collect();
        Self {
            cluster_id: response.cluster_id.map(|id| id.into_string()),
            controller_id: response.controller_id,
            brokers,
            topics,
            as_of: now,
        }
    }

    /// The broker that leads a partition; `None` when topic, partition or leader is unknown.
    #[must_use]
    pub fn leader(&self, topic: &str, partition: i32) -> Option<&Broker> {
        let info = self.topics.get(topic)?.partition(partition)?;
        self.brokers.get(&info.leader)
    }

    /// Takes a newer answer about some topics, keeping the others. A leader epoch never goes back
    /// (KIP-320): an older answer about a partition is dropped.
    pub fn merge(&mut self, newer: Self) {
        for (name, mut topic) in newer.topics {
            if let Some(known) = self.topics.get(&name)
                && known.topic_id == topic.topic_id
            {
                keep_newest(known, &mut topic);
            }
            self.topics.insert(name, topic);
        }
        self.cluster_id = newer.cluster_id;
        self.controller_id = newer.controller_id;
        self.brokers = newer.brokers;
        self.as_of = newer.as_of;
    }
}

fn keep_newest(known: &TopicInfo, topic: &mut TopicInfo) {
    for info in &mut topic.partitions {
        if let Some(before) = known.partition(info.partition)
            && info.leader_epoch >= 0
            && before.leader_epoch > info.leader_epoch
        {
            info.clone_from(before);
        }
    }
}

fn broker(answer: &MetadataResponseBroker) -> Broker {
    Broker {
        node_id: answer.node_id,
        host: answer.host.as_str().to_owned(),
        port: answer.port,
        rack: answer.rack.as_ref().map(|rack| rack.as_str().to_owned()),
    }
}

fn topic(answer: MetadataResponseTopic) -> TopicInfo {
    let mut partitions: Vec<_> = answer.partitions.into_iter().map(partition).collect();
    partitions.sort_by_key(|info| info.partition);
    TopicInfo {
        name: answer.name.map(|name| name.into_string()).unwrap_or_default(),
        topic_id: typed::topic_id(answer.topic_id),
        internal: answer.is_internal,
        error_code: ErrorCode::from_i16(answer.error_code),
        partitions,
    }
}

fn partition(answer: MetadataResponsePartition) -> PartitionInfo {
    PartitionInfo {
        partition: answer.partition_index,
        leader: answer.leader_id,
        leader_epoch: answer.leader_epoch,
        replicas: answer.replica_nodes,
        isr: answer.isr_nodes,
        offline: answer.offline_replicas,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(leader: i32, leader_epoch: i32) -> Cluster {
        let now = Instant::now();
        let partition = PartitionInfo {
            partition: 0,
            leader,
            leader_epoch,
            replicas: vec![1, 2],
            isr: vec![1, 2],
            offline: Vec::new(),
        };
        let topic = TopicInfo {
            name: "t".to_owned(),
            topic_id: TopicId([1; 16]),
            internal: false,
            error_code: ErrorCode::None,
            partitions: vec![partition],
        };
        let mut cluster = Cluster::unknown(now);
        cluster.topics.insert("t".to_owned(), topic);
        cluster
    }

    fn leader(cluster: &Cluster) -> i32 {
        cluster.topics["t"].partitions[0].leader
    }

    #[test]
    fn a_leader_epoch_never_goes_back() {
        let mut known = cluster(1, 5);
        known.merge(cluster(2, 4));
        assert_eq!(leader(&known), 1);
        known.merge(cluster(2, 6));
        assert_eq!(leader(&known), 2);
    }

    #[test]
    fn a_topic_made_anew_starts_its_epochs_again() {
        let mut known = cluster(1, 5);
        let mut newer = cluster(2, 0);
        newer.topics.get_mut("t").expect("made above").topic_id = TopicId([2; 16]);
        known.merge(newer);
        assert_eq!(leader(&known), 2);
    }
}
