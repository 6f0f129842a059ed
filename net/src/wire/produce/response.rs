//! The response: per partition the offset of the first record, or why there is none.

use std::borrow::Cow;

use crate::wire::{
    ApiKey, Cursor, Decode, DecodeError, Element, ErrorCode, Field, Grouped, LeaderIdAndEpoch,
    List, Message, NodeEndpoint, Sink,
};

const LOG_START_OFFSET_SINCE: i16 = 5;
const RECORD_ERRORS_SINCE: i16 = 8;
const LEADER_HINTS_SINCE: i16 = 10;

/// A Produce response.
#[derive(Clone, Debug, Default)]
pub struct ProduceResponse<'a> {
    /// Topics and the outcome of each partition, in any order.
    pub topics: Grouped<'a, PartitionProduceResponse<'a>>,
    /// How long the client was throttled, in milliseconds.
    pub throttle_time_ms: i32,
    /// Where the leaders listen that the partitions name; not sent before version 10.
    pub node_endpoints: List<'a, NodeEndpoint<'a>>,
}

impl<'a> Decode<'a> for ProduceResponse<'a> {
    fn read(mut cursor: Cursor<'a>, version: i16) -> Result<Self, DecodeError> {
        let mut response = Self {
            topics: Grouped::read(&mut cursor, version)?,
            throttle_time_ms: cursor.i32()?,
            node_endpoints: List::default(),
        };
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

impl Message for ProduceResponse<'_> {
    const KEY: ApiKey = ApiKey::Produce;

    fn write<S: Sink>(&self, out: &mut S, version: i16) {
        self.topics.write(out, version);
        out.i32(self.throttle_time_ms);
        if version >= LEADER_HINTS_SINCE && !self.node_endpoints.is_empty() {
            out.tag_count(1);
            out.tag(0, &self.node_endpoints, version);
        } else {
            out.tag_count(0);
        }
    }
}

/// The outcome of one partition.
#[derive(Clone, Debug)]
pub struct PartitionProduceResponse<'a> {
    /// The partition.
    pub index: i32,
    /// Why nothing was appended, or `None`.
    pub error_code: ErrorCode,
    /// Offset of the first record, or -1.
    pub base_offset: i64,
    /// Milliseconds since the epoch that a LogAppendTime topic gave the records, else -1.
    pub log_append_time_ms: i64,
    /// First offset of the log, or -1; not sent before version 5.
    pub log_start_offset: i64,
    /// The bad records of a refused batch; not sent before version 8.
    pub record_errors: List<'a, RecordError<'a>>,
    /// What is wrong with the batch; not sent before version 8.
    pub error_message: Option<Cow<'a, str>>,
    /// Who leads the partition, with NOT_LEADER_OR_FOLLOWER; not sent before version 10.
    pub current_leader: Option<LeaderIdAndEpoch>,
}

impl PartitionProduceResponse<'_> {
    /// A partition that appended nothing, for `error_code`.
    #[must_use]
    pub fn refused(index: i32, error_code: ErrorCode) -> Self {
        Self {
            index,
            error_code,
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: List::default(),
            error_message: None,
            current_leader: None,
        }
    }

    /// A partition that appended its batch at `base_offset`. `log_append_time_ms` is -1 unless the
    /// topic stamps records itself.
    #[must_use]
    pub fn appended(
        index: i32,
        base_offset: i64,
        log_append_time_ms: i64,
        log_start_offset: i64,
    ) -> Self {
        let refused = Self::refused(index, ErrorCode::None);
        Self { base_offset, log_append_time_ms, log_start_offset, ..refused }
    }
}

impl<'a> Element<'a> for PartitionProduceResponse<'a> {
    const MIN_BYTES: usize = 22;

    fn read(cursor: &mut Cursor<'a>, version: i16) -> Result<Self, DecodeError> {
        let mut partition = Self::refused(cursor.i32()?, ErrorCode::from_i16(cursor.i16()?));
        partition.base_offset = cursor.i64()?;
        partition.log_append_time_ms = cursor.i64()?;
        if version >= LOG_START_OFFSET_SINCE {
            partition.log_start_offset = cursor.i64()?;
        }
        if version >= RECORD_ERRORS_SINCE {
            partition.record_errors = List::read(cursor, version)?;
            partition.error_message = cursor.nullable_string()?;
        }
        cursor.tags(|tag, mut field| {
            if tag == 0 && version >= LEADER_HINTS_SINCE {
                partition.current_leader = Some(LeaderIdAndEpoch::read(&mut field, version)?);
                field.finish()?;
            }
            Ok(())
        })?;
        Ok(partition)
    }
}

impl Field for PartitionProduceResponse<'_> {
    fn write<S: Sink>(&self, out: &mut S, version: i16) {
        out.i32(self.index);
        out.i16(self.error_code.code());
        out.i64(self.base_offset);
        out.i64(self.log_append_time_ms);
        if version >= LOG_START_OFFSET_SINCE {
            out.i64(self.log_start_offset);
        }
        if version >= RECORD_ERRORS_SINCE {
            self.record_errors.write(out, version);
            out.nullable_string(self.error_message.as_deref());
        }
        match &self.current_leader {
            Some(leader) if version >= LEADER_HINTS_SINCE => {
                out.tag_count(1);
                out.tag(0, leader, version);
            }
            _ => out.tag_count(0),
        }
    }
}

/// A record that made its batch fail (KIP-467).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError<'a> {
    /// The record's place in its batch, from 0.
    pub batch_index: i32,
    /// What is wrong with it.
    pub message: Option<Cow<'a, str>>,
}

impl<'a> Element<'a> for RecordError<'a> {
    const MIN_BYTES: usize = 6;

    fn read(cursor: &mut Cursor<'a>, _: i16) -> Result<Self, DecodeError> {
        let error = Self { batch_index: cursor.i32()?, message: cursor.nullable_string()? };
        cursor.skip_tags()?;
        Ok(error)
    }
}

impl Field for RecordError<'_> {
    fn write<S: Sink>(&self, out: &mut S, _: i16) {
        out.i32(self.batch_index);
        out.nullable_string(self.message.as_deref());
        out.tag_count(0);
    }
}
