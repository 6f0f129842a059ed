//! Segments are Kafka's, both ways: its own dump tool reads ours, and we read what it wrote.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use millrace_tests::{
    broker::{self, Broker, Options},
    kafka::{self, Installation, Kafka},
    kernel::Signal,
    wire::Connection,
};
use rdkafka::{
    Message, Offset, TopicPartitionList,
    config::ClientConfig,
    consumer::{BaseConsumer, Consumer},
    producer::{BaseProducer, BaseRecord, Producer},
};

const TOPIC: &str = "segments";
const RECORDS: usize = 5_000;
const PATIENCE: Duration = Duration::from_secs(60);
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

/// Small, so that a few thousand records seal several segments.
const SEGMENT: (&str, &str) = ("segment.bytes", "1048576");

fn value(place: usize) -> String {
    // Incompressible enough that compressed batches fill segments too.
    let mut state = u64::try_from(place).expect("few records") + 1;
    let mut text = format!("record {place} ");
    for _ in 0..40 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{state:016x}"));
    }
    text
}

fn produce(bootstrap: &str) {
    for (slice, codec) in CODECS.iter().enumerate() {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", bootstrap).set("compression.type", *codec);
        config.set("enable.idempotence", "true").set("batch.size", "65536");
        let producer: BaseProducer = config.create().expect("a producer");
        for place in slice * RECORDS / CODECS.len()..(slice + 1) * RECORDS / CODECS.len() {
            let (key, value) = (format!("key {place}"), value(place));
            let mut record = BaseRecord::to(TOPIC).partition(0).key(&key).payload(&value);
            while let Err((_full, again)) = producer.send(record) {
                record = again;
                producer.poll(Duration::from_millis(10));
            }
        }
        producer.flush(PATIENCE).expect("acknowledged");
    }
}

fn assert_reads_back(bootstrap: &str) {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "reader")
        .set("enable.auto.commit", "false")
        .set("check.crcs", "true");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(TOPIC, 0, Offset::Beginning).expect("a valid offset");
    consumer.assign(&list).expect("assign without a group");
    for place in 0..RECORDS {
        let message = consumer.poll(PATIENCE).unwrap_or_else(|| panic!("{place} records came"));
        let message = message.expect("no error");
        assert_eq!(message.offset(), i64::try_from(place).expect("few records"));
        assert_eq!(message.key(), Some(format!("key {place}").as_bytes()));
        assert_eq!(message.payload(), Some(value(place).as_bytes()), "value of {place}");
    }
}

/// The directory of the topic's only partition, somewhere below.
fn partition_folder(root: &Path) -> PathBuf {
    let name = format!("{TOPIC}-0");
    let mut waiting = vec![root.to_path_buf()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).expect("our own files").flatten() {
            if entry.file_name().to_string_lossy() == name {
                return entry.path();
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(entry.path());
            }
        }
    }
    panic!("no directory {name} below {}", root.display())
}

/// Files of a partition with this ending, in order of their offsets.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("our own files").flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect();
    files.sort();
    files
}

/// What the tool prints of a file that is not in order.
const COMPLAINTS: [&str; 7] = [
    "Mismatches",
    "Non-consecutive",
    "invalid bytes",
    "isvalid: false",
    "are not found in",
    "out of order timestamp",
    "timestamp mismatch",
];

/// What Kafka's tool says of a file, or why it fails.
fn dump(installation: &Installation, file: &Path) -> String {
    let file = file.to_string_lossy();
    let arguments = ["--deep-iteration", "--print-data-log", "--files", &file];
    match installation.tool("org.apache.kafka.tools.DumpLogSegments", &arguments) {
        Ok(text) => text,
        Err(error) => format!("isvalid: false ({error})"),
    }
}

/// As [`dump`], for a file that must be in order.
fn dump_in_order(installation: &Installation, file: &Path) -> String {
    let text = dump(installation, file);
    for complaint in COMPLAINTS {
        let shown: String = text.chars().take(2_000).collect();
        assert!(!text.contains(complaint), "'{complaint}' of {}:\n{shown}", file.display());
    }
    text
}

/// The tool complains of a damaged copy, so that its silence means something.
fn assert_damage_is_seen(installation: &Installation, log: &Path) {
    let folder = broker::fresh_folder("damaged");
    let copy = folder.path().join(log.file_name().expect("a file"));
    let mut bytes = fs::read(log).expect("our own files");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x5a;
    fs::write(&copy, bytes).expect("room for it");
    let text = dump(installation, &copy);
    assert!(COMPLAINTS.iter().any(|complaint| text.contains(complaint)), "no complaint");
}

#[test]
#[ignore = "needs Java and Maven: cargo test -p millrace-tests --test kafka_tools_read_segments \
            -- --ignored"]
fn kafkas_dump_tool_reads_our_sealed_segments_without_complaint() {
    let installation = Installation::fetch().expect("Kafka's jars");
    let mut broker = Broker::start(Options::default());
    let mut link = Connection::open(broker.address()).expect("it answers");
    link.create_topic_with(TOPIC, 1, &[SEGMENT]).expect("made");
    produce(&broker.bootstrap());
    assert_reads_back(&broker.bootstrap());
    let (status, _) = broker.stop(Signal::Terminate);
    assert!(status.success(), "{status}");

    let folder = partition_folder(broker.data_dir());
    let logs = files(&folder, "log");
    assert!(logs.len() >= 3, "only {} segments: {logs:?}", logs.len());
    let sealed = &logs[..logs.len() - 1];
    let mut records = 0;
    for log in sealed {
        records += dump_in_order(&installation, log).matches("| offset: ").count();
        for index in ["index", "timeindex"] {
            dump_in_order(&installation, &log.with_extension(index));
        }
    }
    assert_damage_is_seen(&installation, &sealed[0]);
    println!("{records} records in {} sealed segments", sealed.len());
    let next = logs.last().and_then(|log| log.file_stem()).expect("the active segment");
    let next: usize = next.to_string_lossy().parse().expect("named after its first offset");
    assert_eq!(records, next, "the tool sees every record before the active segment");
}

#[test]
#[ignore = "needs Java and Maven: cargo test -p millrace-tests --test kafka_tools_read_segments \
            -- --ignored"]
fn a_partition_written_by_apache_kafka_opens_here() {
    let mut kafka = Kafka::start(kafka::Options::default()).expect("Apache Kafka starts");
    let mut link = Connection::open(kafka.address()).expect("it answers");
    link.create_topic_with(TOPIC, 1, &[SEGMENT]).expect("made");
    produce(&kafka.address().to_string());
    kafka.stop();
    let theirs = partition_folder(&kafka.data_dir());
    let sealed = &files(&theirs, "log")[0];
    dump_in_order(kafka.installation(), sealed);
    assert_damage_is_seen(kafka.installation(), sealed);

    let mut broker = Broker::start(Options::default());
    let mut link = Connection::open(broker.address()).expect("it answers");
    link.create_topic_with(TOPIC, 1, &[SEGMENT]).expect("made");
    let (status, _) = broker.stop(Signal::Terminate);
    assert!(status.success(), "{status}");
    let ours = partition_folder(broker.data_dir());
    for entry in fs::read_dir(&ours).expect("our own files").flatten() {
        fs::remove_file(entry.path()).expect("a plain file");
    }
    for ending in ["log", "index", "timeindex"] {
        for file in files(&theirs, ending) {
            fs::copy(&file, ours.join(file.file_name().expect("a file"))).expect("room for it");
        }
    }
    broker.restart();
    assert_reads_back(&broker.bootstrap());
    let mut link = Connection::open(broker.address()).expect("it answers");
    let next = link.produce(TOPIC, 0, b"one more").expect("acknowledged");
    assert_eq!(next, i64::try_from(RECORDS).expect("few records"));
}
