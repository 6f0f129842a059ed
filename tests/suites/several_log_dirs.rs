//! Several directories in `log.dirs`: partitions are spread over them and found again whatever the
//! order of the directories and the number of shards; a node keeps its identity.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use millrace_tests::{
    broker::{self, Broker, Options},
    kernel::{Confinement, Signal},
    wire::Connection,
};
use rdkafka::{
    Message, Offset, TopicPartitionList,
    config::ClientConfig,
    consumer::{BaseConsumer, Consumer},
    producer::{BaseProducer, BaseRecord, Producer},
};

const TOPIC: &str = "spread";
const PARTITIONS: i32 = 12;
const RECORDS: i32 = 20;
const PATIENCE: Duration = Duration::from_secs(30);

/// Three directories of one node, which a broker is started over in any order.
struct Node {
    folder: tempfile::TempDir,
}

impl Node {
    fn new() -> Self {
        Self { folder: broker::fresh_folder("dirs") }
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn dirs(&self, names: &[&str]) -> String {
        let paths = names.iter().map(|name| self.dir(name).display().to_string());
        paths.collect::<Vec<_>>().join(",")
    }

    fn start(&self, names: &[&str], shards: usize) -> Broker {
        let mut dirs = names.iter().map(|name| self.dir(name));
        let data_dir = dirs.next();
        let options = Options { data_dir, more_data_dirs: dirs.collect(), ..Options::default() };
        Broker::start(options.with_shards(shards))
    }

    /// A start that is to fail, and the one line that says why.
    fn refused(&self, names: &[&str], settings: &[&str]) -> String {
        let dirs = self.dirs(names);
        let listen = format!("127.0.0.1:{}", broker::free_port());
        let mut arguments = vec!["--data-dir", &dirs, "--listen", &listen, "--shards", "1"];
        settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
        let failed =
            broker::serve_until_exit(broker::binary(), &arguments, &Confinement::default());
        assert_ne!(failed.code, Some(0), "{}", failed.stderr);
        assert_eq!(failed.stderr.trim_end().lines().count(), 1, "{}", failed.stderr);
        failed.stderr
    }

    /// What names the node in a directory.
    fn identity(&self, name: &str) -> String {
        fs::read_to_string(self.dir(name).join("millrace.meta")).expect("the directory is marked")
    }
}

fn partitions_in(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).expect("readable").map(|entry| entry.expect("readable"));
    let prefix = format!("{TOPIC}-");
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)).count()
}

fn value(partition: i32, place: i32) -> String {
    format!("partition {partition}, record {place}")
}

fn produce_all(broker: &Broker) {
    let mut link = Connection::open(broker.address()).expect("it answers");
    link.create_topic(TOPIC, PARTITIONS).expect("made");
    let mut config = ClientConfig::new();
    let producer: BaseProducer = config
        .set("bootstrap.servers", broker.bootstrap())
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .create()
        .expect("a producer");
    for place in 0..RECORDS {
        for partition in 0..PARTITIONS {
            let value = value(partition, place);
            let record = BaseRecord::<(), _>::to(TOPIC).partition(partition).payload(&value);
            producer.send(record).expect("room in the queue");
        }
    }
    producer.flush(PATIENCE).expect("all is acknowledged");
}

/// Reads every partition from its start and sees all records, in order, and no others.
fn read_all(broker: &Broker) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.bootstrap()).set("group.id", "reader");
    config.set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(TOPIC, partition, Offset::Beginning).expect("a valid offset");
    }
    consumer.assign(&list).expect("assign without a group");
    let mut next = vec![0; usize::try_from(PARTITIONS).expect("small")];
    for at in 0..PARTITIONS * RECORDS {
        let message = consumer.poll(PATIENCE).unwrap_or_else(|| panic!("only {at} came"));
        let message = message.expect("no error");
        let next = &mut next[usize::try_from(message.partition()).expect("small")];
        let expected = value(message.partition(), *next);
        assert_eq!(message.payload(), Some(expected.as_bytes()));
        *next += 1;
    }
    assert!(next.iter().all(|next| *next == RECORDS), "{next:?}");
}

#[test]
fn partitions_are_spread_and_found_in_any_order() {
    let node = Node::new();
    let mut broker = node.start(&["a", "b", "c"], 2);
    produce_all(&broker);
    let spread = ["a", "b", "c"].map(|name| partitions_in(&node.dir(name)));
    assert_eq!(spread, [4; 3], "each directory has its share");
    let identities = ["a", "b", "c"].map(|name| node.identity(name));
    assert!(broker.stop(Signal::Terminate).0.success(), "{}", broker.log());
    for (names, shards) in [(["a", "c", "b"], 1), (["a", "b", "c"], 4), (["a", "c", "b"], 2)] {
        let mut broker = node.start(&names, shards);
        read_all(&broker);
        assert_eq!(["a", "b", "c"].map(|name| partitions_in(&node.dir(name))), spread);
        assert_eq!(["a", "b", "c"].map(|name| node.identity(name)), identities);
        // Every other start follows a kill.
        if shards == 1 {
            broker.kill();
        } else {
            assert!(broker.stop(Signal::Terminate).0.success(), "{}", broker.log());
        }
    }
}

#[test]
fn what_cannot_be_right_stops_the_start_with_one_line() {
    let node = Node::new();
    let mut broker = node.start(&["a", "b", "c"], 1);
    produce_all(&broker);
    assert!(broker.stop(Signal::Terminate).0.success(), "{}", broker.log());
    let line = node.refused(&["b", "a", "c"], &[]);
    assert!(line.contains("first in log.dirs"), "{line}");
    let line = node.refused(&["a", "b", "c"], &["node.id=77"]);
    assert!(line.contains("node.id is 77") && line.contains("belongs to node"), "{line}");
    let line = node.refused(&["a", "b", "c/../b"], &[]);
    assert!(line.contains("are the same directory"), "{line}");
    std::os::unix::fs::symlink(node.dir("b"), node.dir("link")).expect("made");
    let line = node.refused(&["a", "b", "link"], &[]);
    assert!(line.contains("/b and ") && line.contains("/link are the same"), "{line}");
    fs::rename(node.dir("c"), node.dir("away")).expect("moved");
    // The second start finds the empty directory that stands in its place.
    for _ in 0..2 {
        let line = node.refused(&["a", "b", "c"], &[]);
        assert!(line.contains("4 partitions") && line.contains("/c is new"), "{line}");
    }
    fs::remove_dir_all(node.dir("c")).expect("what the refused start made");
    fs::rename(node.dir("away"), node.dir("c")).expect("moved back");
    fs::rename(node.dir("a"), node.dir("away")).expect("moved");
    let line = node.refused(&["a", "b", "c"], &[]);
    assert!(line.contains("no metadata log in"), "{line}");
    fs::remove_dir_all(node.dir("a")).expect("what the refused start made");
    fs::rename(node.dir("away"), node.dir("a")).expect("moved back");
    read_all(&node.start(&["a", "b", "c", "one-more"], 1));
}
