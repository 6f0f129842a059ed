//! Offsets of partitions, and deletion of records below one.

use std::{collections::BTreeMap, time::Instant};

use super::{Admin, checked, missing};
use crate::{
    client::{
        cluster::PartitionInfo,
        config::IsolationLevel,
        error::{ClientError, Kind, Result},
        links::Links,
    },
    wire::typed::{
        StrBytes,
        delete_records::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic},
        list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic},
    },
};

/// Which offset of a partition is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// Behind the last record a consumer may read.
    Latest,
    /// The first record still there.
    Earliest,
    /// The record with the largest timestamp (KIP-734).
    MaxTimestamp,
    /// The first record with this timestamp, in ms, or a later one.
    Timestamp(i64),
}

impl OffsetSpec {
    fn code(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::MaxTimestamp => -3,
            Self::Timestamp(timestamp_ms) => timestamp_ms,
        }
    }
}

/// An offset found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset; -1 when no record has such a timestamp.
    pub offset: i64,
    /// Timestamp of that record in ms; -1 where it was not looked for.
    pub timestamp_ms: i64,
    /// Leader epoch of that record, or -1.
    pub leader_epoch: i32,
}

impl Admin {
    /// The offset `spec` of one partition.
    ///
    /// # Errors
    /// When the partition is unknown or has no leader.
    pub fn list_offset(
        &mut self,
        topic: &str,
        partition: i32,
        spec: OffsetSpec,
    ) -> Result<ListedOffset> {
        let level = IsolationLevel::ReadUncommitted;
        let deadline = self.links.deadline();
        list_offset(&mut self.links, topic, partition, spec, level, deadline)
    }

    /// The offset `spec` of every partition of a topic, by index.
    ///
    /// # Errors
    /// When the topic is unknown or a partition has no leader.
    pub fn list_offsets(
        &mut self,
        topic: &str,
        spec: OffsetSpec,
    ) -> Result<BTreeMap<i32, ListedOffset>> {
        let cluster = self.metadata(Some(&[topic]))?;
        let info = cluster.topics.get(topic).ok_or_else(|| missing("the topic"))?;
        info.failure().map_or(Ok(()), Err)?;
        let mut offsets = BTreeMap::new();
        for entry in &info.partitions {
            let found = self.list_offset(topic, entry.partition, spec)?;
            offsets.insert(entry.partition, found);
        }
        Ok(offsets)
    }

    /// Deletes the records of a partition below `offset` (-1: all); returns the new log start.
    ///
    /// # Errors
    /// When `offset` is beyond the high watermark, or the partition is unknown.
    pub fn delete_records(&mut self, topic: &str, partition: i32, offset: i64) -> Result<i64> {
        let mut entry = DeleteRecordsPartition::default();
        entry.partition_index = partition;
        entry.offset = offset;
        let mut of_topic = DeleteRecordsTopic::default();
        of_topic.name = StrBytes::from(topic);
        of_topic.partitions = vec![entry];
        let mut request = DeleteRecordsRequest::default();
        request.timeout_ms = self.broker_timeout_ms();
        request.topics = vec![of_topic];
        self.call(|links, deadline| {
            let leader = leader_of(links, topic, partition, deadline)?.leader;
            let response = links.call_node(leader, &request, deadline)?;
            let result = response.topics.first().and_then(|topic| topic.partitions.first());
            let result = result.ok_or_else(|| missing("the partition"))?;
            checked(result.error_code, None)?;
            Ok(result.low_watermark)
        })
    }
}

/// Asks the leader of a partition for one of its offsets.
///
/// # Errors
/// The last refusal when `deadline` passes, or a final one.
pub fn list_offset(
    links: &mut Links,
    topic: &str,
    partition: i32,
    spec: OffsetSpec,
    isolation_level: IsolationLevel,
    deadline: Instant,
) -> Result<ListedOffset> {
    links.retry(deadline, |links| {
        let info = leader_of(links, topic, partition, deadline)?;
        let mut entry = ListOffsetsPartition::default();
        entry.partition_index = partition;
        entry.current_leader_epoch = info.leader_epoch;
        entry.timestamp = spec.code();
        let mut of_topic = ListOffsetsTopic::default();
        of_topic.name = StrBytes::from(topic);
        of_topic.partitions = vec![entry];
        let mut request = ListOffsetsRequest::default();
        request.replica_id = -1;
        request.isolation_level = isolation_level.code();
        request.topics = vec![of_topic];
        let response = links.call_node(info.leader, &request, deadline)?;
        let result = response.topics.first().and_then(|topic| topic.partitions.first());
        let result = result.ok_or_else(|| missing("the partition"))?;
        checked(result.error_code, None)?;
        Ok(ListedOffset {
            offset: result.offset,
            timestamp_ms: result.timestamp,
            leader_epoch: result.leader_epoch,
        })
    })
}

/// The partition with its leader, from fresh metadata.
fn leader_of(
    links: &mut Links,
    topic: &str,
    partition: i32,
    deadline: Instant,
) -> Result<PartitionInfo> {
    links.refresh(Some(&[topic]), false, deadline)?;
    let info = links.cluster().topics.get(topic).ok_or_else(|| missing("the topic"))?;
    info.failure().map_or(Ok(()), Err)?;
    let Some(found) = info.partition(partition) else {
        let message = format!(
            "topic {topic} has {} partitions, so none with number {partition}",
            info.partitions.len()
        );
        return Err(ClientError::invalid(message));
    };
    if found.leader < 0 {
        let message = format!("partition {topic}-{partition} has no leader at the moment");
        return Err(ClientError::new(Kind::Unreachable, message));
    }
    Ok(found.clone())
}
