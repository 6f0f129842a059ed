//! Shard numbers appear nowhere on disk: a restart with any other number keeps every record, after
//! a clean stop and after a kill.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use millrace_tests::{
    broker::{Broker, Options},
    kernel::Signal,
    wire::Connection,
};
use rdkafka::{
    Message, Offset, TopicPartitionList,
    config::ClientConfig,
    consumer::{BaseConsumer, Consumer},
};

const TOPICS: [&str; 3] = ["orders", "payments", "audit"];
const PARTITIONS: i32 = 5;
const RECORDS_PER_ROUND: i32 = 4;
const PATIENCE: Duration = Duration::from_secs(30);

/// Every record that was acknowledged, by topic and partition, in order.
type Records = BTreeMap<(String, i32), Vec<String>>;

fn produce_round(broker: &Broker, round: usize, records: &mut Records) {
    let mut link = Connection::open(broker.address()).expect("it answers");
    for topic in TOPICS {
        link.create_topic(topic, PARTITIONS).expect("made, or there already");
        for partition in 0..PARTITIONS {
            let kept = records.entry((topic.to_owned(), partition)).or_default();
            for place in 0..RECORDS_PER_ROUND {
                let value = format!("{topic}/{partition}: round {round}, record {place}");
                let offset = link.produce(topic, partition, value.as_bytes());
                let expected = i64::try_from(kept.len()).expect("few records");
                assert_eq!(offset.expect("acknowledged"), expected, "{value}");
                kept.push(value);
            }
        }
    }
}

fn read_all(broker: &Broker, count: usize) -> Records {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", broker.bootstrap())
        .set("group.id", "reader")
        .set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let mut list = TopicPartitionList::new();
    for topic in TOPICS {
        for partition in 0..PARTITIONS {
            let added = list.add_partition_offset(topic, partition, Offset::Beginning);
            added.expect("a valid offset");
        }
    }
    consumer.assign(&list).expect("assign without a group");
    let mut records = Records::new();
    for at in 0..count {
        let message = consumer.poll(PATIENCE).unwrap_or_else(|| panic!("{at} of {count} came"));
        let message = message.expect("no error");
        let value = String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned();
        let place = (message.topic().to_owned(), message.partition());
        records.entry(place).or_default().push(value);
    }
    assert!(consumer.poll(Duration::from_millis(300)).is_none(), "nothing more than was sent");
    records
}

#[test]
fn every_record_survives_1_2_4_and_1_shards() {
    let mut broker = Broker::start(Options::default().with_shards(1));
    let mut records = Records::new();
    produce_round(&broker, 0, &mut records);
    for (round, shards) in (1..).zip([2, 4, 1, 4, 2, 1]) {
        // The first three follow a clean stop, the others a kill.
        if round <= 3 {
            let (status, _) = broker.stop(Signal::Terminate);
            assert!(status.success(), "{status}");
        } else {
            broker.kill();
        }
        broker.restart_with_shards(shards);
        let answered = broker.first_answer();
        let count = records.values().map(Vec::len).sum();
        let reading = Instant::now();
        assert_eq!(read_all(&broker, count), records, "after a restart with {shards} shards");
        let read = reading.elapsed();
        produce_round(&broker, round, &mut records);
        let produced = reading.elapsed() - read;
        println!("{shards} shards: answered in {answered:?}, read in {read:?}, {produced:?} more");
    }
}
