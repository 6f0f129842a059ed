//! The hot codec in both directions, without sockets: what a request costs before and after its
//! handler.
//!
//! Requests lie in 64 KiB receive buffers. A decode reads the header, checks the body to its end
//! and visits every partition, as a handler does. An encode makes the whole frame and drops it, as
//! a connection does once it is sent. Many partitions come in topics of ten.

mod batches;
mod settings;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use millrace_engine::{
    io::buf::{Chain, Pool, Slice},
    limits::{BUFFER_BUDGET_PER_SHARD_BYTES, TAIL_CHUNK_MAX_BYTES},
    types::TopicId,
};
use millrace_net::wire::{
    Cursor, Decode, Encoder, ErrorCode, Grouped, Item, Message, Request, RequestHeader, Topic,
    fetch::{FetchPartition, FetchRequest, FetchResponse, FetchSession, PartitionData},
    produce::{PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse},
};

use batches::{batch_of, received};

/// Bytes of the length in front of a frame.
const LENGTH_BYTES: usize = 4;

const PARTITIONS_PER_TOPIC: usize = 10;

const NAMES: [&str; 10] = [
    "orders",
    "payments",
    "shipments",
    "returns",
    "clicks",
    "views",
    "audit",
    "metrics",
    "alerts",
    "prices",
];

fn encoder() -> Encoder {
    Encoder::new(Pool::new(BUFFER_BUDGET_PER_SHARD_BYTES))
}

fn index(partition: usize) -> i32 {
    i32::try_from(partition % PARTITIONS_PER_TOPIC).expect("small")
}

/// The topics of `partitions` partitions.
fn topics(partitions: usize) -> Vec<Topic<'static>> {
    let of_topic = partitions.min(PARTITIONS_PER_TOPIC);
    let topics = NAMES.iter().zip(1..).take(partitions / of_topic);
    topics
        .map(|(name, id)| Topic {
            name: (*name).into(),
            topic_id: TopicId([id; 16]),
            partitions: of_topic,
        })
        .collect()
}

/// A request frame behind its length, as it is received.
fn request_frame<R: Request>(version: i16, body: &R) -> Chain {
    let client_id = Some("producer-1".into());
    let header = RequestHeader { key: R::KEY, version, correlation_id: 7, client_id };
    let frame = encoder().request(&header, body).expect("a frame");
    received(&frame.to_vec()[LENGTH_BYTES..])
}

fn produce_frame(version: i16, partitions: usize) -> Chain {
    let records = received(&batch_of(1 << 10));
    let topics = topics(partitions);
    let data: Vec<_> = (0..partitions)
        .map(|at| PartitionProduceData { index: index(at), records: records.clone() })
        .collect();
    let topics = Grouped::Values { topics: &topics, partitions: &data };
    let request = ProduceRequest { transactional_id: None, acks: -1, timeout_ms: 30_000, topics };
    request_frame(version, &request)
}

/// Decodes and visits every record set; returns how many there are and their bytes.
fn read_produce(frame: &Chain) -> (usize, usize) {
    let mut cursor = Cursor::new(frame);
    let header = RequestHeader::read(&mut cursor).expect("well formed");
    let request = ProduceRequest::read(cursor, header.version).expect("well formed");
    request.topics.iter().fold((0, 0), |(count, bytes), item| match item {
        Item::Topic(topic) => {
            black_box(topic);
            (count, bytes)
        }
        Item::Partition(data) => (count + 1, bytes + black_box(data).records.len()),
    })
}

fn decode_produce(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("codec/decode-produce-1KiB");
    for partitions in [1, 100] {
        group.throughput(Throughput::Elements(partitions as u64));
        for version in [7, 11, 13] {
            let frame = produce_frame(version, partitions);
            assert_eq!(read_produce(&frame), (partitions, partitions << 10));
            group.bench_function(BenchmarkId::new(format!("v{version}"), partitions), |bencher| {
                bencher.iter(|| read_produce(black_box(&frame)));
            });
        }
    }
}

fn fetch_frame(version: i16, partitions: usize) -> Chain {
    let topics = topics(partitions);
    let wanted: Vec<_> =
        (0..partitions).map(|at| FetchPartition::new(index(at), 123_456, 1 << 20)).collect();
    let request = FetchRequest {
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 50 << 20,
        session: FetchSession::NONE,
        topics: Grouped::Values { topics: &topics, partitions: &wanted },
        ..FetchRequest::default()
    };
    request_frame(version, &request)
}

/// Decodes and visits every partition; returns how many there are.
fn read_fetch(frame: &Chain) -> usize {
    let mut cursor = Cursor::new(frame);
    let header = RequestHeader::read(&mut cursor).expect("well formed");
    let request = FetchRequest::read(cursor, header.version).expect("well formed");
    request.topics.iter().map(black_box).filter(|item| matches!(item, Item::Partition(_))).count()
}

fn decode_fetch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("codec/decode-fetch");
    for partitions in [1, 100] {
        let frame = fetch_frame(16, partitions);
        assert_eq!(read_fetch(&frame), partitions);
        group.throughput(Throughput::Elements(partitions as u64));
        group.bench_function(BenchmarkId::new("v16", partitions), |bencher| {
            bencher.iter(|| read_fetch(black_box(&frame)));
        });
    }
}

/// Encodes one response over and over; checks first that the payload is linked and nothing lost.
fn bench_response<M: Message>(
    criterion: &mut Criterion,
    name: &str,
    (version, partitions): (i16, usize),
    body: &M,
) {
    let mut encoder = encoder();
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(partitions as u64));
    group.bench_function(BenchmarkId::new(format!("v{version}"), partitions), |bencher| {
        bencher.iter(|| encoder.response(version, 7, black_box(body)).expect("a frame"));
    });
}

/// `bytes` of a log's tail, in the chunks that a busy log keeps.
fn tail(bytes: usize) -> Chain {
    let mut chain = Chain::new();
    let mut left = bytes;
    while left > 0 {
        let part = left.min(TAIL_CHUNK_MAX_BYTES);
        chain.push(Slice::copy_of(&vec![1; part]));
        left -= part;
    }
    chain
}

fn encode_fetch(criterion: &mut Criterion) {
    for (name, partitions, bytes) in
        [("codec/encode-fetch-1MiB", 1, 1 << 20), ("codec/encode-fetch-10KiB", 100, 10 << 10)]
    {
        let topics = topics(partitions);
        let records = tail(bytes);
        let data: Vec<_> = (0..partitions)
            .map(|at| PartitionData {
                high_watermark: 123_456,
                last_stable_offset: 123_456,
                log_start_offset: 0,
                records: records.clone(),
                ..PartitionData::refused(index(at), ErrorCode::None)
            })
            .collect();
        let topics = Grouped::Values { topics: &topics, partitions: &data };
        let response = FetchResponse { topics, ..FetchResponse::default() };
        let copied = millrace_engine::io::buf::copied_bytes();
        let frame = encoder().response(16, 7, &response).expect("a frame");
        assert!(frame.len() > partitions * bytes, "the frame holds every payload");
        let copied = millrace_engine::io::buf::copied_bytes() - copied;
        assert_eq!(copied, (frame.len() - partitions * bytes) as u64, "payload is not copied");
        bench_response(criterion, name, (16, partitions), &response);
    }
}

fn encode_produce(criterion: &mut Criterion) {
    for partitions in [1, 100] {
        let topics = topics(partitions);
        let outcomes: Vec<_> = (0..partitions)
            .map(|at| PartitionProduceResponse::appended(index(at), 123_456, -1, 0))
            .collect();
        let topics = Grouped::Values { topics: &topics, partitions: &outcomes };
        let response = ProduceResponse { topics, ..ProduceResponse::default() };
        bench_response(criterion, "codec/encode-produce", (13, partitions), &response);
    }
}

criterion_group! {
    name = benches;
    config = settings::criterion();
    targets = decode_produce, decode_fetch, encode_fetch, encode_produce
}
criterion_main!(benches);
