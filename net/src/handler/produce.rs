//! Produce (key 0): each batch checked here, appended by its owning shard in arrival order,
//! answered when the acks rule holds.
//!
//! Owns the order of checks of protocol.md 3.5. The request's frame is let go as soon as its
//! batches are appended: what waits for the disk holds no receive buffer.

use std::{borrow::Cow, rc::Rc, sync::Arc};

use millrace_engine::{
    batch::{self, Accepted, Begun, Codec, Rejection, Rules},
    config::{CompressionType, TimestampType, TopicConfig},
    io::{
        Clock, Spawn,
        buf::{Chain, TailBuf},
        runtime::RealEnv,
    },
    limits::{DECOMPRESSED_BATCH_CAP_BYTES, QUICK_RECORDS_BYTES},
    meta::Topic,
    shard::{Produced, join::Join},
    types::{PartitionIndex, TopicId, TopicPartition},
};
use smallvec::SmallVec;

use super::{
    Broker,
    errors::{code_of_failure, code_of_rejection},
    patience::Patience,
};
use crate::limits::{BATCH_SHARE, MOVED_AT_A_TIME_BYTES, PRODUCED_AT_A_TIME};
use crate::wire::{
    Cursor, Decode, DecodeError, ErrorCode, Grouped, Item, List, RequestHeader, Topic as WireTopic,
    produce::{
        PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse,
        RecordError,
    },
};

/// From this version on a batch may be compressed with zstd (KIP-110).
const ZSTD_SINCE: i16 = 7;

/// From this version on topics are named by their ids (KIP-516).
const TOPIC_IDS_SINCE: i16 = 13;

/// A request whose batches have their places; the answer is due when the acks rule holds.
pub struct Started {
    version: i16,
    correlation_id: i32,
    /// `None` is a number that means nothing.
    acks: Option<i8>,
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

    /// To be sent again: of the errors that clients retry, they take this one for "not appended".
    fn crowded() -> Box<Self> {
        let message = "Too many large batches wait for their checks; this one was not appended.";
        let message = Some(message.to_owned());
        Box::new(Self { error: ErrorCode::KafkaStorageError, message, records: Vec::new() })
    }

    /// Memory that it takes, in bytes.
    fn held_bytes(&self) -> usize {
        let records = self.records.iter().map(|(_, text)| size_of::<(i32, String)>() + text.len());
        size_of::<Self>() + self.message.as_ref().map_or(0, String::len) + records.sum::<usize>()
    }
}

/// Takes a request, a whole frame: completes when each batch has its place in its log's order.
///
/// # Errors
/// A frame that is no Produce request; the connection is to be closed.
pub async fn start(broker: &Broker, frame: Chain) -> Result<Started, DecodeError> {
    let (header, request) = request_of(&frame)?;
    let mut started = Started::new(broker, &header, &request);
    if started.take_items(broker, &request, Place::Shared).await == Taken::All {
        return Ok(started);
    }
    let Some(_reserved) = broker.long_frames.reserve(frame.len()) else {
        let taken = started.take_items(broker, &request, Place::Crowded).await;
        assert!(taken == Taken::All, "what would stop there is refused");
        return Ok(started);
    };
    // While long work waits for its turn, the frame holds no receive buffers.
    let frame = moved_out(broker.shard.env(), frame).await;
    let (_, request) = request_of(&frame)?;
    let taken = started.take_items(broker, &request, Place::Own).await;
    assert!(taken == Taken::All, "nothing stops work on a frame in a place of its own");
    Ok(started)
}

fn request_of(frame: &Chain) -> Result<(RequestHeader<'_>, ProduceRequest<'_>), DecodeError> {
    let mut body = Cursor::new(frame);
    let header = RequestHeader::read(&mut body)?;
    let request = ProduceRequest::read(body, header.version)?;
    Ok((header, request))
}

/// Where a request's bytes lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In receive buffers.
    Shared,
    /// There as well, and must not leave: too many others wait for long work.
    Crowded,
    /// In memory of their own.
    Own,
}

/// How far a request was taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    All,
    /// Up to a batch that is long work.
    Some,
}

impl Started {
    fn new(broker: &Broker, header: &RequestHeader<'_>, request: &ProduceRequest<'_>) -> Self {
        let count = request.topics.iter().filter(|item| matches!(item, Item::Partition(_))).count();
        let timeout_ms = u64::try_from(request.timeout_ms).unwrap_or(0);
        Self {
            version: header.version,
            correlation_id: header.correlation_id,
            acks: i8::try_from(request.acks).ok().filter(|acks| (-1..=1).contains(acks)),
            deadline_ns: broker.shard.env().monotonic_ns() + timeout_ms * 1_000_000,
            topics: SmallVec::new(),
            partitions: SmallVec::with_capacity(count),
            join: Join::new(count),
        }
    }

    /// Takes what is left of the request; stops at long work if the frame is in a shared place.
    async fn take_items(
        &mut self,
        broker: &Broker,
        request: &ProduceRequest<'_>,
        place: Place,
    ) -> Taken {
        let taken = self.topics.len() + self.partitions.len();
        for (count, item) in request.topics.iter().skip(taken).enumerate() {
            if count % PRODUCED_AT_A_TIME == PRODUCED_AT_A_TIME - 1 {
                broker.shard.env().yield_now().await;
            }
            match item {
                Item::Topic(topic) => self.topics.push(find_topic(broker, &topic)),
                Item::Partition(data) => {
                    let index = data.index;
                    let Some(refused) = start_partition(broker, self, data, place).await else {
                        return Taken::Some;
                    };
                    if refused.is_some() {
                        // Nobody else answers for it.
                        drop(self.join.slot(self.partitions.len()));
                    }
                    self.partitions.push(StartedPartition { index, refused });
                }
            }
        }
        Taken::All
    }
}

/// The frame in memory of its own. Other tasks run between two pieces.
async fn moved_out(env: &RealEnv, frame: Chain) -> Chain {
    let mut moved = Chain::new();
    let mut at = 0;
    while at < frame.len() {
        let end = frame.len().min(at + MOVED_AT_A_TIME_BYTES);
        let mut piece = TailBuf::unpooled(end - at);
        piece.append_all(&frame.sub(at..end));
        moved.push(piece.freeze());
        at = end;
        env.yield_now().await;
    }
    moved
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

/// Checks one batch and hands it to its owner; what is returned was not appended. `None` is long
/// work, to be tried again from a frame in memory of its own.
async fn start_partition(
    broker: &Broker,
    started: &Started,
    data: PartitionProduceData,
    place: Place,
) -> Option<Option<Box<Refused>>> {
    let topic = match find_partition(started, data.index) {
        Ok(topic) => topic,
        Err(error) => return Some(Some(Refused::plain(error))),
    };
    let now_ms = broker.shard.env().wall_ms();
    let pool_bytes = broker.shard.pool().budget_bytes();
    let rules = rules_of(&topic.config, started.version, pool_bytes);
    let accepted = match begin(topic, &data.records, &rules, now_ms) {
        Ok(Step::Accepted(accepted)) => Ok(accepted),
        Ok(Step::Long(_)) if place == Place::Shared => return None,
        Ok(Step::Long(_)) if place == Place::Crowded => return Some(Some(Refused::crowded())),
        Ok(Step::Long(long)) => {
            // Off this core. The connection's later requests wait, which keeps their order.
            broker.shard.env().run_long(move || long.finish(&rules)).await
        }
        Err(rejection) => Err(rejection),
    };
    let accepted = match accepted {
        Ok(accepted) => accepted,
        Err(rejection) => return Some(Some(refused_of(rejection))),
    };
    let key = TopicPartition { topic: topic.id, partition: PartitionIndex(data.index) };
    let slot = started.join.slot(started.partitions.len());
    broker.shard.produce(key, accepted, started.acks(), now_ms, slot).await;
    Some(None)
}

/// The topic named last, if it has the partition and as many replicas as the acks ask for.
fn find_partition(started: &Started, index: i32) -> Result<&Topic, ErrorCode> {
    if started.acks.is_none() {
        return Err(ErrorCode::InvalidRequiredAcks);
    }
    let topic = match started.topics.last().map(|topic| &topic.name) {
        Some(StartedName::Known(topic)) => topic,
        None => return Err(ErrorCode::UnknownTopicOrPartition),
        Some(StartedName::Unknown(..)) if started.version < TOPIC_IDS_SINCE => {
            return Err(ErrorCode::UnknownTopicOrPartition);
        }
        Some(StartedName::Unknown(..)) => return Err(ErrorCode::UnknownTopicId),
    };
    let state = usize::try_from(index).ok().and_then(|index| topic.partitions.get(index));
    let state = state.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if started.acks == Some(-1) && state.isr.len() < topic.config.min_insync_replicas {
        return Err(ErrorCode::NotEnoughReplicas);
    }
    Ok(topic)
}

/// What a batch still needs.
enum Step {
    /// Nothing.
    Accepted(Accepted),
    /// Work that a shard does not do on its core.
    Long(LongWork),
}

/// The rest of a batch's check, then its recompression.
struct LongWork {
    begun: Begun,
    /// The codec to end up with and its level, where the topic insists on one.
    wanted: Option<(Codec, Option<i32>)>,
}

impl LongWork {
    fn finish(self, rules: &Rules) -> Result<Accepted, Rejection> {
        let accepted = self.begun.finish()?;
        match self.wanted {
            None => Ok(accepted),
            Some((codec, level)) => batch::recompress(&accepted, codec, level, rules),
        }
    }
}

/// The part of the work on a batch that is quick.
fn begin(topic: &Topic, records: &Chain, rules: &Rules, now_ms: i64) -> Result<Step, Rejection> {
    let wanted = codec_of(topic.config.compression_type).map(|codec| {
        let level = match codec {
            Codec::Gzip => Some(topic.config.compression_gzip_level).filter(|level| *level != -1),
            Codec::Zstd => Some(topic.config.compression_zstd_level),
            _ => None,
        };
        (codec, level)
    });
    Ok(match batch::begin(records, rules, now_ms, QUICK_RECORDS_BYTES)? {
        Begun::Done(accepted)
            if wanted.is_none_or(|(codec, _)| accepted.header.codec() == Some(codec)) =>
        {
            Step::Accepted(accepted)
        }
        begun => Step::Long(LongWork { begun, wanted }),
    })
}

/// What a batch of a topic must keep to. One that takes most of the shard's buffers, of which there
/// are `pool_bytes`, would wait for ever, and its partition behind it.
fn rules_of(config: &TopicConfig, version: i16, pool_bytes: usize) -> Rules {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    Rules {
        compacted: config.cleanup_policy.compact,
        timestamp_type: match config.message_timestamp_type {
            TimestampType::CreateTime => batch::TimestampType::CreateTime,
            TimestampType::LogAppendTime => batch::TimestampType::LogAppendTime,
        },
        timestamp_before_max_ms: config.message_timestamp_before_max_ms,
        timestamp_after_max_ms: config.message_timestamp_after_max_ms,
        max_message_bytes: config.max_message_bytes.min(pool_bytes / BATCH_SHARE),
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
    /// The acks asked for; what means nothing is answered as all.
    fn acks(&self) -> i8 {
        self.acks.unwrap_or(-1)
    }

    /// Memory that it takes until it is answered, in bytes, about.
    pub fn held_bytes(&self) -> usize {
        let topics = self.topics.iter().map(|topic| match &topic.name {
            StartedName::Known(_) => size_of::<StartedTopic>(),
            StartedName::Unknown(name, _) => size_of::<StartedTopic>() + name.len(),
        });
        let partitions = self.partitions.iter().map(|partition| {
            let refused = partition.refused.as_ref().map_or(0, |refused| refused.held_bytes());
            size_of::<StartedPartition>() + size_of::<Option<Produced>>() + refused
        });
        topics.sum::<usize>() + partitions.sum::<usize>()
    }

    /// Waits for the acks rule and encodes the answer: `None` closes the connection (acks 0 and
    /// something failed, as in Kafka), `Some(None)` sends nothing. What is appended when the time
    /// is up stays so.
    pub async fn finish(self, broker: &Rc<Broker>, patience: &Patience) -> Option<Option<Chain>> {
        let Self { version, correlation_id, acks, deadline_ns, topics, partitions, join } = self;
        let mut missing = ErrorCode::NotLeaderOrFollower;
        if acks == Some(0) {
            join.settled().await;
        } else if patience.wait(join.settled(), deadline_ns).await.is_none() {
            missing = ErrorCode::RequestTimedOut;
        }
        let produced = join.take();
        if acks == Some(0) {
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
    use millrace_engine::{config::BrokerConfig, limits::BUFFER_BUDGET_PER_SHARD_BYTES};

    use super::*;

    #[test]
    fn no_setting_lets_a_batch_grow_beyond_the_cap() {
        let broker = BrokerConfig::default();
        let rules = rules_of(&broker.topic_defaults, 9, BUFFER_BUDGET_PER_SHARD_BYTES);
        assert!(rules.decompressed_cap_bytes <= DECOMPRESSED_BATCH_CAP_BYTES);
    }

    #[test]
    fn no_setting_lets_a_batch_take_most_of_the_buffers() {
        let mut config = TopicConfig::clone(&BrokerConfig::default().topic_defaults);
        for pool_bytes in [4 << 20, BUFFER_BUDGET_PER_SHARD_BYTES] {
            // The default fits into the least that may be set.
            let least = BrokerConfig::default().topic_defaults.max_message_bytes;
            config.max_message_bytes = least;
            assert_eq!(rules_of(&config, 9, pool_bytes).max_message_bytes, least);
            config.max_message_bytes = usize::MAX;
            assert_eq!(rules_of(&config, 9, pool_bytes).max_message_bytes, pool_bytes / 2);
        }
    }
}
