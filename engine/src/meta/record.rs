//! The records of the metadata log, byte by byte.
//!
//! A record is a type and a version, both 16 bits, then its fields; all integers little-endian.
//! Decoding is strict: every byte is used, every count fits the bytes that are there, and a type or
//! version that is not known is refused, never skipped. `docs/format-metadata.md` has the layouts.

use super::{
    image::{PartitionState, Replicas},
    name,
};
use crate::{
    config::Overrides,
    limits,
    types::{LeaderEpoch, NodeId, TopicId},
};

/// One change of the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// What the records from here on may contain.
    FormatLevel(u16),
    /// Which cluster this is, and which node wrote it.
    Identity {
        /// The cluster's id.
        cluster_id: String,
        /// The node.
        node_id: NodeId,
    },
    /// A topic was made.
    TopicCreated {
        /// Its name.
        name: String,
        /// Its id.
        id: TopicId,
        /// Its partitions by index.
        partitions: Vec<PartitionState>,
        /// Its settings.
        overrides: Overrides,
    },
    /// A topic was removed.
    TopicRemoved(TopicId),
    /// A topic got partitions behind those it had.
    PartitionsAdded {
        /// The topic.
        id: TopicId,
        /// The new partitions.
        partitions: Vec<PartitionState>,
    },
    /// A topic's settings are now these.
    ConfigChanged {
        /// The topic.
        id: TopicId,
        /// All its settings.
        overrides: Overrides,
    },
    /// Producer ids below this one have been handed out.
    ProducerIdsReserved(i64),
    /// A partition's leader, epoch or in-sync replicas changed.
    PartitionChanged {
        /// The topic.
        id: TopicId,
        /// The partition.
        partition: u32,
        /// All that is now so.
        state: PartitionState,
    },
}

const VERSION: u16 = 1;
const FORMAT_LEVEL: u16 = 1;
const IDENTITY: u16 = 2;
const TOPIC_CREATED: u16 = 3;
const TOPIC_REMOVED: u16 = 4;
const PARTITIONS_ADDED: u16 = 5;
const CONFIG_CHANGED: u16 = 6;
const PRODUCER_IDS_RESERVED: u16 = 7;
const PARTITION_CHANGED: u16 = 8;

/// Longest cluster id; Kafka's are 22 bytes.
const CLUSTER_ID_BYTES_MAX: usize = 64;
/// Longest name of a setting.
const SETTING_NAME_BYTES_MAX: usize = 256;

impl Record {
    /// Appends the record's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.kind().to_le_bytes());
        out.extend(VERSION.to_le_bytes());
        match self {
            Self::FormatLevel(level) => out.extend(level.to_le_bytes()),
            Self::Identity { cluster_id, node_id } => {
                put_text(out, cluster_id);
                out.extend(node_id.0.to_le_bytes());
            }
            Self::TopicCreated { name, id, partitions, overrides } => {
                put_text(out, name);
                out.extend(id.0);
                put_partitions(out, partitions);
                put_overrides(out, overrides);
            }
            Self::TopicRemoved(id) => out.extend(id.0),
            Self::PartitionsAdded { id, partitions } => {
                out.extend(id.0);
                put_partitions(out, partitions);
            }
            Self::ConfigChanged { id, overrides } => {
                out.extend(id.0);
                put_overrides(out, overrides);
            }
            Self::ProducerIdsReserved(next) => out.extend(next.to_le_bytes()),
            Self::PartitionChanged { id, partition, state } => {
                out.extend(id.0);
                out.extend(partition.to_le_bytes());
                put_partition(out, state);
            }
        }
    }

    fn kind(&self) -> u16 {
        match self {
            Self::FormatLevel(_) => FORMAT_LEVEL,
            Self::Identity { .. } => IDENTITY,
            Self::TopicCreated { .. } => TOPIC_CREATED,
            Self::TopicRemoved(_) => TOPIC_REMOVED,
            Self::PartitionsAdded { .. } => PARTITIONS_ADDED,
            Self::ConfigChanged { .. } => CONFIG_CHANGED,
            Self::ProducerIdsReserved(_) => PRODUCER_IDS_RESERVED,
            Self::PartitionChanged { .. } => PARTITION_CHANGED,
        }
    }

    /// The record that `bytes` are, all of them. The error says what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut rest = Rest(bytes);
        let kind = rest.u16()?;
        let version = rest.u16()?;
        if version != VERSION {
            return Err(format!("record type {kind} has version {version}, known is {VERSION}"));
        }
        let record = match kind {
            FORMAT_LEVEL => Self::FormatLevel(rest.u16()?),
            IDENTITY => Self::Identity {
                cluster_id: rest.text(CLUSTER_ID_BYTES_MAX)?,
                node_id: rest.node()?,
            },
            TOPIC_CREATED => Self::TopicCreated {
                name: rest.topic_name()?,
                id: rest.id()?,
                partitions: rest.partitions()?,
                overrides: rest.overrides()?,
            },
            TOPIC_REMOVED => Self::TopicRemoved(rest.id()?),
            PARTITIONS_ADDED => {
                Self::PartitionsAdded { id: rest.id()?, partitions: rest.partitions()? }
            }
            CONFIG_CHANGED => Self::ConfigChanged { id: rest.id()?, overrides: rest.overrides()? },
            PRODUCER_IDS_RESERVED => Self::ProducerIdsReserved(rest.i64()?),
            PARTITION_CHANGED => Self::PartitionChanged {
                id: rest.id()?,
                partition: rest.u32()?,
                state: rest.partition()?,
            },
            other => return Err(format!("record type {other} is not known")),
        };
        if !rest.0.is_empty() {
            return Err(format!("{} bytes behind a record of type {kind}", rest.0.len()));
        }
        Ok(record)
    }
}

fn length_u16(length: usize) -> [u8; 2] {
    u16::try_from(length).expect("checked against its limit when planned").to_le_bytes()
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend(length_u16(text.len()));
    out.extend(text.as_bytes());
}

fn put_partitions(out: &mut Vec<u8>, partitions: &[PartitionState]) {
    out.extend(length_u16(partitions.len()));
    partitions.iter().for_each(|state| put_partition(out, state));
}

fn put_partition(out: &mut Vec<u8>, state: &PartitionState) {
    out.extend(state.leader.0.to_le_bytes());
    out.extend(state.leader_epoch.0.to_le_bytes());
    for nodes in [&state.replicas, &state.isr] {
        out.extend(length_u16(nodes.len()));
        nodes.iter().for_each(|node| out.extend(node.0.to_le_bytes()));
    }
}

fn put_overrides(out: &mut Vec<u8>, overrides: &Overrides) {
    out.extend(length_u16(overrides.len()));
    for (name, value) in overrides {
        put_text(out, name);
        put_text(out, value);
    }
}

/// The bytes not yet decoded.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (head, tail) =
            self.0.split_first_chunk::<N>().ok_or_else(|| "record ends early".to_owned())?;
        self.0 = tail;
        Ok(*head)
    }

    fn u16(&mut self) -> Result<u16, String> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.take().map(u32::from_le_bytes)
    }

    fn i64(&mut self) -> Result<i64, String> {
        self.take().map(i64::from_le_bytes)
    }

    fn node(&mut self) -> Result<NodeId, String> {
        self.take().map(|bytes| NodeId(i32::from_le_bytes(bytes)))
    }

    fn id(&mut self) -> Result<TopicId, String> {
        self.take().map(TopicId)
    }

    /// A count of items of at least `item_bytes` each, which must be there.
    fn count(&mut self, item_bytes: usize, most: usize) -> Result<usize, String> {
        let count = usize::from(self.u16()?);
        if count > most || count * item_bytes > self.0.len() {
            return Err(format!("count {count} does not fit"));
        }
        Ok(count)
    }

    fn text(&mut self, most: usize) -> Result<String, String> {
        let length = self.count(1, most)?;
        let (text, tail) = self.0.split_at(length);
        self.0 = tail;
        String::from_utf8(text.to_vec()).map_err(|_| "text is not UTF-8".to_owned())
    }

    fn topic_name(&mut self) -> Result<String, String> {
        let name = self.text(name::NAME_BYTES_MAX)?;
        name::check(&name)?;
        Ok(name)
    }

    fn partitions(&mut self) -> Result<Vec<PartitionState>, String> {
        let count = self.count(12, limits::TOPIC_PARTITIONS_MAX)?;
        (0..count).map(|_| self.partition()).collect()
    }

    fn partition(&mut self) -> Result<PartitionState, String> {
        Ok(PartitionState {
            leader: self.node()?,
            leader_epoch: LeaderEpoch(i32::from_le_bytes(self.take()?)),
            replicas: self.replicas()?,
            isr: self.replicas()?,
        })
    }

    fn replicas(&mut self) -> Result<Replicas, String> {
        let count = self.count(4, usize::from(u16::MAX))?;
        (0..count).map(|_| self.node()).collect()
    }

    fn overrides(&mut self) -> Result<Overrides, String> {
        let count = self.count(4, usize::from(u16::MAX))?;
        let mut overrides = Overrides::new();
        for _ in 0..count {
            let name = self.text(SETTING_NAME_BYTES_MAX)?;
            let value = self.text(limits::METADATA_VALUE_BYTES_MAX)?;
            if overrides.last_key_value().is_some_and(|(last, _)| *last >= name) {
                return Err("settings are not in order".to_owned());
            }
            overrides.insert(name, value);
        }
        Ok(overrides)
    }
}
