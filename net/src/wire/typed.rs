//! Every API off the hot path: typed messages of `kafka-wire`, behind our own traits.
//!
//! Each module holds the messages of one API, made by `Default` and then filled field by field.
//! Handlers name these modules only, so that another codec can take the crate's place.
//!
//! A field that the version of an answer cannot carry must keep its default where Kafka's schema
//! does not call it ignorable, else the answer is [`EncodeError::NotInVersion`]: ListOffsets
//! `leader_epoch` before 4, Metadata `topic_authorized_operations` before 8, DescribeCluster
//! `endpoint_type` before 1 and `is_fenced` before 2, FindCoordinator's single fields from 4 on and
//! its `coordinators` before.
//!
//! A body is gathered into one piece before it is read, within [`REQUEST_BODY_CAP_BYTES`] or
//! [`RESPONSE_BODY_CAP_BYTES`]. Vectors grow as elements arrive, never by a claimed count; a test
//! holds the worst request to 76 times its own length while it is handled.

use kafka_wire_core::{
    ApiVersion, Bytes, BytesMut, DecodeLimits, Decoder, KafkaDecode, KafkaEncode,
};
pub use kafka_wire_core::{StrBytes, Uuid};
use millrace_engine::types::TopicId;

use super::{ApiKey, Cursor, Decode, DecodeError, EncodeError, Message, Request, Sink};

/// Longest request body off the hot path, in bytes: some 10,000 topics with long names.
pub const REQUEST_BODY_CAP_BYTES: usize = 1 << 20;

/// Longest response body off the hot path that a client reads, in bytes.
pub const RESPONSE_BODY_CAP_BYTES: usize = 64 << 20;

/// Elements of one array in a request.
const REQUEST_ARRAY_CAP: usize = 1 << 16;

/// Unknown tagged fields of one struct: none are known to be sent, and each takes 40 bytes.
const TAGS_CAP: usize = 16;

/// Bytes of all unknown tagged fields of one struct.
const TAG_BYTES_CAP: usize = 64 << 10;

/// The 16 bytes of a topic id as typed messages carry them.
#[must_use]
pub fn uuid(topic_id: TopicId) -> Uuid {
    Uuid::from_bytes(topic_id.0)
}

/// The topic id of a typed message.
#[must_use]
pub fn topic_id(uuid: Uuid) -> TopicId {
    TopicId(uuid.to_bytes())
}

fn request_limits() -> DecodeLimits {
    let mut limits = response_limits();
    limits.max_frame_bytes = REQUEST_BODY_CAP_BYTES;
    limits.max_array_elements = REQUEST_ARRAY_CAP;
    limits
}

fn response_limits() -> DecodeLimits {
    let mut limits = DecodeLimits::default();
    limits.max_frame_bytes = RESPONSE_BODY_CAP_BYTES;
    limits.max_string_bytes = usize::from(i16::MAX.unsigned_abs());
    limits.max_bytes_bytes = RESPONSE_BODY_CAP_BYTES;
    limits.max_tagged_fields = TAGS_CAP;
    limits.max_tag_bytes = TAG_BYTES_CAP;
    limits.max_total_tag_bytes = TAG_BYTES_CAP;
    limits
}

fn read<T: KafkaDecode>(
    mut cursor: Cursor<'_>,
    version: i16,
    limits: DecodeLimits,
) -> Result<(T, usize), DecodeError> {
    if cursor.remaining() > limits.max_frame_bytes {
        return Err(DecodeError::Length);
    }
    let body = Bytes::from(cursor.gather()?);
    let mut decoder = Decoder::new(body, limits).map_err(decode_error)?;
    let message = T::decode(&mut decoder, ApiVersion::new(version)).map_err(decode_error)?;
    Ok((message, decoder.remaining()))
}

fn decode_error(error: kafka_wire_core::DecodeError) -> DecodeError {
    use kafka_wire_core::DecodeError as Theirs;
    match error {
        Theirs::UnexpectedEnd { .. } => DecodeError::Truncated,
        Theirs::NegativeLength { .. }
        | Theirs::LimitExceeded { .. }
        | Theirs::CountExceedsFrame { .. }
        | Theirs::LengthOverflow { .. } => DecodeError::Length,
        Theirs::NullNotAllowed { .. } => DecodeError::Null,
        Theirs::MalformedVarint { .. } => DecodeError::Varint,
        _ => DecodeError::Schema,
    }
}

fn write<T: KafkaEncode, S: Sink>(message: &T, out: &mut S, version: i16) {
    let version = ApiVersion::new(version);
    let length = match message.encoded_len(version) {
        Ok(length) => length,
        Err(error) => return out.fail(encode_error(&error)),
    };
    out.put_made(length, || {
        let mut bytes = BytesMut::with_capacity(length);
        message.encode_into(&mut bytes, version).map_err(|error| encode_error(&error))?;
        Ok(bytes.freeze())
    });
}

fn encode_error(error: &kafka_wire_core::EncodeError) -> EncodeError {
    use kafka_wire_core::EncodeError as Theirs;
    match error {
        Theirs::LengthOverflow { .. }
        | Theirs::FrameTooLarge { .. }
        | Theirs::FrameLimitExceeded { .. } => EncodeError::TooLong,
        _ => EncodeError::NotInVersion,
    }
}

macro_rules! typed_apis {
    ($($module:ident: $key:ident, $request:ident in $requests:ident,
       $response:ident in $responses:ident;)*) => {
        $(
            #[doc = concat!("The messages of ", stringify!($key), ".")]
            pub mod $module {
                pub use kafka_wire::{$requests::*, $responses::*};
            }

            impl Message for $module::$request {
                const KEY: ApiKey = ApiKey::$key;

                fn write<S: Sink>(&self, out: &mut S, version: i16) {
                    write(self, out, version);
                }
            }

            impl Decode<'_> for $module::$request {
                fn read(cursor: Cursor<'_>, version: i16) -> Result<Self, DecodeError> {
                    read(cursor, version, request_limits()).map(|(request, _)| request)
                }
            }

            impl Request for $module::$request {
                type Response<'r> = $module::$response;
            }

            impl Message for $module::$response {
                const KEY: ApiKey = ApiKey::$key;

                fn write<S: Sink>(&self, out: &mut S, version: i16) {
                    write(self, out, version);
                }
            }

            impl Decode<'_> for $module::$response {
                fn read(cursor: Cursor<'_>, version: i16) -> Result<Self, DecodeError> {
                    match read(cursor, version, response_limits())? {
                        (response, 0) => Ok(response),
                        (_, left) => Err(DecodeError::TrailingBytes(left)),
                    }
                }
            }
        )*
    };
}

typed_apis! {
    list_offsets: ListOffsets, ListOffsetsRequest in list_offsets_request,
        ListOffsetsResponse in list_offsets_response;
    metadata: Metadata, MetadataRequest in metadata_request,
        MetadataResponse in metadata_response;
    find_coordinator: FindCoordinator, FindCoordinatorRequest in find_coordinator_request,
        FindCoordinatorResponse in find_coordinator_response;
    create_topics: CreateTopics, CreateTopicsRequest in create_topics_request,
        CreateTopicsResponse in create_topics_response;
    delete_topics: DeleteTopics, DeleteTopicsRequest in delete_topics_request,
        DeleteTopicsResponse in delete_topics_response;
    delete_records: DeleteRecords, DeleteRecordsRequest in delete_records_request,
        DeleteRecordsResponse in delete_records_response;
    init_producer_id: InitProducerId, InitProducerIdRequest in init_producer_id_request,
        InitProducerIdResponse in init_producer_id_response;
    offset_for_leader_epoch: OffsetForLeaderEpoch,
        OffsetForLeaderEpochRequest in offset_for_leader_epoch_request,
        OffsetForLeaderEpochResponse in offset_for_leader_epoch_response;
    describe_configs: DescribeConfigs, DescribeConfigsRequest in describe_configs_request,
        DescribeConfigsResponse in describe_configs_response;
    alter_configs: AlterConfigs, AlterConfigsRequest in alter_configs_request,
        AlterConfigsResponse in alter_configs_response;
    create_partitions: CreatePartitions, CreatePartitionsRequest in create_partitions_request,
        CreatePartitionsResponse in create_partitions_response;
    incremental_alter_configs: IncrementalAlterConfigs,
        IncrementalAlterConfigsRequest in incremental_alter_configs_request,
        IncrementalAlterConfigsResponse in incremental_alter_configs_response;
    describe_cluster: DescribeCluster, DescribeClusterRequest in describe_cluster_request,
        DescribeClusterResponse in describe_cluster_response;
}
