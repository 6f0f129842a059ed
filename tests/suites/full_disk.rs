//! A disk without room: what cannot be made is refused with a storage error, heals by itself once
//! there is room, and keeps no stop waiting.
//!
//! A partition whose directory could not be made was never tried again: its topic existed, and
//! every produce was told to look for another leader until the broker was restarted.

use std::{
    fs,
    time::{Duration, Instant},
};

use millrace_tests::{
    broker::{Broker, Options},
    kernel::Signal,
    mount::{Mount, may_mount},
    wire::Connection,
};

/// Within which a partition is served once nothing stands in its way.
const PATIENCE: Duration = Duration::from_secs(20);

/// Within which a stop ends, on a machine that is busy with other things.
const STOP_BOUND: Duration = Duration::from_secs(10);

/// Kafka's KAFKA_STORAGE_ERROR, as the tests' client words it.
const STORAGE_ERROR: &str = "error 56";

const PARTITIONS: i32 = 4;

fn broker_in(mount: &Mount) -> Broker {
    Broker::start(Options {
        data_dir: Some(mount.path().to_owned()),
        ..Options::default().with_shards(2)
    })
}

fn link_to(broker: &Broker) -> Connection {
    Connection::open(broker.address()).expect("it answers")
}

/// Every partition answers with the storage error.
fn assert_refused(link: &mut Connection, topic: &str, partitions: i32) {
    for partition in 0..partitions {
        let refused = link.produce(topic, partition, b"value").expect_err("it has no directory");
        assert_eq!(refused.to_string(), STORAGE_ERROR, "{topic}-{partition}");
        let refused = link.end_offset(topic, partition).expect_err("it has no directory");
        assert_eq!(refused.to_string(), STORAGE_ERROR, "{topic}-{partition}");
    }
}

/// Every partition takes a record as its first, some time soon.
fn assert_heals(link: &mut Connection, topic: &str, partitions: i32) {
    let begun = Instant::now();
    for partition in 0..partitions {
        loop {
            match link.produce(topic, partition, b"value") {
                Ok(offset) => break assert_eq!(offset, 0, "{topic}-{partition} is new"),
                Err(error) => assert_eq!(error.to_string(), STORAGE_ERROR, "{topic}-{partition}"),
            }
            assert!(begun.elapsed() < PATIENCE, "{topic}-{partition} is not served");
        }
    }
}

/// Lines of the broker's log that name the topic.
fn lines_about(broker: &Broker, topic: &str) -> Vec<String> {
    broker.log().lines().filter(|line| line.contains(topic)).map(str::to_owned).collect()
}

#[test]
fn a_topic_made_on_a_full_disk_heals_when_there_is_room() {
    if !may_mount() {
        return;
    }
    let mount = Mount::ext4(160, 400);
    let mut broker = broker_in(&mount);
    let mut link = link_to(&broker);
    link.create_topic("before", PARTITIONS).expect("made");
    assert_heals(&mut link, "before", PARTITIONS);
    let fillers = mount.fill_inodes().expect("full");
    // As in Kafka, the topic exists once the metadata says so; its partitions are another matter.
    link.create_topic("starved", PARTITIONS).expect("made");
    assert_refused(&mut link, "starved", PARTITIONS);
    link.produce("before", 0, b"value").expect("it has its files");
    let lines = lines_about(&broker, "starved");
    assert!((1..=2).contains(&lines.len()), "one line of each shard: {lines:?}");
    assert!(lines[0].contains("No space left"), "{lines:?}");
    fs::remove_dir_all(fillers).expect("our own files");
    assert_heals(&mut link, "starved", PARTITIONS);
    broker.kill();
    broker.restart();
    let mut link = link_to(&broker);
    for partition in 0..PARTITIONS {
        assert_eq!(link.end_offset("starved", partition).expect("served"), 1);
    }
}

#[test]
fn a_partition_heals_from_whatever_was_in_its_way() {
    let mut broker = Broker::start(Options::default().with_shards(1));
    let obstacle = broker.data_dir().join("blocked-1");
    fs::write(&obstacle, b"a file where a directory goes").expect("our own folder");
    let mut link = link_to(&broker);
    link.create_topic("blocked", 2).expect("made");
    link.produce("blocked", 0, b"value").expect("nothing is in its way");
    let refused = link.produce("blocked", 1, b"value").expect_err("a file is in its way");
    assert_eq!(refused.to_string(), STORAGE_ERROR);
    // Metadata that changes meanwhile is applied, and a deleted topic is tried no more.
    fs::write(broker.data_dir().join("gone-0"), b"another").expect("our own folder");
    link.create_topic("gone", 1).expect("made");
    assert_refused(&mut link, "gone", 1);
    link.delete_topic("gone").expect("deleted");
    let unknown = link.produce("gone", 0, b"value").expect_err("deleted").to_string();
    assert_eq!(unknown, "error 3");
    fs::remove_file(obstacle).expect("our own file");
    let begun = Instant::now();
    while link.produce("blocked", 1, b"value").is_err() {
        assert!(begun.elapsed() < PATIENCE, "blocked-1 is not served");
    }
    broker.kill();
}

/// Kafka's settings of a topic whose records wait in memory for a flush.
const RELAXED: [(&str, &str); 1] = [("flush.messages", "1000000")];

#[test]
fn a_stop_on_a_full_disk_ends_soon_and_in_one_line() {
    if !may_mount() {
        return;
    }
    let mount = Mount::ext4(160, 2_000);
    let mut broker = broker_in(&mount);
    for round in 0..10 {
        let mut link = link_to(&broker);
        let (strict, relaxed) = (format!("strict{round}"), format!("relaxed{round}"));
        link.create_topic(&strict, PARTITIONS).expect("made");
        link.create_topic_with(&relaxed, PARTITIONS, &RELAXED).expect("made");
        let value = vec![7; 200 << 10];
        for partition in 0..PARTITIONS {
            link.produce(&strict, partition, b"value").expect("there is room");
            link.produce(&relaxed, partition, b"value").expect("there is room");
        }
        let filler = mount.fill_blocks().expect("full");
        // Half of them fail, the others have records that no flush has covered.
        for partition in 0..PARTITIONS / 2 {
            for topic in [&strict, &relaxed] {
                let refused = (0..20).find_map(|_| link.produce(topic, partition, &value).err());
                let refused = refused.expect("20 of these do not fit into what was prepared");
                assert_eq!(refused.to_string(), STORAGE_ERROR, "{topic}-{partition}");
            }
        }
        for partition in PARTITIONS / 2..PARTITIONS {
            let _may_be_refused = link.produce(&relaxed, partition, b"value");
        }
        let before = broker.log().len();
        let (status, took) = broker.stop(Signal::Terminate);
        let said = broker.log().split_off(before);
        println!("round {round}: {status} after {took:?}: {said}");
        assert!(matches!(status.code(), Some(0 | 1)), "{status}: {said}");
        assert_eq!(said.lines().count(), usize::from(!status.success()), "one line: {said}");
        assert!(took < STOP_BOUND, "{took:?}");
        fs::remove_file(filler).expect("our own file");
        broker.restart();
        let mut link = link_to(&broker);
        for partition in 0..PARTITIONS {
            for topic in [&strict, &relaxed] {
                let end = link.end_offset(topic, partition).expect("served again");
                assert!(end >= 1, "{topic}-{partition} lost what it acknowledged");
            }
        }
        link.delete_topic(&strict).expect("deleted");
        link.delete_topic(&relaxed).expect("deleted");
    }
}
