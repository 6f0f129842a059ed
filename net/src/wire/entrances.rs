//! Every place where bytes from outside become values, in one list for the tests that attack them.
//!
//! An entrance decodes a whole frame (header and body, without the length) and encodes it again.

use millrace_engine::io::buf::Chain;

use super::{
    ApiKey, Cursor, Decode, DecodeError, EncodeError, Encoder, Message, Request, RequestHeader,
    api_versions::ApiVersionsRequest,
    fetch::FetchRequest,
    produce::ProduceRequest,
    typed::{
        alter_configs::AlterConfigsRequest, create_partitions::CreatePartitionsRequest,
        create_topics::CreateTopicsRequest, delete_records::DeleteRecordsRequest,
        delete_topics::DeleteTopicsRequest, describe_cluster::DescribeClusterRequest,
        describe_configs::DescribeConfigsRequest, find_coordinator::FindCoordinatorRequest,
        incremental_alter_configs::IncrementalAlterConfigsRequest,
        init_producer_id::InitProducerIdRequest, list_offsets::ListOffsetsRequest,
        metadata::MetadataRequest, offset_for_leader_epoch::OffsetForLeaderEpochRequest,
    },
};

/// What became of a frame.
#[derive(Debug)]
pub enum Outcome {
    /// It was refused.
    Refused(DecodeError),
    /// It was understood, but cannot be written again.
    Unwritable(EncodeError),
    /// It was understood; here it is again, with its length.
    Written(Chain),
}

impl From<DecodeError> for Outcome {
    fn from(error: DecodeError) -> Self {
        Self::Refused(error)
    }
}

impl From<EncodeError> for Outcome {
    fn from(error: EncodeError) -> Self {
        Self::Unwritable(error)
    }
}

/// One kind of frame, and how to read and rewrite it.
#[derive(Clone, Copy, Debug)]
pub struct Entrance {
    /// The API.
    pub key: ApiKey,
    /// Whether it takes requests, as a broker does, or responses, as a client does.
    pub is_request: bool,
    /// Reads a frame and writes it again. Requests name their version in the frame; for responses
    /// it is given.
    pub pass: fn(&mut Encoder, &Chain, i16) -> Outcome,
}

macro_rules! entrances {
    ($($request:ident,)*) => {
        /// All entrances.
        pub const ENTRANCES: &[Entrance] = &[$(
            Entrance { key: $request::KEY, is_request: true, pass: |encoder, frame, _| {
                outcome(|| {
                    let mut cursor = Cursor::new(frame);
                    let header = served_header(&mut cursor, $request::KEY)?;
                    let body = $request::read(cursor, header.version)?;
                    Ok(encoder.request(&header, &body)?)
                })
            } },
            Entrance { key: $request::KEY, is_request: false, pass: |encoder, frame, version| {
                outcome(|| {
                    let (id, body) = $request::read_response(frame, version)?;
                    Ok(encoder.response(version, id, &body)?)
                })
            } },
        )*];
    };
}

entrances! {
    ProduceRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    FindCoordinatorRequest,
    ApiVersionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteRecordsRequest,
    InitProducerIdRequest,
    OffsetForLeaderEpochRequest,
    DescribeConfigsRequest,
    AlterConfigsRequest,
    CreatePartitionsRequest,
    IncrementalAlterConfigsRequest,
    DescribeClusterRequest,
}

fn outcome(pass: impl FnOnce() -> Result<Chain, Outcome>) -> Outcome {
    match pass() {
        Ok(chain) => Outcome::Written(chain),
        Err(outcome) => outcome,
    }
}

/// The header of a request to `key` that is served.
fn served_header<'a>(
    cursor: &mut Cursor<'a>,
    key: ApiKey,
) -> Result<RequestHeader<'a>, DecodeError> {
    let header = RequestHeader::read(cursor)?;
    if header.key != key || !key.serves(header.version) {
        return Err(DecodeError::UnsupportedVersion(header.key, header.version));
    }
    Ok(header)
}
