//! The hot path of the wire module allocates nothing in steady state, and a count that a frame
//! merely claims costs nothing anywhere.

#[path = "wire/counting.rs"]
mod counting;
#[path = "wire/golden.rs"]
mod golden;

use std::hint::black_box;

use counting::counted;
use millrace_engine::{
    io::buf::{Chain, Pool, Slice},
    types::TopicId,
};
use millrace_net::wire::{
    ApiKey, Cursor, Decode, Encoder, ErrorCode, Grouped, Item, RequestHeader, Topic,
    entrances::{ENTRANCES, Entrance, Outcome},
    fetch::{FetchPartition, FetchRequest, FetchResponse, PartitionData},
    produce::{PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse},
};

const PRODUCE_VERSIONS: [i16; 5] = [3, 7, 9, 11, 13];
const FETCH_VERSIONS: [i16; 5] = [4, 11, 12, 16, 18];

fn topics(count: usize, partitions: usize) -> Vec<Topic<'static>> {
    let topic = Topic { name: "orders".into(), topic_id: TopicId([3; 16]), partitions };
    vec![topic; count]
}

fn header(key: ApiKey, version: i16) -> RequestHeader<'static> {
    RequestHeader { key, version, correlation_id: 1, client_id: Some("client".into()) }
}

fn without_length(frame: &Chain) -> Chain {
    frame.sub(4..frame.len())
}

/// Asserts that `work` allocates nothing once the encoder has gone from buffer to buffer, so that
/// its pool holds all it needs.
fn assert_steady(what: &str, mut work: impl FnMut()) {
    (0..200).for_each(|_| work());
    let ((), counts) = counted(|| (0..200).for_each(|_| work()));
    assert_eq!(counts.calls, 0, "{what}: {counts:?}");
}

/// A request as it was received: two slices, cut inside the records of the first partition.
fn produce_frame(version: i16, topic_count: usize) -> Chain {
    let records = Chain::from(Slice::copy_of(&[1; 1024]));
    let partitions: Vec<_> = (0..3)
        .cycle()
        .take(topic_count * 3)
        .map(|index| PartitionProduceData { index, records: records.clone() })
        .collect();
    let topics = topics(topic_count, 3);
    let request = ProduceRequest {
        transactional_id: Some("transaction".into()),
        acks: -1,
        timeout_ms: 30_000,
        topics: Grouped::Values { topics: &topics, partitions: &partitions },
    };
    let frame = Encoder::new(Pool::new(16 << 20))
        .request(&header(ApiKey::Produce, version), &request)
        .expect("fits");
    let bytes = without_length(&frame).to_vec();
    let (front, back) = bytes.split_at(500);
    let mut chain = Chain::from(Slice::copy_of(front));
    chain.push(Slice::copy_of(back));
    chain
}

#[test]
fn reading_a_produce_request_allocates_nothing() {
    for version in PRODUCE_VERSIONS {
        for topic_count in [1, 50] {
            let frame = produce_frame(version, topic_count);
            let mut bytes = 0;
            assert_steady(&format!("Produce {version} with {topic_count} topics"), || {
                let mut cursor = Cursor::new(&frame);
                let header = RequestHeader::read(&mut cursor).expect("well formed");
                let request = ProduceRequest::read(cursor, header.version).expect("well formed");
                bytes = 0;
                for item in request.topics.iter() {
                    if let Item::Partition(partition) = item {
                        bytes += partition.records.len();
                    }
                }
            });
            assert_eq!(bytes, topic_count * 3 * 1024);
        }
    }
}

#[test]
fn reading_a_fetch_request_allocates_nothing() {
    for version in FETCH_VERSIONS {
        let partitions: Vec<_> =
            (0..100).map(|index| FetchPartition::new(index, 5, 1 << 20)).collect();
        let topics = topics(1, 100);
        let request = FetchRequest {
            topics: Grouped::Values { topics: &topics, partitions: &partitions },
            rack_id: if version < 11 { "".into() } else { "rack".into() },
            ..FetchRequest::default()
        };
        let frame = Encoder::new(Pool::new(1 << 20))
            .request(&header(ApiKey::Fetch, version), &request)
            .expect("fits");
        let frame = without_length(&frame);
        assert_steady(&format!("Fetch {version}"), || {
            let mut cursor = Cursor::new(&frame);
            let header = RequestHeader::read(&mut cursor).expect("well formed");
            let request = FetchRequest::read(cursor, header.version).expect("well formed");
            assert_eq!(request.topics.iter().count(), 101);
        });
    }
}

#[test]
fn writing_a_produce_response_allocates_nothing() {
    let mut encoder = Encoder::new(Pool::new(1 << 20));
    for version in PRODUCE_VERSIONS {
        let partitions: Vec<_> =
            (0..100).map(|index| PartitionProduceResponse::appended(index, 9, -1, 0)).collect();
        let topics = topics(1, 100);
        let response = ProduceResponse {
            topics: Grouped::Values { topics: &topics, partitions: &partitions },
            ..ProduceResponse::default()
        };
        assert_steady(&format!("Produce {version}"), || {
            black_box(encoder.response(version, 1, &response).expect("fits"));
        });
    }
}

fn read_partitions(count: i32) -> Vec<PartitionData<'static>> {
    let records = Chain::from(Slice::copy_of(&[7; 4096]));
    let read = |index| PartitionData {
        records: records.clone(),
        ..PartitionData::refused(index, ErrorCode::None)
    };
    (0..count).map(read).collect()
}

fn write_fetch(
    encoder: &mut Encoder,
    version: i16,
    topics: &[Topic<'_>],
    partitions: &[PartitionData<'_>],
) {
    let topics = Grouped::Values { topics, partitions };
    let response = FetchResponse { topics, ..FetchResponse::default() };
    black_box(encoder.response(version, 1, &response).expect("fits"));
}

#[test]
fn writing_a_fetch_response_allocates_nothing() {
    let mut encoder = Encoder::new(Pool::new(1 << 20));
    for version in FETCH_VERSIONS {
        let (topics, partitions) = (topics(1, 1), read_partitions(1));
        assert_steady(&format!("Fetch {version}"), || {
            write_fetch(&mut encoder, version, &topics, &partitions);
        });
    }
}

/// A chain keeps four slices in place and doubles from there: a response of many partitions costs
/// the logarithm of its pieces.
#[test]
fn a_fetch_response_of_many_partitions_costs_few_allocations() {
    let mut encoder = Encoder::new(Pool::new(1 << 20));
    let partitions = read_partitions(100);
    let topics = topics(1, partitions.len());
    let mut write = || write_fetch(&mut encoder, 16, &topics, &partitions);
    (0..200).for_each(|_| write());
    let ((), counts) = counted(write);
    assert!(counts.calls <= 6, "{counts:?}");
}

/// Every golden frame is cut behind every byte and followed by the largest count that an array or
/// a string can claim, in both encodings.
#[test]
fn a_claimed_count_costs_nothing() {
    let claims: [&[u8]; 4] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0x7f, 0xff],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
    ];
    let mut encoder = Encoder::new(Pool::new(1 << 20));
    for entrance in ENTRANCES {
        for golden in golden::frames(entrance.key, entrance.is_request) {
            for cut in 0..golden.bytes.len() {
                for claim in claims {
                    let hostile = [&golden.bytes[..cut], claim].concat();
                    let frame = Chain::from(Slice::copy_of(&hostile));
                    let (outcome, counts) =
                        counted(|| (entrance.pass)(&mut encoder, &frame, golden.version));
                    assert!(counts.peak < 32 << 10, "{:?} {counts:?}", entrance.key);
                    drop::<Outcome>(outcome);
                }
            }
        }
    }
}

/// A request of `version` whose body is `front` and then `element` as often as the cap allows.
fn stuffed(key: ApiKey, version: i16, front: &[u8], element: &[u8], count: usize) -> Chain {
    let mut frame = key.code().to_be_bytes().to_vec();
    frame.extend(version.to_be_bytes());
    frame.extend([0, 0, 0, 1, 0xff, 0xff, 0]);
    frame.extend(front);
    frame.extend(element.repeat(count));
    frame.extend([0; 8]);
    Chain::from(Slice::copy_of(&frame))
}

/// The smallest elements off the hot path, as many as make a vector half empty, in the longest
/// request: empty strings in DescribeConfigs, topics in Metadata, assignments in CreatePartitions.
#[test]
fn the_worst_request_stays_within_the_stated_multiple() {
    const COUNT: usize = (1 << 15) + 1;
    let count = [0x82, 0x80, 0x02]; // COUNT in the compact form
    let keys = [&[2, 1][..], &count, &[1; COUNT], &[0]].concat();
    let assignments = [&[1, 0, 0, 0, 9][..], &count, &[1, 0].repeat(COUNT), &[0]].concat();
    let frames = [
        stuffed(ApiKey::DescribeConfigs, 4, &[32], &keys, 31),
        stuffed(ApiKey::Metadata, 9, &count, &[1, 0], COUNT),
        stuffed(ApiKey::CreatePartitions, 3, &[16], &assignments, 15),
    ];
    let mut encoder = Encoder::new(Pool::new(4 << 20));
    for frame in frames {
        let mut bytes = [0; 2];
        frame.copy_to(0, &mut bytes);
        let is_target = |one: &&Entrance| one.is_request && one.key.code().to_be_bytes() == bytes;
        let entrance = ENTRANCES.iter().find(is_target).expect("listed");
        let (outcome, counts) = counted(|| (entrance.pass)(&mut encoder, &frame, 0));
        let length = i64::try_from(frame.len()).expect("a small frame");
        println!("{:?}: {} times its length", entrance.key, counts.peak / length);
        assert!(matches!(outcome, Outcome::Written(_)), "{:?} {outcome:?}", entrance.key);
        assert!(counts.peak <= 76 * length, "{:?} {counts:?} of {length}", entrance.key);
    }
}
