//! The request: acks, timeout, and per partition one record set.

use std::borrow::Cow;

use millrace_engine::io::buf::Chain;

use super::ProduceResponse;
use crate::wire::{
    ApiKey, Cursor, Decode, DecodeError, Element, Field, Grouped, Message, Request, Sink,
};

/// A Produce request. Neither order nor uniqueness of its partitions is checked.
#[derive(Clone, Debug, Default)]
pub struct ProduceRequest<'a> {
    /// `transactional.id` of the producer, if it is transactional.
    pub transactional_id: Option<Cow<'a, str>>,
    /// 0 for no answer, 1 for the leader, -1 for all in-sync replicas; others are
    /// `INVALID_REQUIRED_ACKS`, which is the handler's to say.
    pub acks: i16,
    /// How long the broker may wait for replicas, in milliseconds.
    pub timeout_ms: i32,
    /// Topics and their record sets.
    pub topics: Grouped<'a, PartitionProduceData>,
}

impl<'a> Decode<'a> for ProduceRequest<'a> {
    fn read(mut cursor: Cursor<'a>, version: i16) -> Result<Self, DecodeError> {
        let request = Self {
            transactional_id: cursor.nullable_string()?,
            acks: cursor.i16()?,
            timeout_ms: cursor.i32()?,
            topics: Grouped::read(&mut cursor, version)?,
        };
        cursor.skip_tags()?;
        Ok(request)
    }
}

impl Message for ProduceRequest<'_> {
    const KEY: ApiKey = ApiKey::Produce;

    fn write<S: Sink>(&self, out: &mut S, version: i16) {
        out.nullable_string(self.transactional_id.as_deref());
        out.i16(self.acks);
        out.i32(self.timeout_ms);
        self.topics.write(out, version);
        out.tag_count(0);
    }
}

impl Request for ProduceRequest<'_> {
    type Response<'r> = ProduceResponse<'r>;
}

/// Records for one partition.
#[derive(Clone, Debug, Default)]
pub struct PartitionProduceData {
    /// The partition.
    pub index: i32,
    /// The record set, sharing the receive buffers; empty also when the request has null.
    pub records: Chain,
}

impl<'a> Element<'a> for PartitionProduceData {
    const MIN_BYTES: usize = 6;

    fn read(cursor: &mut Cursor<'a>, _: i16) -> Result<Self, DecodeError> {
        let index = cursor.i32()?;
        let length = cursor.bytes_length()?.unwrap_or(0);
        let records = cursor.take_chain(length)?;
        cursor.skip_tags()?;
        Ok(Self { index, records })
    }

    fn skip(cursor: &mut Cursor<'a>, _: i16) -> Result<(), DecodeError> {
        cursor.i32()?;
        let length = cursor.bytes_length()?.unwrap_or(0);
        cursor.skip(length)?;
        cursor.skip_tags()
    }
}

impl Field for PartitionProduceData {
    fn write<S: Sink>(&self, out: &mut S, _: i16) {
        out.i32(self.index);
        out.records(&self.records);
        out.tag_count(0);
    }
}
