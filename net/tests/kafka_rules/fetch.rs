//! What a Fetch brings and when, over partitions of several shards.

use millrace_engine::{batch::Header, io::buf::Chain, types::TopicId};
use millrace_net::wire::{
    ErrorCode, Grouped, Item, Topic,
    fetch::{FetchPartition, FetchRequest},
};

use crate::rig::{BY_NAME, Connection, Rig, batch};

/// A Fetch of "orders".
struct Fetch<'a> {
    /// Partition, first offset, most bytes of it.
    partitions: &'a [(i32, i64, i32)],
    /// Most bytes of all.
    max_bytes: i32,
    /// Bytes to wait for.
    min_bytes: i32,
}

impl Fetch<'_> {
    /// Sends it.
    fn send(&self, connection: &Connection) {
        let partitions: Vec<_> = self
            .partitions
            .iter()
            .map(|(index, offset, bytes)| FetchPartition::new(*index, *offset, *bytes))
            .collect();
        let count = partitions.len();
        let topics = [Topic { name: "orders".into(), topic_id: TopicId::NONE, partitions: count }];
        let request = FetchRequest {
            // Longer than anybody waits for an answer here.
            max_wait_ms: 60_000,
            min_bytes: self.min_bytes,
            max_bytes: self.max_bytes,
            topics: Grouped::Values { topics: &topics, partitions: &partitions },
            ..FetchRequest::default()
        };
        connection.send(BY_NAME, &request);
    }

    /// Bytes of whole batches, and their number, of each partition of the answer.
    fn receive(connection: &Connection) -> Vec<(usize, usize)> {
        connection.receive::<FetchRequest<'_>, _>(BY_NAME, |response| {
            let partitions = response.topics.iter().filter_map(|item| match item {
                Item::Partition(partition) => Some(partition),
                Item::Topic(_) => None,
            });
            partitions
                .map(|partition| {
                    assert_eq!(partition.error_code, ErrorCode::None);
                    assert!(partition.high_watermark >= 0);
                    (partition.records.len(), whole_batches(&partition.records))
                })
                .collect()
        })
    }

    /// Sends it and waits for the answer.
    fn call(&self, connection: &Connection) -> Vec<(usize, usize)> {
        self.send(connection);
        Self::receive(connection)
    }
}

fn whole_batches(records: &Chain) -> usize {
    let (mut at, mut count) = (0, 0);
    while at < records.len() {
        at += Header::from_chain(records, at).expect("whole batches").size_bytes();
        count += 1;
    }
    assert_eq!(at, records.len(), "whole batches");
    count
}

#[test]
fn an_answer_keeps_to_its_bytes_whoever_owns_the_partitions() {
    let rig = Rig::start();
    let connection = rig.connect();
    let size = batch(10_000).len();
    let limit = |batches: usize, more: usize| i32::try_from(batches * size + more).expect("small");
    for partition in 0..4 {
        for _ in 0..5 {
            assert_eq!(connection.produce(partition, 10_000, 30_000).0, ErrorCode::None);
        }
    }
    // Per partition, in all, and the batches that are to come of each partition, in order.
    let cases = [
        (limit(9, 0), limit(2, 500), [2, 0, 0, 0]),
        (limit(2, 500), limit(3, 500), [2, 1, 0, 0]),
        (limit(1, 0), limit(3, 0), [1, 1, 1, 0]),
        (limit(9, 0), limit(7, 0), [5, 2, 0, 0]),
        (limit(9, 0), limit(99, 0), [5, 5, 5, 5]),
        (limit(9, 0), 1, [1, 0, 0, 0]),
        (1, limit(99, 0), [1, 1, 1, 1]),
        (limit(9, 0), 0, [1, 0, 0, 0]),
    ];
    for first in 0..4 {
        for (each, all, expected) in cases {
            let order: Vec<_> = (0..4).map(|n| ((first + n) % 4, 0, each)).collect();
            let fetch = Fetch { partitions: &order, max_bytes: all, min_bytes: 1 };
            let answer = fetch.call(&connection);
            let batches: Vec<usize> = answer.iter().map(|(_, batches)| *batches).collect();
            assert_eq!(batches, expected, "from {first}, {each} each, {all} in all");
            // A partition that has nothing new leaves its share to the others.
            let mut order = order;
            order[0].1 = 5;
            let fetch = Fetch { partitions: &order, max_bytes: all, min_bytes: 1 };
            let answer = fetch.call(&connection);
            let total: usize = answer.iter().map(|(bytes, _)| bytes).sum();
            assert!(total <= size || i32::try_from(total).expect("small") <= all);
            assert!(answer[0] == (0, 0) && answer[1].1 > 0, "{answer:?}");
        }
    }
}

#[test]
fn a_fetch_waits_until_its_bytes_are_there_on_all_shards() {
    let rig = Rig::start();
    let (reader, writer) = (rig.connect(), rig.connect());
    let size = batch(1_000).len();
    let all = [(0, 0, 1 << 20), (1, 0, 1 << 20), (2, 0, 1 << 20), (3, 0, 1 << 20)];
    let min_bytes = i32::try_from(10 * size).expect("small");
    Fetch { partitions: &all, max_bytes: 1 << 20, min_bytes }.send(&reader);
    for n in 0..10 {
        assert_eq!(writer.produce(n % 4, 1_000, 30_000).0, ErrorCode::None);
    }
    let answer = Fetch::receive(&reader);
    let total: usize = answer.iter().map(|(bytes, _)| bytes).sum();
    assert_eq!(total, 10 * size, "it came with the last batch, not before: {answer:?}");
    // What was there already counts as well.
    let again = Fetch { partitions: &all, max_bytes: 1 << 20, min_bytes };
    assert_eq!(again.call(&reader), answer);
    // As in Kafka, what is due is not judged again by the whole batches that it comes to.
    let half = i32::try_from(size + size / 2).expect("small");
    let capped = [(0, 0, half)];
    let capped = Fetch { partitions: &capped, max_bytes: 1 << 20, min_bytes: half };
    assert_eq!(capped.call(&reader), [(size, 1)]);
}
