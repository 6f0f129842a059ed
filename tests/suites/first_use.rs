//! A real librdkafka, built from source, uses a fresh broker as a newcomer would.

use std::time::{Duration, Instant};

use millrace_tests::{server::Server, wire::Connection};
use rdkafka::{
    Message, Offset, TopicPartitionList,
    config::ClientConfig,
    consumer::{BaseConsumer, Consumer},
    message::{BorrowedMessage, Header, Headers, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, Producer},
};

const RECORDS: usize = 10_000;
const PARTITIONS: i32 = 3;
const PATIENCE: Duration = Duration::from_secs(60);
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

/// The record at this place of the sequence: some have no value, some an empty one.
struct Expected {
    key: String,
    value: Option<String>,
    header: String,
    partition: i32,
    timestamp_ms: i64,
}

fn expected(place: usize) -> Expected {
    let value = match place % 50 {
        0 => None,
        1 => Some(String::new()),
        _ => Some(format!("value {place} {}", "abcdefgh ".repeat(place % 30))),
    };
    let place_i32 = i32::try_from(place).expect("few records");
    Expected {
        key: format!("key {place}"),
        value,
        header: format!("header {place}"),
        partition: place_i32 % PARTITIONS,
        timestamp_ms: 1_700_000_000_000 + i64::from(place_i32),
    }
}

fn producer(bootstrap: &str, settings: &[(&str, &str)]) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("linger.ms", "5");
    settings.iter().for_each(|(name, value)| {
        config.set(*name, *value);
    });
    config.create().expect("a producer")
}

fn consumer(bootstrap: &str) -> BaseConsumer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("group.id", "first-use");
    config.set("enable.auto.commit", "false").set("check.crcs", "true");
    config.set("enable.partition.eof", "false").create().expect("a consumer")
}

fn produce(producer: &BaseProducer, topic: &str, places: std::ops::Range<usize>) {
    for place in places {
        let record = expected(place);
        let headers =
            OwnedHeaders::new().insert(Header { key: "place", value: Some(&record.header) });
        let mut message: BaseRecord<'_, String, String> = BaseRecord::to(topic)
            .key(&record.key)
            .headers(headers)
            .partition(record.partition)
            .timestamp(record.timestamp_ms);
        if let Some(value) = &record.value {
            message = message.payload(value);
        }
        while let Err((_full, again)) = producer.send(message) {
            message = again;
            producer.poll(Duration::from_millis(10));
        }
    }
    producer.flush(PATIENCE).expect("all records are acknowledged");
    assert_eq!(producer.in_flight_count(), 0);
}

/// Reads so many records of the assigned partitions, in the order of each partition.
fn read(consumer: &BaseConsumer, count: usize, mut each: impl FnMut(&BorrowedMessage<'_>)) {
    let started = Instant::now();
    for at in 0..count {
        loop {
            assert!(started.elapsed() < PATIENCE, "only {at} of {count} records came");
            match consumer.poll(Duration::from_millis(200)) {
                Some(Ok(message)) => break each(&message),
                Some(Err(error)) => panic!("at record {at}: {error}"),
                None => {}
            }
        }
    }
}

fn check_equal(message: &BorrowedMessage<'_>, place: usize) {
    let record = expected(place);
    assert_eq!(message.key(), Some(record.key.as_bytes()), "key of {place}");
    assert_eq!(message.payload(), record.value.as_deref().map(str::as_bytes), "value of {place}");
    let headers = message.headers().expect("headers");
    assert_eq!(headers.count(), 1);
    assert_eq!(headers.get(0).key, "place");
    assert_eq!(headers.get(0).value, Some(record.header.as_bytes()));
    assert_eq!(message.timestamp().to_millis(), Some(record.timestamp_ms));
}

fn assign(consumer: &BaseConsumer, topic: &str, from: Offset) {
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(topic, partition, from).expect("a valid offset");
    }
    consumer.assign(&list).expect("assign without a group");
}

fn create(server: &Server, topic: &str) {
    let mut admin = Connection::open(server.address()).expect("the broker answers");
    admin.create_topic(topic, PARTITIONS).expect("the topic is made");
}

#[test]
fn librdkafka_gets_back_every_record_as_sent_with_every_codec() {
    let server = Server::start(None);
    let topic = "codecs";
    create(&server, topic);
    let slice = RECORDS / CODECS.len();
    for (at, codec) in CODECS.iter().enumerate() {
        let settings = [("compression.type", *codec), ("enable.idempotence", "true")];
        produce(&producer(&server.bootstrap(), &settings), topic, at * slice..(at + 1) * slice);
    }
    let consumer = consumer(&server.bootstrap());
    assign(&consumer, topic, Offset::Beginning);
    let mut next = [0_i64; 3];
    read(&consumer, RECORDS, |message| {
        let partition = usize::try_from(message.partition()).expect("an index");
        assert_eq!(message.offset(), next[partition], "offsets have no gap");
        next[partition] += 1;
        let place = usize::try_from(message.offset()).expect("not negative") * 3 + partition;
        check_equal(message, place);
    });
    let quiet = consumer.poll(Duration::from_millis(300));
    assert!(quiet.is_none(), "nothing more than was sent: {quiet:?}");
    for (partition, next) in (0..).zip(next) {
        let marks = consumer.fetch_watermarks(topic, partition, PATIENCE).expect("offsets");
        assert_eq!(marks, (0, next));
    }
}

#[test]
fn every_acks_setting_is_accepted() {
    let server = Server::start(None);
    for acks in ["0", "1", "all"] {
        let topic = format!("acks-{acks}");
        create(&server, &topic);
        // With acks=0 nobody waits for the broker, so the connection stays until all was read.
        let producer = producer(&server.bootstrap(), &[("acks", acks)]);
        produce(&producer, &topic, 0..300);
        let consumer = consumer(&server.bootstrap());
        assign(&consumer, &topic, Offset::Beginning);
        read(&consumer, 300, |_| {});
    }
}

#[test]
fn a_consumer_seeks_by_offset_and_by_time() {
    let server = Server::start(None);
    let topic = "seek";
    create(&server, topic);
    produce(&producer(&server.bootstrap(), &[]), topic, 0..3_000);
    let consumer = consumer(&server.bootstrap());
    assign(&consumer, topic, Offset::Offset(900));
    read(&consumer, 300, |message| assert!(message.offset() >= 900));

    assign(&consumer, topic, Offset::Beginning);
    read(&consumer, 1, |message| assert_eq!(message.offset(), 0));
    consumer.seek(topic, 1, Offset::Offset(500), PATIENCE).expect("seek");

    let mut times = TopicPartitionList::new();
    let moment = expected(1_500).timestamp_ms;
    for partition in 0..PARTITIONS {
        times.add_partition_offset(topic, partition, Offset::Offset(moment)).expect("a time");
    }
    let found = consumer.offsets_for_times(times, PATIENCE).expect("offsets for times");
    for element in found.elements() {
        assert_eq!(element.offset(), Offset::Offset(500), "1,500 is the 500th of each partition");
    }

    assign(&consumer, topic, Offset::OffsetTail(10));
    read(&consumer, 30, |message| assert!(message.offset() >= 990));
}

#[test]
fn a_topic_appears_with_its_first_record() {
    let server = Server::start(None);
    let producer = producer(&server.bootstrap(), &[]);
    let record: BaseRecord<'_, str, str> = BaseRecord::to("made-on-use").payload("first");
    producer.send(record).map_err(|(error, _)| error).expect("queued");
    producer.flush(PATIENCE).expect("acknowledged");
    let consumer = consumer(&server.bootstrap());
    let metadata = consumer.fetch_metadata(Some("made-on-use"), PATIENCE).expect("metadata");
    let partitions = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
    let ends = (0..partitions).map(|partition| {
        let partition = i32::try_from(partition).expect("an index");
        consumer.fetch_watermarks("made-on-use", partition, PATIENCE).expect("offsets").1
    });
    assert_eq!(ends.sum::<i64>(), 1, "one record in {partitions} partitions");
}

#[test]
fn a_waiting_consumer_gets_a_record_as_soon_as_it_is_acknowledged() {
    let server = Server::start(None);
    let topic = "tail";
    create(&server, topic);
    let consumer = consumer(&server.bootstrap());
    assign(&consumer, topic, Offset::End);
    assert!(consumer.poll(Duration::from_secs(1)).is_none());
    let producer = producer(&server.bootstrap(), &[("linger.ms", "0")]);
    produce(&producer, topic, 0..30);
    read(&consumer, 30, |_| {});
}
