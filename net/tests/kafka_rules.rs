//! Rules of Kafka that its schemas do not tell, through the wire, over two shards.

#[path = "kafka_rules/admin.rs"]
mod admin;
#[path = "kafka_rules/configs.rs"]
mod configs;
#[path = "kafka_rules/fetch.rs"]
mod fetch;
#[path = "kafka_rules/memory.rs"]
mod memory;
#[path = "kafka_rules/rig.rs"]
mod rig;
#[path = "socket/socket.rs"]
mod socket;

use millrace_engine::types::TopicId;
use millrace_net::wire::{
    ErrorCode, Grouped, Item, Topic,
    fetch::{FetchPartition, FetchRequest},
    typed::{
        Uuid,
        delete_records::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic},
        delete_topics::{DeleteTopicState, DeleteTopicsRequest},
        describe_cluster::DescribeClusterRequest,
        init_producer_id::InitProducerIdRequest,
        metadata::MetadataRequest,
    },
};
use rig::{Connection, Rig};

/// From this version on Produce and Fetch name topics by their ids.
const BY_ID: i16 = 13;

fn delete_records(connection: &Connection, topic: &str) -> i16 {
    let mut partition = DeleteRecordsPartition::default();
    partition.partition_index = 0;
    partition.offset = 1;
    let mut named = DeleteRecordsTopic::default();
    named.name = topic.to_owned().into();
    named.partitions = vec![partition];
    let mut request = DeleteRecordsRequest::default();
    request.topics = vec![named];
    request.timeout_ms = 1_000;
    connection.call(2, &request, |response| response.topics[0].partitions[0].error_code)
}

/// CORRUPT_MESSAGE would blame the request: producers retry it, and report their own batch.
#[test]
fn a_damaged_partition_answers_as_a_failed_disk() {
    let mut rig = Rig::start();
    let connection = rig.connect();
    for partition in [0, 0, 1] {
        assert_eq!(connection.produce(partition, 1_000, 30_000).0, ErrorCode::None);
    }
    drop(connection);
    rig.restart(|data| {
        let segment = data.join("orders-0/00000000000000000000.log");
        let file = std::fs::OpenOptions::new().write(true).open(segment).expect("it was made");
        let length = file.metadata().expect("it is open").len();
        file.set_len(length - 1).expect("the second batch is cut");
    });
    let connection = rig.connect();
    assert_eq!(connection.produce(0, 1_000, 30_000), (ErrorCode::KafkaStorageError, -1));
    let storage = ErrorCode::KafkaStorageError.code();
    assert_eq!(delete_records(&connection, "orders"), storage);
    assert_eq!(connection.produce(1, 1_000, 30_000), (ErrorCode::None, 1));
}

#[test]
fn clients_are_told_the_rack() {
    for (settings, rack) in [(&["broker.rack=b7"][..], Some("b7")), (&[], None)] {
        let rig = Rig::start_with(settings);
        let connection = rig.connect();
        for version in [1, 12] {
            let request = MetadataRequest::default();
            let told = connection.call(version, &request, |response| {
                response.brokers[0].rack.as_ref().map(ToString::to_string)
            });
            assert_eq!(told.as_deref(), rack, "Metadata {version}");
        }
        let mut request = DescribeClusterRequest::default();
        request.endpoint_type = 1;
        let told = connection.call(1, &request, |response| {
            response.brokers[0].rack.as_ref().map(ToString::to_string)
        });
        assert_eq!(told.as_deref(), rack);
    }
}

#[test]
fn records_of_a_topic_that_is_only_compacted_are_not_deleted() {
    let rig = Rig::start();
    rig.create("compacted", &[("cleanup.policy", "compact")]);
    rig.create("both", &[("cleanup.policy", "compact,delete")]);
    let connection = rig.connect();
    assert_eq!(delete_records(&connection, "compacted"), ErrorCode::PolicyViolation.code());
    // There is no record yet: the request is in order, its offset is not.
    let out_of_range = ErrorCode::OffsetOutOfRange.code();
    let invalid = ErrorCode::InvalidRequest.code();
    assert!([out_of_range, invalid].contains(&delete_records(&connection, "both")));
    connection.produce(0, 10, 30_000);
    assert_eq!(delete_records(&connection, "orders"), 0);
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(delete_records(&connection, "none"), unknown);
}

#[test]
fn no_topic_id_is_an_unknown_one_where_topics_go_by_id() {
    let rig = Rig::start();
    let connection = rig.connect();
    let none = || Topic { name: "".into(), topic_id: TopicId::NONE, partitions: 1 };
    let (error, _) = connection.produce_to(BY_ID, none(), 0, 10, 30_000);
    assert_eq!(error, ErrorCode::UnknownTopicId);
    let (topics, partitions) = ([none()], [FetchPartition::new(0, 0, 1_000)]);
    let topics = Grouped::Values { topics: &topics, partitions: &partitions };
    let request = FetchRequest { max_bytes: 1_000, topics, ..FetchRequest::default() };
    let error = connection.call(BY_ID, &request, |response| match response.topics.iter().nth(1) {
        Some(Item::Partition(partition)) => partition.error_code,
        _ => panic!("one topic and one partition: {response:?}"),
    });
    assert_eq!(error, ErrorCode::UnknownTopicId);
    let unknown = Topic { name: "none".into(), topic_id: TopicId::NONE, partitions: 1 };
    let (error, _) = connection.produce_to(BY_ID - 1, unknown, 0, 10, 30_000);
    assert_eq!(error, ErrorCode::UnknownTopicOrPartition);
}

fn init_producer(connection: &Connection, id: i64, epoch: i16) -> (i16, i64, i16) {
    let mut request = InitProducerIdRequest::default();
    request.transactional_id = None;
    request.transaction_timeout_ms = i32::MAX;
    request.producer_id = id;
    request.producer_epoch = epoch;
    connection.call(4, &request, |response| {
        (response.error_code, response.producer_id, response.producer_epoch)
    })
}

#[test]
fn an_idempotent_producer_always_gets_a_new_id() {
    let rig = Rig::start();
    let connection = rig.connect();
    let (error, first, epoch) = init_producer(&connection, -1, -1);
    assert_eq!((error, epoch), (0, 0));
    let mut seen = vec![first];
    for (id, epoch) in [(first, 0), (first, i16::MAX), (1 << 40, 3), (-1, -1)] {
        let (error, next, epoch) = init_producer(&connection, id, epoch);
        assert_eq!((error, epoch), (0, 0));
        assert!(next != 1 << 40 && !seen.contains(&next), "{next} after {seen:?}");
        seen.push(next);
    }
    let invalid = (ErrorCode::InvalidRequest.code(), -1, -1);
    assert_eq!(init_producer(&connection, first, -1), invalid);
    assert_eq!(init_producer(&connection, -1, 3), invalid);
}

#[test]
fn a_topic_to_delete_is_named_in_one_way() {
    let rig = Rig::start();
    let connection = rig.connect();
    let entry = |name: Option<&str>, id: [u8; 16]| {
        let mut state = DeleteTopicState::default();
        state.name = name.map(|name| name.to_owned().into());
        state.topic_id = Uuid::from_bytes(id);
        state
    };
    let mut request = DeleteTopicsRequest::default();
    request.timeout_ms = 10_000;
    request.topics = vec![
        entry(None, [0; 16]),
        entry(Some("orders"), [9; 16]),
        entry(None, [9; 16]),
        entry(Some("orders"), [0; 16]),
    ];
    let errors: Vec<i16> = connection.call(6, &request, |response| {
        response.responses.iter().map(|topic| topic.error_code).collect()
    });
    let invalid = ErrorCode::InvalidRequest.code();
    assert_eq!(errors, [invalid, invalid, ErrorCode::UnknownTopicId.code(), 0]);
}

#[test]
fn a_produce_without_time_is_appended_once_whatever_it_is_told() {
    const BATCHES: i64 = 200;
    let rig = Rig::start();
    let connection = rig.connect();
    for at in 0..BATCHES {
        // The time is looked at now and then, and the flush is quick: mostly it is not up.
        match connection.produce(0, 100, 0) {
            (ErrorCode::None, base_offset) => assert_eq!(base_offset, at),
            (error, base_offset) => {
                assert_eq!((error, base_offset), (ErrorCode::RequestTimedOut, -1));
            }
        }
    }
    assert_eq!(connection.produce(0, 100, 30_000), (ErrorCode::None, BATCHES));
}
