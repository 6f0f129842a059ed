//! The request: limits, the session, and per partition the offset to read from.

use std::borrow::Cow;

use millrace_engine::types::TopicId;

use super::FetchResponse;
use crate::wire::{
    ApiKey, Cursor, Decode, DecodeError, Element, Field, Grouped, Message, Request, Sink,
};

const LOG_START_OFFSET_SINCE: i16 = 5;
const SESSION_SINCE: i16 = 7;
const LEADER_EPOCH_SINCE: i16 = 9;
const RACK_SINCE: i16 = 11;
const FLEXIBLE_SINCE: i16 = 12;
const REPLICA_STATE_SINCE: i16 = 15;
const DIRECTORY_SINCE: i16 = 17;
const HIGH_WATERMARK_SINCE: i16 = 18;

/// The follower does not say what high watermark it knows.
const NO_HIGH_WATERMARK: i64 = i64::MAX;

/// A fetch session (KIP-227): `(0, -1)` none, `(0, 0)` make one, `(id, 0)` replace it, `(id, -1)`
/// drop it, `(id, n)` go on with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchSession {
    /// The session's id, or 0.
    pub id: i32,
    /// Number of the request in it.
    pub epoch: i32,
}

impl FetchSession {
    /// A fetch that stands alone.
    pub const NONE: Self = Self { id: 0, epoch: -1 };
}

/// A Fetch request. The order of its partitions is their priority.
#[derive(Clone, Debug)]
pub struct FetchRequest<'a> {
    /// The cluster the follower takes this for; version 12 on.
    pub cluster_id: Option<Cow<'a, str>>,
    /// Node id of the follower, or -1 for a consumer.
    pub replica_id: i32,
    /// Broker epoch of the follower, or -1; version 15 on.
    pub replica_epoch: i64,
    /// How long to wait for `min_bytes`, in milliseconds.
    pub max_wait_ms: i32,
    /// Bytes worth answering with.
    pub min_bytes: i32,
    /// Bytes to answer with at most, but for the first batch.
    pub max_bytes: i32,
    /// 0 reads up to the high watermark, 1 up to the last stable offset.
    pub isolation_level: i8,
    /// The session; [`FetchSession::NONE`] before version 7.
    pub session: FetchSession,
    /// Topics and where to read their partitions.
    pub topics: Grouped<'a, FetchPartition>,
    /// Partitions to drop from the session; version 7 on.
    pub forgotten: Grouped<'a, i32>,
    /// Rack of the consumer, or empty; version 11 on.
    pub rack_id: Cow<'a, str>,
}

impl Default for FetchRequest<'_> {
    fn default() -> Self {
        Self {
            cluster_id: None,
            replica_id: -1,
            replica_epoch: -1,
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: i32::MAX,
            isolation_level: 0,
            session: FetchSession::NONE,
            topics: Grouped::default(),
            forgotten: Grouped::default(),
            rack_id: Cow::Borrowed(""),
        }
    }
}

impl<'a> Decode<'a> for FetchRequest<'a> {
    fn read(mut cursor: Cursor<'a>, version: i16) -> Result<Self, DecodeError> {
        let mut request = Self::default();
        if version < REPLICA_STATE_SINCE {
            request.replica_id = cursor.i32()?;
        }
        request.max_wait_ms = cursor.i32()?;
        request.min_bytes = cursor.i32()?;
        request.max_bytes = cursor.i32()?;
        request.isolation_level = cursor.i8()?;
        if version >= SESSION_SINCE {
            request.session = FetchSession { id: cursor.i32()?, epoch: cursor.i32()? };
        }
        request.topics = Grouped::read(&mut cursor, version)?;
        if version >= SESSION_SINCE {
            request.forgotten = Grouped::read(&mut cursor, version)?;
        }
        if version >= RACK_SINCE {
            request.rack_id = cursor.string()?;
        }
        cursor.tags(|tag, field| request.read_tag(tag, field, version))?;
        Ok(request)
    }
}

impl<'a> FetchRequest<'a> {
    fn read_tag(
        &mut self,
        tag: u32,
        mut field: Cursor<'a>,
        version: i16,
    ) -> Result<(), DecodeError> {
        match tag {
            0 => self.cluster_id = field.nullable_string()?,
            1 if version >= REPLICA_STATE_SINCE => {
                let state = ReplicaState::read(&mut field)?;
                (self.replica_id, self.replica_epoch) = (state.replica_id, state.replica_epoch);
            }
            _ => return Ok(()),
        }
        field.finish()
    }
}

impl Message for FetchRequest<'_> {
    const KEY: ApiKey = ApiKey::Fetch;

    fn write<S: Sink>(&self, out: &mut S, version: i16) {
        if version < REPLICA_STATE_SINCE {
            out.i32(self.replica_id);
        }
        out.i32(self.max_wait_ms);
        out.i32(self.min_bytes);
        out.i32(self.max_bytes);
        out.i8(self.isolation_level);
        if version >= SESSION_SINCE {
            out.i32(self.session.id);
            out.i32(self.session.epoch);
        }
        self.topics.write(out, version);
        if version >= SESSION_SINCE {
            self.forgotten.write(out, version);
        }
        if version >= RACK_SINCE {
            out.string(&self.rack_id);
        }
        self.write_tags(out, version);
    }
}

impl FetchRequest<'_> {
    fn write_tags<S: Sink>(&self, out: &mut S, version: i16) {
        let cluster_id = self.cluster_id.as_deref().map(ClusterId);
        let state = ReplicaState { replica_id: self.replica_id, replica_epoch: self.replica_epoch };
        let state =
            (version >= REPLICA_STATE_SINCE && state != ReplicaState::CONSUMER).then_some(state);
        out.tag_count(u32::from(cluster_id.is_some()) + u32::from(state.is_some()));
        if version < FLEXIBLE_SINCE {
            return;
        }
        if let Some(cluster_id) = cluster_id {
            out.tag(0, &cluster_id, version);
        }
        if let Some(state) = state {
            out.tag(1, &state, version);
        }
    }
}

impl Request for FetchRequest<'_> {
    type Response<'r> = FetchResponse<'r>;
}

struct ClusterId<'a>(&'a str);

impl Field for ClusterId<'_> {
    fn write<S: Sink>(&self, out: &mut S, _: i16) {
        out.string(self.0);
    }
}

#[derive(PartialEq, Eq)]
struct ReplicaState {
    replica_id: i32,
    replica_epoch: i64,
}

impl ReplicaState {
    const CONSUMER: Self = Self { replica_id: -1, replica_epoch: -1 };

    fn read(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let state = Self { replica_id: cursor.i32()?, replica_epoch: cursor.i64()? };
        cursor.skip_tags()?;
        Ok(state)
    }
}

impl Field for ReplicaState {
    fn write<S: Sink>(&self, out: &mut S, _: i16) {
        out.i32(self.replica_id);
        out.i64(self.replica_epoch);
        out.tag_count(0);
    }
}

/// Where to read one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    /// The partition.
    pub index: i32,
    /// Leader epoch that the reader knows, or -1; version 9 on.
    pub current_leader_epoch: i32,
    /// First offset wanted.
    pub fetch_offset: i64,
    /// Epoch of the last record fetched, or -1; version 12 on, followers only.
    pub last_fetched_epoch: i32,
    /// First offset of the follower's log, or -1; version 5 on.
    pub log_start_offset: i64,
    /// Bytes of this partition at most, but for the first batch.
    pub max_bytes: i32,
    /// The follower's log directory; version 17 on.
    pub directory_id: TopicId,
    /// High watermark that the follower knows, -1 if it has none, `i64::MAX` if it does not say;
    /// version 18 on.
    pub high_watermark: i64,
}

impl FetchPartition {
    /// A consumer's read of partition `index` from `fetch_offset`.
    #[must_use]
    pub fn new(index: i32, fetch_offset: i64, max_bytes: i32) -> Self {
        Self {
            index,
            current_leader_epoch: -1,
            fetch_offset,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            max_bytes,
            directory_id: TopicId::NONE,
            high_watermark: NO_HIGH_WATERMARK,
        }
    }
}

impl<'a> Element<'a> for FetchPartition {
    const MIN_BYTES: usize = 16;

    fn read(cursor: &mut Cursor<'a>, version: i16) -> Result<Self, DecodeError> {
        let mut partition = Self::new(cursor.i32()?, 0, 0);
        if version >= LEADER_EPOCH_SINCE {
            partition.current_leader_epoch = cursor.i32()?;
        }
        partition.fetch_offset = cursor.i64()?;
        if version >= FLEXIBLE_SINCE {
            partition.last_fetched_epoch = cursor.i32()?;
        }
        if version >= LOG_START_OFFSET_SINCE {
            partition.log_start_offset = cursor.i64()?;
        }
        partition.max_bytes = cursor.i32()?;
        cursor.tags(|tag, mut field| {
            match tag {
                0 if version >= DIRECTORY_SINCE => partition.directory_id = field.topic_id()?,
                1 if version >= HIGH_WATERMARK_SINCE => partition.high_watermark = field.i64()?,
                _ => return Ok(()),
            }
            field.finish()
        })?;
        Ok(partition)
    }
}

impl Field for FetchPartition {
    fn write<S: Sink>(&self, out: &mut S, version: i16) {
        out.i32(self.index);
        if version >= LEADER_EPOCH_SINCE {
            out.i32(self.current_leader_epoch);
        }
        out.i64(self.fetch_offset);
        if version >= FLEXIBLE_SINCE {
            out.i32(self.last_fetched_epoch);
        }
        if version >= LOG_START_OFFSET_SINCE {
            out.i64(self.log_start_offset);
        }
        out.i32(self.max_bytes);
        let directory = version >= DIRECTORY_SINCE && self.directory_id != TopicId::NONE;
        let watermark = version >= HIGH_WATERMARK_SINCE && self.high_watermark != NO_HIGH_WATERMARK;
        out.tag_count(u32::from(directory) + u32::from(watermark));
        if directory {
            out.tag(0, &self.directory_id, version);
        }
        if watermark {
            out.tag(1, &self.high_watermark, version);
        }
    }
}
