//! Fetch (key 1): reads from the owning shards, waits by signal, answers with the log's own bytes.
//!
//! Every answer is a full one: sessions (KIP-227) are declined with session id 0, which every
//! client accepts.

use millrace_engine::{
    config::CompressionType,
    io::buf::Chain,
    meta::Image,
    shard::{
        failure::Failure,
        reads::{FetchPartition, FetchRules, Fetched, FetchedAll, ReadSpec},
    },
    types::{PartitionIndex, TopicPartition},
};
use smallvec::SmallVec;

use super::{Broker, errors::code_of_failure, table::Call};
use crate::wire::{
    Decode, ErrorCode, Grouped, Item, List, Topic as WireTopic,
    fetch::{FetchPartition as Asked, FetchRequest, FetchResponse, PartitionData},
};

/// Before this version a reader may not know zstd (KIP-110).
const ZSTD_SINCE: i16 = 10;

/// From this version on topics are named by their ids (KIP-516).
const TOPIC_IDS_SINCE: i16 = 13;

const READ_COMMITTED: i8 = 1;

/// The partitions of a request, sorted into what is read and what is refused at once. A request
/// for a single one, as at the tail of a log, takes no memory for its plan.
#[derive(Default)]
struct Plan<'a> {
    topics: SmallVec<[WireTopic<'a>; 1]>,
    /// One per partition of the request, in order.
    entries: SmallVec<[Entry; 1]>,
    reads: SmallVec<[FetchPartition; 1]>,
}

struct Entry {
    index: i32,
    refused: Option<ErrorCode>,
}

pub(super) async fn fetch(call: Call<'_>) -> Option<Chain> {
    let (broker, header) = (call.broker, &call.header);
    let request = FetchRequest::read(call.body, header.version).ok()?;
    if request.session.epoch > 0 {
        // No session was ever handed out, so none can go on.
        return encode(call.broker, &call, &[], &[], ErrorCode::FetchSessionIdNotFound);
    }
    let plan = plan(broker, header.version, &request);
    let mut fetched = read(broker, &request, &plan).await.into_iter();
    let read_committed = request.isolation_level == READ_COMMITTED;
    let answers: SmallVec<[PartitionData<'_>; 1]> = plan
        .entries
        .iter()
        .map(|entry| match entry.refused {
            Some(error) => PartitionData::refused(entry.index, error),
            None => answer(entry.index, fetched.next(), read_committed),
        })
        .collect();
    encode(call.broker, &call, &plan.topics, &answers, ErrorCode::None)
}

fn encode(
    broker: &Broker,
    call: &Call<'_>,
    topics: &[WireTopic<'_>],
    partitions: &[PartitionData<'_>],
    error_code: ErrorCode,
) -> Option<Chain> {
    let response = FetchResponse {
        throttle_time_ms: 0,
        error_code,
        session_id: 0,
        topics: Grouped::Values { topics, partitions },
        node_endpoints: List::default(),
    };
    let header = &call.header;
    broker.encoder.borrow_mut().response(header.version, header.correlation_id, &response).ok()
}

fn plan<'a>(broker: &Broker, version: i16, request: &FetchRequest<'a>) -> Plan<'a> {
    let image = broker.image();
    let read_committed = request.isolation_level == READ_COMMITTED;
    let mut plan = Plan::default();
    for item in request.topics.iter() {
        match item {
            Item::Topic(topic) => plan.topics.push(topic),
            Item::Partition(asked) => {
                let topic = plan.topics.last().map(|topic| locate(&image, topic, version, &asked));
                let refused = match topic {
                    Some(Ok(partition)) => {
                        plan.reads.push(FetchPartition {
                            partition,
                            read: read_spec(&asked, read_committed),
                        });
                        None
                    }
                    Some(Err(error)) => Some(error),
                    None => Some(ErrorCode::UnknownTopicOrPartition),
                };
                plan.entries.push(Entry { index: asked.index, refused });
            }
        }
    }
    plan
}

fn read_spec(asked: &Asked, read_committed: bool) -> ReadSpec {
    ReadSpec {
        offset: asked.fetch_offset,
        max_bytes: u32::try_from(asked.max_bytes).unwrap_or(0),
        leader_epoch: asked.current_leader_epoch,
        read_committed,
    }
}

fn locate(
    image: &Image,
    named: &WireTopic<'_>,
    version: i16,
    asked: &Asked,
) -> Result<TopicPartition, ErrorCode> {
    let by_id = version >= TOPIC_IDS_SINCE;
    let topic = if by_id { image.topic_by_id(named.topic_id) } else { image.topic(&named.name) };
    let unknown =
        if by_id { ErrorCode::UnknownTopicId } else { ErrorCode::UnknownTopicOrPartition };
    let topic = topic.ok_or(unknown)?;
    let index = usize::try_from(asked.index).map_err(|_| ErrorCode::UnknownTopicOrPartition)?;
    if topic.partitions.get(index).is_none() {
        return Err(ErrorCode::UnknownTopicOrPartition);
    }
    if version < ZSTD_SINCE && topic.config.compression_type == CompressionType::Zstd {
        return Err(ErrorCode::UnsupportedCompressionType);
    }
    Ok(TopicPartition { topic: topic.id, partition: PartitionIndex(asked.index) })
}

async fn read(broker: &Broker, request: &FetchRequest<'_>, plan: &Plan<'_>) -> FetchedAll {
    let refused = plan.reads.len() < plan.entries.len();
    let size = |bytes: i32| usize::try_from(bytes).unwrap_or(0);
    let max_bytes = size(request.max_bytes).min(broker.settings.fetch_max_bytes);
    // Whatever is wrong is worth an answer now, and so is an empty request.
    let at_once = refused || plan.reads.is_empty();
    let rules = FetchRules {
        max_wait_ms: if at_once { 0 } else { request.max_wait_ms },
        min_bytes: size(request.min_bytes).min(max_bytes),
        max_bytes,
    };
    broker.shard.fetch(&plan.reads, rules).await
}

fn answer<'a>(index: i32, fetched: Option<Fetched>, read_committed: bool) -> PartitionData<'a> {
    let Some(fetched) = fetched else {
        return PartitionData::refused(index, ErrorCode::NotLeaderOrFollower);
    };
    let mut data = match fetched.failure {
        Some(Failure::Corrupt) => PartitionData::refused(index, ErrorCode::CorruptMessage),
        Some(failure) => PartitionData::refused(index, code_of_failure(failure)),
        None => PartitionData::refused(index, ErrorCode::None),
    };
    data.high_watermark = fetched.high_watermark;
    data.last_stable_offset = fetched.last_stable_offset;
    data.log_start_offset = fetched.log_start;
    data.records = fetched.records;
    // No transaction is ever aborted here; a reader of committed records is told an empty list.
    data.aborted_transactions = read_committed.then(List::default);
    data
}
