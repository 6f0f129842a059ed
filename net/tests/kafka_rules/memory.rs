//! What clients can make the broker hold for requests that it has not answered.

use std::time::{Duration, Instant};

use millrace_engine::types::TopicId;
use millrace_net::{
    limits::QUEUED_BYTES_PER_SHARD,
    wire::{
        Grouped, Item, Topic,
        fetch::{FetchPartition, FetchRequest},
        typed::metadata::{MetadataRequest, MetadataRequestTopic},
    },
};

use crate::rig::{BY_NAME, Connection, Rig};

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
