//! What clients can make the broker hold for requests that it has not answered.

use std::time::{Duration, Instant};

use millrace_engine::{
    io::buf::{Chain, Slice},
    limits::PARTITIONS_MAX,
    types::TopicId,
};
use millrace_net::{
    limits::{LONG_FRAMES_BYTES_PER_SHARD, QUEUED_BYTES_PER_SHARD},
    wire::{
        ErrorCode, Grouped, Item, Topic,
        fetch::{FetchPartition, FetchRequest},
        produce::{PartitionProduceData, ProduceRequest},
        typed::metadata::{MetadataRequest, MetadataRequestTopic},
    },
};

use crate::rig::{BY_NAME, Connection, Rig, batch_of};

/// Shards of the rig.
const SHARDS: usize = 2;

/// Bytes of a large request: the longest body of a request without records is a little more.
const LARGE_BYTES: usize = 1_000_000;

/// A Fetch that waits for the first record of "orders".
fn wait_for_a_record(connection: &Connection) {
    let partitions = [FetchPartition::new(0, 0, 1 << 20)];
    let topics = [Topic { name: "orders".into(), topic_id: TopicId::NONE, partitions: 1 }];
    let topics = Grouped::Values { topics: &topics, partitions: &partitions };
    let request =
        FetchRequest { max_wait_ms: i32::MAX, min_bytes: 1, topics, ..FetchRequest::default() };
    connection.send(BY_NAME, &request);
}

fn large_request() -> MetadataRequest {
    const NAME_BYTES: usize = 25_000;
    let topic = |_| {
        let mut topic = MetadataRequestTopic::default();
        topic.name = Some("x".repeat(NAME_BYTES).into());
        topic
    };
    let mut request = MetadataRequest::default();
    request.topics = Some((0..LARGE_BYTES / NAME_BYTES).map(topic).collect());
    request
}

/// Behind a Fetch that waits, a whole request was counted by no bound: each connection kept 8 MiB
/// for as long as it liked.
#[test]
fn large_requests_behind_a_waiting_fetch_are_bounded_and_harm_no_small_one() {
    let rig = Rig::start();
    let most = SHARDS * QUEUED_BYTES_PER_SHARD / LARGE_BYTES;
    let small: Vec<Connection> = (0..8).map(|_| rig.connect()).collect();
    small.iter().for_each(wait_for_a_record);
    let request = large_request();
    let mut open = Vec::new();
    for _ in 0..most + 30 {
        let connection = rig.connect();
        wait_for_a_record(&connection);
        connection.send(9, &request);
        open.push(connection);
    }
    let begun = Instant::now();
    while open.len() > most {
        assert!(begun.elapsed() < Duration::from_secs(20), "{} are open", open.len());
        open.retain(|connection: &Connection| !connection.is_ended(Duration::from_millis(1)));
    }
    assert!(open.len() > most / 2, "only {} of {most} are left", open.len());
    rig.connect().produce(0, 100, 30_000);
    for connection in &small {
        connection.receive::<FetchRequest, _>(BY_NAME, |response| {
            let records = response.topics.iter().any(
                |item| matches!(item, Item::Partition(partition) if !partition.records.is_empty()),
            );
            assert!(records, "{response:?}");
        });
    }
}

/// Produces `partitions` of a topic without waiting for the answer; `false` at the end.
fn try_produce(link: &Connection, topic: &str, partitions: &[PartitionProduceData]) -> bool {
    let topics =
        [Topic { name: topic.into(), topic_id: TopicId::NONE, partitions: partitions.len() }];
    let topics = Grouped::Values { topics: &topics, partitions };
    let request = ProduceRequest { acks: -1, timeout_ms: 60_000, topics, ..Default::default() };
    link.try_send(BY_NAME, &request)
}

/// Each of 32 requests kept a hundred bytes and more for each 6 of its own.
#[test]
fn answers_of_many_partitions_that_nobody_takes_are_bounded() {
    let rig = Rig::start();
    let link = rig.connect();
    let index = |index| PartitionProduceData { index, records: Chain::new() };
    let partitions: Vec<_> = (0..100_000).map(index).collect();
    assert_eq!(partitions.len(), PARTITIONS_MAX);
    // A few more than are open at a time, which the sockets' buffers take if nobody else does.
    let sent = (0..36).take_while(|_| try_produce(&link, "nowhere", &partitions)).count();
    assert!(sent < 36, "all that was read is held");
}

/// Bytes that no codec makes shorter.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x005e_ed0f_a11e_71c5_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..bytes).map(next).collect()
}

/// The errors of the batches of the request sent last.
fn errors(link: &Connection) -> Vec<ErrorCode> {
    link.receive::<ProduceRequest, _>(BY_NAME, |response| {
        let items = response.topics.iter();
        let codes = items.filter_map(|item| match item {
            Item::Partition(answer) => Some(answer.error_code),
            Item::Topic(_) => None,
        });
        codes.collect()
    })
}

/// Every connection could keep a whole frame outside the buffers while two threads work.
#[test]
fn frames_that_wait_for_long_work_are_bounded() {
    const BATCH_BYTES: usize = 1_000_000;
    let rig = Rig::start();
    rig.create("packed", &[("compression.type", "gzip")]);
    let first = rig.connect();
    let _other_shard = rig.connect();
    let second = rig.connect();
    // Two of these are more than the bound, and one is work for seconds.
    let count = LONG_FRAMES_BYTES_PER_SHARD / BATCH_BYTES / 2 + 5;
    let records = Chain::from(Slice::copy_of(&batch_of(&noise(BATCH_BYTES))));
    let partitions = vec![PartitionProduceData { index: 0, records }; count];
    assert!(
        try_produce(&first, "packed", &partitions) && try_produce(&second, "packed", &partitions)
    );
    let mut both = [errors(&first), errors(&second)];
    both.sort_by_key(|errors| errors[0].code());
    let [all, refused] = both;
    assert_eq!(all, vec![ErrorCode::None; count]);
    assert_eq!(refused, vec![ErrorCode::KafkaStorageError; count]);
    // Sent again, it finds room.
    let link = rig.connect();
    assert!(try_produce(&link, "packed", &partitions[..10]));
    assert_eq!(errors(&link), vec![ErrorCode::None; 10]);
}

/// A batch longer than all buffers waited for memory that never came, and its partition behind it.
#[test]
fn a_batch_that_would_take_the_buffers_is_too_large_whatever_its_topic_says() {
    const BUFFERS_BYTES: usize = 64 << 20;
    let rig = Rig::start();
    rig.create("wide", &[("max.message.bytes", "104857600")]);
    let link = rig.connect();
    let one = |bytes| {
        let topic = Topic { name: "wide".into(), topic_id: TopicId::NONE, partitions: 1 };
        link.produce_to(BY_NAME, topic, 0, bytes, 30_000).0
    };
    assert_eq!(one(BUFFERS_BYTES + 1), ErrorCode::MessageTooLarge);
    assert_eq!(one(BUFFERS_BYTES / 2), ErrorCode::MessageTooLarge);
    assert_eq!(one(BUFFERS_BYTES / 4), ErrorCode::None);
}
