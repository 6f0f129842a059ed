//! Headers between cores: rkyv frames with a schema id, checked when they are read.
//!
//! A frame holds what a shard is asked or answered; the payload handle travels beside it and is
//! never part of it. Fixed size, so that a hop allocates nothing.

#![expect(missing_docs, reason = "the derived archived types repeat the documented ones")]

use rkyv::{
    Archive, Deserialize, Serialize,
    api::low::{from_bytes, to_bytes_in_with_alloc},
    rancor::Failure,
    ser::{allocator::SubAllocator, writer::Buffer},
    util::Align,
};

use crate::limits::HOP_FRAME_BYTES;

/// Names the layout of [`Header`]; grows with every change to it.
pub const SCHEMA: u32 = 3;

/// What one shard asks or answers another. Integers only: their meaning is the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub enum Header {
    /// Append a checked batch; its bytes from the 62nd on travel beside.
    Produce {
        /// The asking shard's token.
        token: u64,
        /// Whose log.
        partition: PartitionKey,
        /// Kafka's acks: 0, 1 or -1.
        acks: i8,
        /// Wall clock of the asking shard, in milliseconds.
        now_ms: i64,
        /// The first 61 bytes of the batch, as they are to be stored.
        batch: [u8; 61],
    },
    /// The answer to `Produce`.
    Produced {
        /// The asking shard's token.
        token: u64,
        /// What became of it.
        result: ProducedCode,
    },
    /// Read from a log.
    Read {
        /// The asking shard's token.
        token: u64,
        /// Whose log.
        partition: PartitionKey,
        /// What to read.
        read: ReadSpec,
        /// Whether only to say how much there is to read.
        counts: bool,
        /// The token to notify when the partition moves, if the asker may wait; else zero.
        watch: u64,
    },
    /// The answer to `Read`; the bytes travel beside.
    ReadDone {
        /// The asking shard's token.
        token: u64,
        /// What was found.
        result: ReadCode,
    },
    /// A watched partition has moved.
    Moved {
        /// The watch token of `Read`.
        watch: u64,
    },
    /// The watch is no longer of interest.
    Unwatch {
        /// The watch token of `Read`.
        watch: u64,
        /// The partition that is watched.
        partition: PartitionKey,
    },
    /// A question that is not on the hot path.
    Call {
        /// The asking shard's token.
        token: u64,
        /// Whose log.
        partition: PartitionKey,
        /// The question.
        call: CallCode,
        /// Its argument.
        argument: i64,
    },
    /// The answer to `Call`.
    CallDone {
        /// The asking shard's token.
        token: u64,
        /// What was found.
        result: CallResultCode,
    },
    /// The sender asks nothing any more: its connections are closed.
    Drained {
        /// The sender.
        shard: u16,
    },
    /// The sender has given up what the metadata image of this version deletes.
    Retired {
        /// The sender.
        shard: u16,
        /// The version.
        version: u64,
    },
    /// The sender has applied the metadata image of this version.
    Applied {
        /// The sender.
        shard: u16,
        /// The version.
        version: u64,
    },
}

/// A partition in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct PartitionKey {
    /// Topic id.
    pub topic: [u8; 16],
    /// Partition index.
    pub partition: i32,
}

/// The answer to a produce, as integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct ProducedCode {
    /// 0, or the position of the failure in its enumeration.
    pub failure: u8,
    /// Offset of the first record.
    pub base_offset: i64,
    /// Offset of the last record.
    pub last_offset: i64,
    /// Append time, or -1.
    pub log_append_time_ms: i64,
    /// Log start of the partition.
    pub log_start: i64,
    /// Whether the batch was there before.
    pub duplicate: bool,
}

/// What a fetch wants of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct ReadSpec {
    /// First offset wanted.
    pub offset: i64,
    /// The most bytes wanted; the first batch may exceed it.
    pub max_bytes: u32,
    /// The asker's leader epoch, or -1.
    pub leader_epoch: i32,
    /// Whether to stop at the last stable offset.
    pub read_committed: bool,
}

/// The answer to a read, as integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct ReadCode {
    /// 0, or the position of the failure in its enumeration.
    pub failure: u8,
    /// High watermark.
    pub high_watermark: i64,
    /// Last stable offset.
    pub last_stable_offset: i64,
    /// Log start offset.
    pub log_start: i64,
    /// Bytes that could be read, where that was all that was asked.
    pub readable_bytes: u64,
}

/// Questions off the hot path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub enum CallCode {
    /// First offset.
    Earliest,
    /// High watermark.
    Latest,
    /// Last stable offset.
    LatestStable,
    /// First record at or after the argument, a time in milliseconds.
    AtTimestamp,
    /// The record of the largest timestamp.
    MaxTimestamp,
    /// Raise the log start to the argument; -1 is the high watermark.
    DeleteRecords,
    /// End offset of the largest epoch at or below the argument.
    EpochEnd,
}

/// The answer to a call, as integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct CallResultCode {
    /// 0, or the position of the failure in its enumeration.
    pub failure: u8,
    /// Offset, or -1.
    pub offset: i64,
    /// Timestamp in milliseconds, or -1.
    pub timestamp_ms: i64,
    /// Leader epoch, or -1.
    pub leader_epoch: i32,
}

/// An encoded [`Header`].
#[derive(Clone)]
pub struct Frame {
    schema: u32,
    length: u32,
    bytes: Align<[u8; HOP_FRAME_BYTES]>,
}

/// A frame that does not check out: another schema, or bytes that are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFrame;

impl Frame {
    /// Encodes `header`, without allocating.
    #[must_use]
    pub fn encode(header: &Header) -> Self {
        let mut bytes = Align([0; HOP_FRAME_BYTES]);
        let written = to_bytes_in_with_alloc::<_, _, Failure>(
            header,
            Buffer::from(&mut bytes[..]),
            SubAllocator::new(&mut []),
        )
        .expect("every header fits a frame: a test encodes each")
        .len();
        Self { schema: SCHEMA, length: u32::try_from(written).expect("a frame is small"), bytes }
    }

    /// Checks and decodes the header.
    pub fn decode(&self) -> Result<Header, BadFrame> {
        if self.schema != SCHEMA {
            return Err(BadFrame);
        }
        let bytes = self.bytes.get(..self.length as usize).ok_or(BadFrame)?;
        from_bytes::<Header, Failure>(bytes).map_err(|_| BadFrame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: PartitionKey = PartitionKey { topic: [7; 16], partition: 3 };

    fn every_header() -> Vec<Header> {
        let read = ReadSpec { offset: 9, max_bytes: 1, leader_epoch: -1, read_committed: true };
        vec![
            Header::Produce { token: 1, partition: KEY, acks: -1, now_ms: 5, batch: [9; 61] },
            Header::Produced { token: 1, result: ProducedCode::default() },
            Header::Read { token: 2, partition: KEY, read, counts: true, watch: 8 },
            Header::ReadDone { token: 2, result: ReadCode::default() },
            Header::Moved { watch: 8 },
            Header::Unwatch { watch: 8, partition: KEY },
            Header::Call { token: 3, partition: KEY, call: CallCode::AtTimestamp, argument: 1 },
            Header::CallDone { token: 3, result: CallResultCode::default() },
            Header::Retired { shard: 1, version: 4 },
            Header::Applied { shard: 1, version: 4 },
            Header::Drained { shard: 1 },
        ]
    }

    #[test]
    fn every_header_fits_and_comes_back() {
        for header in every_header() {
            assert_eq!(Frame::encode(&header).decode(), Ok(header));
        }
    }

    #[test]
    fn another_schema_or_other_bytes_are_refused() {
        let mut frame = Frame::encode(&Header::Moved { watch: 1 });
        frame.schema += 1;
        assert_eq!(frame.decode(), Err(BadFrame));
        let mut frame = Frame::encode(&Header::Moved { watch: 1 });
        frame.bytes.fill(0xff);
        assert_eq!(frame.decode(), Err(BadFrame));
        frame.length = u32::MAX;
        assert_eq!(frame.decode(), Err(BadFrame));
    }
}
