//! Requests encoded before they are counted, and answers taken apart by the wire codec.

use std::borrow::Cow;

use millrace_engine::{
    batch::{BatchBuilder, BatchOptions, Header, NewRecord},
    io::buf::{Chain, Pool, Slice},
    types::TopicId,
};
use millrace_net::wire::{
    ApiKey, Cursor, Decode, Encoder, ErrorCode, Grouped, Item, Request, RequestHeader, Topic,
    api_versions::ApiVersionsRequest,
    fetch::{FetchPartition, FetchRequest, FetchResponse},
    produce::{PartitionProduceData, ProduceRequest, ProduceResponse},
    response_correlation_id,
};

/// The topic of all requests.
pub const TOPIC: &str = "steady";

/// The newest version that names topics by name.
const VERSION: i16 = 12;

/// Bytes of one batch.
pub const BATCH_BYTES: usize = 16 << 10;

/// Bytes of a record besides its value, roughly.
const RECORD_OVERHEAD_BYTES: usize = 10;

/// A batch of about [`BATCH_BYTES`] that holds `records` records.
pub fn batch(records: usize) -> Vec<u8> {
    let value = vec![7; BATCH_BYTES / records - RECORD_OVERHEAD_BYTES];
    let mut builder = BatchBuilder::new();
    for _ in 0..records {
        let record = NewRecord { timestamp_ms: 1, value: Some(&value), ..NewRecord::default() };
        builder.push(&record).expect("a small record");
    }
    let mut bytes = Vec::new();
    builder.finish(&BatchOptions::default(), &mut bytes).expect("a plain batch");
    bytes
}

fn topics() -> [Topic<'static>; 1] {
    [Topic { name: Cow::Borrowed(TOPIC), topic_id: TopicId::NONE, partitions: 1 }]
}

fn request<R: Request>(version: i16, body: &R) -> Vec<u8> {
    let client_id = Some(Cow::Borrowed("steady"));
    let header = RequestHeader { key: R::KEY, version, correlation_id: 1, client_id };
    Encoder::new(Pool::new(4 << 20)).request(&header, body).expect("fits").to_vec()
}

/// A Produce request with acks=all.
pub fn produce(partition: i32, batch: &[u8]) -> Vec<u8> {
    let records = Chain::from(Slice::copy_of(batch));
    let partitions = [PartitionProduceData { index: partition, records }];
    let topics = Grouped::Values { topics: &topics(), partitions: &partitions };
    let body = ProduceRequest { acks: -1, timeout_ms: 30_000, topics, ..ProduceRequest::default() };
    request(VERSION, &body)
}

/// A Fetch request that waits for a byte.
pub fn fetch(partition: i32, offset: i64, max_bytes: i32) -> Vec<u8> {
    let partitions = [FetchPartition::new(partition, offset, max_bytes)];
    let topics = Grouped::Values { topics: &topics(), partitions: &partitions };
    let body =
        FetchRequest { max_wait_ms: 10_000, min_bytes: 1, topics, ..FetchRequest::default() };
    request(VERSION, &body)
}

/// The smallest request there is.
pub fn api_versions() -> Vec<u8> {
    request(0, &ApiVersionsRequest::default())
}

fn body<'a>(key: ApiKey, answer: &'a Chain) -> Cursor<'a> {
    let mut cursor = Cursor::new(answer);
    let id = response_correlation_id(&mut cursor, key, VERSION).expect("a header");
    assert_eq!(id, 1, "the answer is to our request");
    cursor
}

/// Offset that an answered Produce got.
pub fn produced(answer: &[u8]) -> i64 {
    let answer = Chain::from(Slice::copy_of(answer));
    let response = ProduceResponse::read(body(ApiKey::Produce, &answer), VERSION).expect("valid");
    let Some(Item::Partition(partition)) = response.topics.iter().nth(1) else {
        panic!("one topic and one partition: {response:?}")
    };
    assert_eq!(partition.error_code, ErrorCode::None);
    partition.base_offset
}

/// What a Fetch brought.
pub struct Fetched {
    /// Bytes of whole batches.
    pub bytes: usize,
    /// Offset behind the last record.
    pub next_offset: i64,
}

/// Takes an answered Fetch apart and sees that its batches follow one another from `offset` on.
pub fn fetched(answer: &[u8], offset: i64) -> Fetched {
    let answer = Chain::from(Slice::copy_of(answer));
    let response = FetchResponse::read(body(ApiKey::Fetch, &answer), VERSION).expect("valid");
    let Some(Item::Partition(partition)) = response.topics.iter().nth(1) else {
        panic!("one topic and one partition: {response:?}")
    };
    assert_eq!(partition.error_code, ErrorCode::None);
    let mut found = Fetched { bytes: 0, next_offset: offset };
    while found.bytes < partition.records.len() {
        let header = Header::from_chain(&partition.records, found.bytes).expect("whole batches");
        assert_eq!(header.base_offset.0, found.next_offset, "no batch is skipped");
        found.bytes += header.size_bytes();
        found.next_offset = header.next_offset().0;
    }
    found
}
