//! The response: per partition the marks of its log and a run of it, linked as it lies in memory.

use millrace_engine::io::buf::Chain;

use crate::wire::{
    ApiKey, Cursor, Decode, DecodeError, Element, ErrorCode, Field, Grouped, LeaderIdAndEpoch,
    List, Message, NodeEndpoint, Sink,
};

const LOG_START_OFFSET_SINCE: i16 = 5;
const SESSION_SINCE: i16 = 7;
const PREFERRED_REPLICA_SINCE: i16 = 11;
const LEADER_HINTS_SINCE: i16 = 16;

/// A Fetch response.
#[derive(Clone, Debug)]
pub struct FetchResponse<'a> {
    /// How long the client was throttled, in milliseconds.
    pub throttle_time_ms: i32,
    /// What is wrong with the request as a whole; version 7 on.
    pub error_code: ErrorCode,
    /// The session, or 0 for none; version 7 on.
    pub session_id: i32,
    /// Topics and what was read of each partition.
    pub topics: Grouped<'a, PartitionData<'a>>,
    /// Where the leaders listen that the partitions name; not sent before version 16.
    pub node_endpoints: List<'a, NodeEndpoint<'a>>,
}

impl Default for FetchResponse<'_> {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            error_code: ErrorCode::None,
            session_id: 0,
            topics: Grouped::default(),
            node_endpoints: List::default(),
        }
    }
}

impl<'a> Decode<'a> for FetchResponse<'a> {
    fn read(mut cursor: Cursor<'a>, version: i16) -> Result<Self, DecodeError> {
        let mut response = Self { throttle_time_ms: cursor.i32()?, ..Self::default() };
        if version >= SESSION_SINCE {
            response.error_code = ErrorCode::from_i16(cursor.i16()?);
            response.session_id = cursor.i32()?;
        }
        response.topics = Grouped::read(&mut cursor, version)?;
        cursor.tags(|tag, mut field| {
            if tag == 0 && version >= LEADER_HINTS_SINCE {
                response.node_endpoints = List::read(&mut field, version)?;
                field.finish()?;
            }
            Ok(())
        })?;
        cursor.finish()?;
        Ok(response)
    }
}

impl Message for FetchResponse<'_> {
    const KEY: ApiKey = ApiKey::Fetch;

    fn write<S: Sink>(&self, out: &mut S, version: i16) {
        out.i32(self.throttle_time_ms);
        if version >= SESSION_SINCE {
            out.i16(self.error_code.code());
            out.i32(self.session_id);
        }
        self.topics.write(out, version);
        if version >= LEADER_HINTS_SINCE && !self.node_endpoints.is_empty() {
            out.tag_count(1);
            out.tag(0, &self.node_endpoints, version);
        } else {
            out.tag_count(0);
        }
    }
}

/// What was read of one partition.
#[derive(Clone, Debug)]
pub struct PartitionData<'a> {
    /// The partition.
    pub index: i32,
    /// Why nothing was read, or `None`.
    pub error_code: ErrorCode,
    /// End of what is committed, or -1.
    pub high_watermark: i64,
    /// End of what is decided, or -1.
    pub last_stable_offset: i64,
    /// First offset of the log, or -1; version 5 on.
    pub log_start_offset: i64,
    /// Where the follower's log parts from the leader's; version 12 on.
    pub diverging_epoch: Option<EpochEndOffset>,
    /// Who leads the partition, with the errors that say so; version 12 on.
    pub current_leader: Option<LeaderIdAndEpoch>,
    /// Snapshot to fetch instead of records (metadata log only); version 12 on.
    pub snapshot_id: Option<EpochEndOffset>,
    /// Aborted transactions in what was read, by first offset; `None` where the reader did not ask
    /// for committed records only.
    pub aborted_transactions: Option<List<'a, AbortedTransaction>>,
    /// Replica to read from instead, or -1; version 11 on.
    pub preferred_read_replica: i32,
    /// Whole batches, the first of which holds the offset asked for; read as empty when null.
    pub records: Chain,
}

impl PartitionData<'_> {
    /// A partition of which nothing was read, for `error_code`.
    #[must_use]
    pub fn refused(index: i32, error_code: ErrorCode) -> Self {
        Self {
            index,
            error_code,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging_epoch: None,
            current_leader: None,
            snapshot_id: None,
            aborted_transactions: None,
            preferred_read_replica: -1,
            records: Chain::new(),
        }
    }

    fn read_tag(
        &mut self,
        tag: u32,
        mut field: Cursor<'_>,
        version: i16,
    ) -> Result<(), DecodeError> {
        match tag {
            0 => self.diverging_epoch = Some(EpochEndOffset::read(&mut field, version)?),
            1 => self.current_leader = Some(LeaderIdAndEpoch::read(&mut field, version)?),
            2 => self.snapshot_id = Some(SnapshotId::read(&mut field, version)?.0),
            _ => return Ok(()),
        }
        field.finish()
    }

    fn write_tags<S: Sink>(&self, out: &mut S, version: i16) {
        if !out.is_flexible() {
            return;
        }
        let snapshot_id = self.snapshot_id.map(SnapshotId);
        out.tag_count(
            u32::from(self.diverging_epoch.is_some())
                + u32::from(self.current_leader.is_some())
                + u32::from(snapshot_id.is_some()),
        );
        if let Some(epoch) = &self.diverging_epoch {
            out.tag(0, epoch, version);
        }
        if let Some(leader) = &self.current_leader {
            out.tag(1, leader, version);
        }
        if let Some(snapshot_id) = &snapshot_id {
            out.tag(2, snapshot_id, version);
        }
    }
}

impl<'a> Element<'a> for PartitionData<'a> {
    const MIN_BYTES: usize = 24;

    fn read(cursor: &mut Cursor<'a>, version: i16) -> Result<Self, DecodeError> {
        let (mut partition, records_bytes) = read_marks(cursor, version)?;
        partition.records = cursor.take_chain(records_bytes)?;
        cursor.tags(|tag, field| partition.read_tag(tag, field, version))?;
        Ok(partition)
    }

    fn skip(cursor: &mut Cursor<'a>, version: i16) -> Result<(), DecodeError> {
        let (mut partition, records_bytes) = read_marks(cursor, version)?;
        cursor.skip(records_bytes)?;
        cursor.tags(|tag, field| partition.read_tag(tag, field, version))
    }
}

/// All that comes before the records, and how many bytes of them there are.
fn read_marks<'a>(
    cursor: &mut Cursor<'a>,
    version: i16,
) -> Result<(PartitionData<'a>, usize), DecodeError> {
    let mut partition = PartitionData::refused(cursor.i32()?, ErrorCode::from_i16(cursor.i16()?));
    partition.high_watermark = cursor.i64()?;
    partition.last_stable_offset = cursor.i64()?;
    if version >= LOG_START_OFFSET_SINCE {
        partition.log_start_offset = cursor.i64()?;
    }
    partition.aborted_transactions = List::read_nullable(cursor, version)?;
    if version >= PREFERRED_REPLICA_SINCE {
        partition.preferred_read_replica = cursor.i32()?;
    }
    Ok((partition, cursor.bytes_length()?.unwrap_or(0)))
}

impl Field for PartitionData<'_> {
    fn write<S: Sink>(&self, out: &mut S, version: i16) {
        out.i32(self.index);
        out.i16(self.error_code.code());
        out.i64(self.high_watermark);
        out.i64(self.last_stable_offset);
        if version >= LOG_START_OFFSET_SINCE {
            out.i64(self.log_start_offset);
        }
        match &self.aborted_transactions {
            Some(aborted) => aborted.write(out, version),
            None => out.length(None),
        }
        if version >= PREFERRED_REPLICA_SINCE {
            out.i32(self.preferred_read_replica);
        }
        out.records(&self.records);
        self.write_tags(out, version);
    }
}

/// An aborted transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The producer.
    pub producer_id: i64,
    /// The first offset of the transaction.
    pub first_offset: i64,
}

impl<'a> Element<'a> for AbortedTransaction {
    const MIN_BYTES: usize = 16;

    fn read(cursor: &mut Cursor<'a>, _: i16) -> Result<Self, DecodeError> {
        let aborted = Self { producer_id: cursor.i64()?, first_offset: cursor.i64()? };
        cursor.skip_tags()?;
        Ok(aborted)
    }
}

impl Field for AbortedTransaction {
    fn write<S: Sink>(&self, out: &mut S, _: i16) {
        out.i64(self.producer_id);
        out.i64(self.first_offset);
        out.tag_count(0);
    }
}

/// An epoch and the offset where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEndOffset {
    /// Leader epoch, or -1.
    pub epoch: i32,
    /// First offset behind it, or -1.
    pub end_offset: i64,
}

impl<'a> Element<'a> for EpochEndOffset {
    const MIN_BYTES: usize = 13;

    fn read(cursor: &mut Cursor<'a>, _: i16) -> Result<Self, DecodeError> {
        let end = Self { epoch: cursor.i32()?, end_offset: cursor.i64()? };
        cursor.skip_tags()?;
        Ok(end)
    }
}

impl Field for EpochEndOffset {
    fn write<S: Sink>(&self, out: &mut S, _: i16) {
        out.i32(self.epoch);
        out.i64(self.end_offset);
        out.tag_count(0);
    }
}

/// The same pair in the order that snapshots are named in.
#[derive(Clone, Copy)]
struct SnapshotId(EpochEndOffset);

impl<'a> Element<'a> for SnapshotId {
    const MIN_BYTES: usize = 13;

    fn read(cursor: &mut Cursor<'a>, _: i16) -> Result<Self, DecodeError> {
        let end_offset = cursor.i64()?;
        let epoch = cursor.i32()?;
        cursor.skip_tags()?;
        Ok(Self(EpochEndOffset { epoch, end_offset }))
    }
}

impl Field for SnapshotId {
    fn write<S: Sink>(&self, out: &mut S, _: i16) {
        out.i64(self.0.end_offset);
        out.i32(self.0.epoch);
        out.tag_count(0);
    }
}
