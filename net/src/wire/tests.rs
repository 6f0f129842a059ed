//! Byte equality with Apache Kafka: the fixtures were written by its own classes.

use millrace_engine::io::buf::{Chain, Pool, Slice};

use super::{
    API_TABLE, ApiKey, Cursor, Decode, DecodeError, Encoder, Item, RequestHeader,
    entrances::{ENTRANCES, Entrance, Outcome},
    produce::ProduceRequest,
};

/// One golden frame.
struct Golden {
    key: ApiKey,
    is_request: bool,
    version: i16,
    label: String,
    bytes: Vec<u8>,
}

const FIXTURES: &[(ApiKey, &str)] = &[
    (ApiKey::Produce, include_str!("fixtures/produce.txt")),
    (ApiKey::Fetch, include_str!("fixtures/fetch.txt")),
    (ApiKey::ListOffsets, include_str!("fixtures/list_offsets.txt")),
    (ApiKey::Metadata, include_str!("fixtures/metadata.txt")),
    (ApiKey::FindCoordinator, include_str!("fixtures/find_coordinator.txt")),
    (ApiKey::ApiVersions, include_str!("fixtures/api_versions.txt")),
    (ApiKey::CreateTopics, include_str!("fixtures/create_topics.txt")),
    (ApiKey::DeleteTopics, include_str!("fixtures/delete_topics.txt")),
    (ApiKey::DeleteRecords, include_str!("fixtures/delete_records.txt")),
    (ApiKey::InitProducerId, include_str!("fixtures/init_producer_id.txt")),
    (ApiKey::OffsetForLeaderEpoch, include_str!("fixtures/offset_for_leader_epoch.txt")),
    (ApiKey::DescribeConfigs, include_str!("fixtures/describe_configs.txt")),
    (ApiKey::AlterConfigs, include_str!("fixtures/alter_configs.txt")),
    (ApiKey::CreatePartitions, include_str!("fixtures/create_partitions.txt")),
    (ApiKey::IncrementalAlterConfigs, include_str!("fixtures/incremental_alter_configs.txt")),
    (ApiKey::DescribeCluster, include_str!("fixtures/describe_cluster.txt")),
];

fn golden() -> Vec<Golden> {
    let lines = FIXTURES.iter().flat_map(|(key, text)| text.lines().map(|line| (*key, line)));
    lines.map(|(key, line)| parse(key, line)).collect()
}

fn parse(key: ApiKey, line: &str) -> Golden {
    let mut words = line.split(' ');
    let mut word = || words.next().expect("a fixture has four words");
    let (direction, version, variant, hex) = (word(), word(), word(), word());
    let bytes = hex.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).expect("hex is ASCII");
        u8::from_str_radix(pair, 16).expect("fixtures are hex")
    });
    Golden {
        key,
        is_request: direction == "request",
        version: version.parse().expect("a version is a number"),
        label: format!("{key:?} {direction} {version} {variant}"),
        bytes: bytes.collect(),
    }
}

fn chain_of(parts: &[&[u8]]) -> Chain {
    let mut chain = Chain::new();
    parts.iter().for_each(|part| chain.push(Slice::copy_of(part)));
    chain
}

fn entrance(key: ApiKey, is_request: bool) -> &'static Entrance {
    let mut entrances = ENTRANCES.iter();
    entrances
        .find(|entrance| entrance.key == key && entrance.is_request == is_request)
        .expect("every API has both entrances")
}

fn pass(encoder: &mut Encoder, golden: &Golden, frame: &Chain) -> Outcome {
    (entrance(golden.key, golden.is_request).pass)(encoder, frame, golden.version)
}

fn expect_same(golden: &Golden, outcome: Outcome, how: &str) {
    let Outcome::Written(chain) = outcome else {
        panic!("{} {how}: {outcome:?}", golden.label);
    };
    let written = chain.to_vec();
    let (length, body) = written.split_at(4);
    assert_eq!(body, golden.bytes, "{} {how}", golden.label);
    assert_eq!(length, u32::try_from(body.len()).expect("small").to_be_bytes());
}

#[test]
fn every_golden_frame_comes_out_as_it_went_in() {
    let mut encoder = Encoder::new(Pool::new(1 << 20));
    for golden in golden() {
        let outcome = pass(&mut encoder, &golden, &chain_of(&[&golden.bytes]));
        expect_same(&golden, outcome, "whole");
    }
}

#[test]
fn a_frame_cut_in_two_anywhere_reads_the_same() {
    let mut encoder = Encoder::new(Pool::new(1 << 20));
    for golden in golden() {
        for cut in 1..golden.bytes.len() {
            let (front, back) = golden.bytes.split_at(cut);
            let outcome = pass(&mut encoder, &golden, &chain_of(&[front, back]));
            expect_same(&golden, outcome, &format!("cut at {cut}"));
        }
    }
}

#[test]
fn a_frame_in_single_bytes_reads_the_same() {
    let mut encoder = Encoder::new(Pool::new(1 << 20));
    for golden in golden() {
        let parts: Vec<&[u8]> = golden.bytes.chunks(1).collect();
        let outcome = pass(&mut encoder, &golden, &chain_of(&parts));
        expect_same(&golden, outcome, "in bytes");
    }
}

#[test]
fn a_frame_that_ends_early_is_refused() {
    let mut encoder = Encoder::new(Pool::new(1 << 20));
    for golden in golden() {
        for length in 0..golden.bytes.len() {
            let (front, _) = golden.bytes.split_at(length);
            let outcome = pass(&mut encoder, &golden, &chain_of(&[front]));
            let refused = matches!(outcome, Outcome::Refused(_));
            assert!(refused, "{} ends at {length}: {outcome:?}", golden.label);
        }
    }
}

#[test]
fn every_served_version_of_every_row_is_golden() {
    let golden = golden();
    for api in API_TABLE {
        for version in (api.min..=api.max).filter(|version| api.key.serves(*version)) {
            for is_request in [true, false] {
                let frames = golden.iter().filter(|golden| {
                    (golden.key, golden.version, golden.is_request)
                        == (api.key, version, is_request)
                });
                assert_eq!(frames.count(), 3, "{:?} {version}", api.key);
            }
        }
    }
}

fn golden_of(key: ApiKey, version: i16, label_end: &str) -> Golden {
    let mut golden = golden().into_iter();
    golden
        .find(|golden| {
            golden.key == key && golden.version == version && golden.label.ends_with(label_end)
        })
        .expect("a fixture of that name")
}

#[test]
fn bytes_behind_a_request_are_ignored_and_behind_a_response_refused() {
    let mut encoder = Encoder::new(Pool::new(1 << 20));
    for key in [ApiKey::Produce, ApiKey::Metadata] {
        for version in [8, 9] {
            let request = golden_of(key, version, &format!("request {version} filled"));
            let outcome = pass(&mut encoder, &request, &chain_of(&[&request.bytes, b"more"]));
            expect_same(&request, outcome, "with more behind it");
            let response = golden_of(key, version, &format!("response {version} filled"));
            let outcome = pass(&mut encoder, &response, &chain_of(&[&response.bytes, b"more"]));
            assert!(matches!(outcome, Outcome::Refused(DecodeError::TrailingBytes(4))));
        }
    }
}

#[test]
fn tagged_fields_that_nobody_knows_are_stepped_over() {
    let mut encoder = Encoder::new(Pool::new(1 << 20));
    for (key, version) in [(ApiKey::Produce, 9), (ApiKey::Fetch, 12), (ApiKey::ApiVersions, 4)] {
        let golden = golden_of(key, version, "default");
        let (end, front) = golden.bytes.split_last().expect("not empty");
        assert_eq!(*end, 0, "a default request ends without tagged fields");
        let outcome = pass(&mut encoder, &golden, &chain_of(&[front, &[1, 0x63, 2, 0xaa, 0xbb]]));
        expect_same(&golden, outcome, "with a tag");
    }
}

#[test]
fn null_records_read_as_none() {
    let golden = golden_of(ApiKey::Produce, 3, "request 3 null");
    let (front, _) = golden.bytes.split_at(golden.bytes.len() - 16);
    let frame = chain_of(&[front, &(-1_i32).to_be_bytes()]);
    let mut cursor = Cursor::new(&frame);
    let header = RequestHeader::read(&mut cursor).expect("well formed");
    let request = ProduceRequest::read(cursor, header.version).expect("well formed");
    let Some(Item::Partition(partition)) = request.topics.iter().nth(1) else {
        panic!("one topic, one partition");
    };
    assert!(partition.records.is_empty());
}

/// 100 MiB of empty partitions were 17 million entries, each with an answer.
#[test]
fn more_partitions_than_there_may_be_are_refused() {
    use super::{Grouped, Topic, produce::PartitionProduceData};
    use millrace_engine::limits::PARTITIONS_MAX;

    let read = |topics: &[Topic<'_>]| {
        let count = topics.iter().map(|topic| topic.partitions).sum::<usize>();
        let partitions = vec![PartitionProduceData::default(); count];
        let topics = Grouped::Values { topics, partitions: &partitions };
        let request = ProduceRequest { topics, ..ProduceRequest::default() };
        let header =
            RequestHeader { key: ApiKey::Produce, version: 12, correlation_id: 1, client_id: None };
        let frame = Encoder::new(Pool::new(4 << 20)).request(&header, &request).expect("fits");
        let frame = frame.sub(4..frame.len());
        let mut cursor = Cursor::new(&frame);
        RequestHeader::read(&mut cursor).expect("well formed");
        ProduceRequest::read(cursor, 12).map(drop)
    };
    let topic = |partitions| Topic { partitions, ..Topic::default() };
    assert_eq!(read(&[topic(PARTITIONS_MAX - 1), topic(1)]), Ok(()));
    assert_eq!(read(&[topic(PARTITIONS_MAX), topic(1)]), Err(DecodeError::Length));
    assert_eq!(read(&vec![topic(0); PARTITIONS_MAX]), Ok(()));
    assert_eq!(read(&vec![topic(0); PARTITIONS_MAX + 1]), Err(DecodeError::Length));
}
