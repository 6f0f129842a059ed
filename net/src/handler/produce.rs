//! Produce (key 0): each batch checked here, appended by its owning shard in arrival order,
//! answered when the acks rule holds.
//!
//! Owns the order of checks of protocol.md 3.5. The request's frame is let go as soon as its
//! batches are appended: what waits for the disk holds no receive buffer.

use std::{borrow::Cow, rc::Rc, sync::Arc, time::Duration};

use millrace_engine::{
    batch::{self, Accepted, Codec, Rejection, Rules},
    config::{CompressionType, TimestampType, TopicConfig},
    io::{Clock, Spawn, buf::Chain},
    limits::DECOMPRESSED_BATCH_CAP_BYTES,
    meta::Topic,
    shard::{
        Produced,
        join::{Join, Slot},
        signal::race,
    },
    types::{PartitionIndex, TopicId, TopicPartition},
};
use smallvec::SmallVec;

use super::{
    Broker,
    errors::{code_of_failure, code_of_rejection},
};
use crate::wire::{
    Cursor, Decode, DecodeError, ErrorCode, Grouped, Item, List, RequestHeader, Topic as WireTopic,
    produce::{PartitionProduceResponse, ProduceRequest, ProduceResponse, RecordError},
};

/// From this version on a batch may be compressed with zstd (KIP-110).
const ZSTD_SINCE: i16 = 7;

/// From this version on topics are named by their ids (KIP-516).
const TOPIC_IDS_SINCE: i16 = 13;

/// A request whose batches have their places; the answer is due when the acks rule holds.
pub struct Started {
    version: i16,
    correlation_id: i32,
    acks: i8,
    /// When the producer stops waiting for the acks rule, on the monotonic clock.
    deadline_ns: u64,
    topics: SmallVec<[StartedTopic; 1]>,
    partitions: SmallVec<[StartedPartition; 4]>,
    join: Join<Produced>,
}

/// The topic as the request named it, independent of the request's frame.
enum StartedName {
    Known(Arc<Topic>),
    Unknown(String, TopicId),
}

struct StartedTopic {
    name: StartedName,
    partitions: usize,
}

struct StartedPartition {
    index: i32,
    refused: Option<Box<Refused>>,
}

struct Refused {
    error: ErrorCode,
    message: Option<String>,
    records: Vec<(i32, String)>,
}

impl Refused {
    fn plain(error: ErrorCode) -> Box<Self> {
        Box::new(Self { error, message: None, records: Vec::new() })
    }
}

/// Takes a request: completes when each batch has its place in its log's order.
///
/// # Errors
/// A body that is no Produce request; the connection is to be closed.
pub async fn start(
    broker: &Broker,
    header: &RequestHeader<'_>,
    body: Cursor<'_>,
) -> Result<Started, DecodeError> {
    let request = ProduceRequest::read(body, header.version)?;
    let count = request.topics.iter().filter(|item| matches!(item, Item::Partition(_))).count();
    let acks = i8::try_from(request.acks).ok().filter(|acks| (-1..=1).contains(acks));
    let timeout_ms = u64::try_from(request.timeout_ms).unwrap_or(0);
    let mut started = Started {
        version: header.version,
        correlation_id: header.correlation_id,
        acks: acks.unwrap_or(-1),
        deadline_ns: broker.shard.env().monotonic_ns() + timeout_ms * 1_000_000,
        topics: SmallVec::new(),
        partitions: SmallVec::with_capacity(count),
        join: Join::new(count),
    };
    for item in request.topics.iter() {
        match item {
            Item::Topic(topic) => started.topics.push(find_topic(broker, &topic)),
            Item::Partition(data) => {
                let slot = started.join.slot(started.partitions.len());
                let refused = if acks.is_some() {
                    start_partition(broker, &started, data.records, data.index, slot).await
                } else {
                    Some(Refused::plain(ErrorCode::InvalidRequiredAcks))
                };
                started.partitions.push(StartedPartition { index: data.index, refused });
            }
        }
    }
    Ok(started)
}

fn find_topic(broker: &Broker, topic: &WireTopic<'_>) -> StartedTopic {
    let image = broker.image();
    let known = if topic.topic_id == TopicId::NONE {
        image.topic(&topic.name)
    } else {
        image.topic_by_id(topic.topic_id)
    };
    let name = match known {
        Some(known) => StartedName::Known(known.clone()),
        None => StartedName::Unknown(topic.name.to_string(), topic.topic_id),
    };
    StartedTopic { name, partitions: topic.partitions }
}

/// Checks one batch and hands it to its owner; what is returned was not appended.
async fn start_partition(
    broker: &Broker,
    started: &Started,
    records: Chain,
    index: i32,
    slot: Slot<Produced>,
) -> Option<Box<Refused>> {
    let topic = match &started.topics.last()?.name {
        StartedName::Known(topic) => topic,
        StartedName::Unknown(..) if started.version < TOPIC_IDS_SINCE => {
            return Some(Refused::plain(ErrorCode::UnknownTopicOrPartition));
        }
        StartedName::Unknown(..) => return Some(Refused::plain(ErrorCode::UnknownTopicId)),
    };
    let state = usize::try_from(index).ok().and_then(|index| topic.partitions.get(index));
    let Some(state) = state else {
        return Some(Refused::plain(ErrorCode::UnknownTopicOrPartition));
    };
    if started.acks == -1 && state.isr.len() < topic.config.min_insync_replicas {
        return Some(Refused::plain(ErrorCode::NotEnoughReplicas));
    }
    let now_ms = broker.shard.env().wall_ms();
    let accepted = match check(broker, topic, &records, started.version, now_ms).await {
        Ok(accepted) => accepted,
        Err(rejection) => return Some(refused_of(rejection)),
    };
    let key = TopicPartition { topic: topic.id, partition: PartitionIndex(index) };
    broker.shard.produce(key, accepted, started.acks, now_ms, slot).await;
    None
}

async fn check(
    broker: &Broker,
    topic: &Topic,
    records: &Chain,
    version: i16,
    now_ms: i64,
) -> Result<Accepted, Rejection> {
    let rules = rules_of(&topic.config, version);
    let accepted = batch::check(records, &rules, now_ms)?;
    let Some(codec) = codec_of(topic.config.compression_type) else { return Ok(accepted) };
    if accepted.header.codec() == Some(codec) {
        return Ok(accepted);
    }
    let level = match codec {
        Codec::Gzip => Some(topic.config.compression_gzip_level).filter(|level| *level != -1),
        Codec::Zstd => Some(topic.config.compression_zstd_level),
        _ => None,
    };
    // Off this core's hot path. The connection's later requests wait, which keeps their order.
    let work = move || batch::recompress(&accepted, codec, level, &rules);
    broker.shard.env().run_blocking(work).await
}

fn rules_of(config: &TopicConfig, version: i16) -> Rules {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    Rules {
        compacted: config.cleanup_policy.compact,
        timestamp_type: match config.message_timestamp_type {
            TimestampType::CreateTime => batch::TimestampType::CreateTime,
            TimestampType::LogAppendTime => batch::TimestampType::LogAppendTime,
        },
        timestamp_before_max_ms: config.message_timestamp_before_max_ms,
        timestamp_after_max_ms: config.message_timestamp_after_max_ms,
        max_message_bytes: config.max_message_bytes,
        segment_bytes: size(config.segment_bytes),
        allow_zstd: version >= ZSTD_SINCE,
        strict: false,
        // The setting bounds a record, and its default is no bound: a few KiB could ask for 2 GiB.
        decompressed_cap_bytes: config
            .max_decompressed_message_bytes
            .min(DECOMPRESSED_BATCH_CAP_BYTES),
    }
}

/// The codec that a topic insists on; `None` keeps batches as they were sent.
fn codec_of(wanted: CompressionType) -> Option<Codec> {
    match wanted {
        CompressionType::Producer => None,
        CompressionType::Uncompressed => Some(Codec::None),
        CompressionType::Gzip => Some(Codec::Gzip),
        CompressionType::Snappy => Some(Codec::Snappy),
        CompressionType::Lz4 => Some(Codec::Lz4),
        CompressionType::Zstd => Some(Codec::Zstd),
    }
}

fn refused_of(rejection: Rejection) -> Box<Refused> {
    let error = code_of_rejection(&rejection);
    let message = Some(rejection.to_string());
    let records = match rejection {
        Rejection::InvalidRecord { record_errors, .. }
        | Rejection::InvalidTimestamp { record_errors, .. } => record_errors,
        _ => Vec::new(),
    };
    Box::new(Refused { error, message, records })
}

impl Started {
    /// Waits for the acks rule and encodes the answer: `None` closes the connection (acks 0 and
    /// something failed, as in Kafka), `Some(None)` sends nothing. What is appended when the time
    /// is up stays so.
    pub async fn finish(self, broker: &Rc<Broker>) -> Option<Option<Chain>> {
        let Self { version, correlation_id, acks, deadline_ns, topics, partitions, join } = self;
        let env = broker.shard.env();
        let mut missing = ErrorCode::NotLeaderOrFollower;
        if acks == 0 {
            join.settled().await;
        } else {
            let left_ns = deadline_ns.saturating_sub(env.monotonic_ns());
            let time_is_up = env.sleep(Duration::from_nanos(left_ns));
            if race(join.settled(), time_is_up).await.is_none() {
                missing = ErrorCode::RequestTimedOut;
            }
        }
        let produced = join.take();
        if acks == 0 {
            let failed = partitions.iter().zip(&produced).any(|(partition, produced)| {
                partition.refused.is_some() || !matches!(produced, Some(Ok(_)))
            });
            return (!failed).then_some(None);
        }
        let errors: SmallVec<[SmallVec<[RecordError<'_>; 0]>; 4]> =
            partitions.iter().map(record_errors).collect();
        let answers: SmallVec<[PartitionProduceResponse<'_>; 4]> = partitions
            .iter()
            .zip(&produced)
            .zip(&errors)
            .map(|((partition, produced), errors)| {
                answer(partition, produced.as_ref(), errors, missing)
            })
            .collect();
        let topics: SmallVec<[WireTopic<'_>; 1]> = topics.iter().map(wire_topic).collect();
        let response = ProduceResponse {
            topics: Grouped::Values { topics: &topics, partitions: &answers },
            throttle_time_ms: 0,
            node_endpoints: List::default(),
        };
        let mut encoder = broker.encoder.borrow_mut();
        encoder.response(version, correlation_id, &response).ok().map(Some)
    }
}

fn wire_topic(topic: &StartedTopic) -> WireTopic<'_> {
    let (name, topic_id) = match &topic.name {
        StartedName::Known(known) => (&*known.name, known.id),
        StartedName::Unknown(name, id) => (name.as_str(), *id),
    };
    WireTopic { name: Cow::Borrowed(name), topic_id, partitions: topic.partitions }
}

fn record_errors(partition: &StartedPartition) -> SmallVec<[RecordError<'_>; 0]> {
    let records = partition.refused.as_ref().map_or(&[][..], |refused| &refused.records);
    records
        .iter()
        .map(|(index, message)| RecordError {
            batch_index: *index,
            message: Some(Cow::Borrowed(message)),
        })
        .collect()
}

fn answer<'a>(
    partition: &'a StartedPartition,
    produced: Option<&Produced>,
    errors: &'a [RecordError<'a>],
    missing: ErrorCode,
) -> PartitionProduceResponse<'a> {
    let index = partition.index;
    if let Some(refused) = &partition.refused {
        let mut answer = PartitionProduceResponse::refused(index, refused.error);
        answer.error_message = refused.message.as_deref().map(Cow::Borrowed);
        answer.record_errors = List::Values(errors);
        return answer;
    }
    match produced {
        Some(Ok(appended)) => PartitionProduceResponse::appended(
            index,
            appended.base_offset.0,
            appended.log_append_time_ms,
            appended.log_start.0,
        ),
        Some(Err(failure)) => PartitionProduceResponse::refused(index, code_of_failure(*failure)),
        None => PartitionProduceResponse::refused(index, missing),
    }
}

#[cfg(test)]
mod tests {
    use millrace_engine::config::BrokerConfig;

    use super::*;

    #[test]
    fn no_setting_lets_a_batch_grow_beyond_the_cap() {
        let broker = BrokerConfig::default();
        let rules = rules_of(&broker.topic_defaults, 9);
        assert!(rules.decompressed_cap_bytes <= DECOMPRESSED_BATCH_CAP_BYTES);
    }
}
