//! A topic is deleted while another client makes one of the same name: what the new one
//! acknowledged stays, whichever shards own the two.
//!
//! A shard that was behind renamed the old partition's directory away by its name, when another had
//! put the new one in its place: acknowledged records went with it.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use millrace_tests::{
    broker::{Broker, Options},
    wire::Connection,
};

const PARTITIONS: i32 = 4;
const ROUNDS: usize = 40;
const PATIENCE: Duration = Duration::from_secs(10);

fn is_unknown_or_moving(error: &std::io::Error) -> bool {
    ["error 3", "error 6", "error 36"].iter().any(|known| error.to_string().ends_with(known))
}

/// Makes the topic as soon as its name is free and appends a record to each partition.
fn take_over(link: &mut Connection, topic: &str, old_ends: i64) {
    for partition in 0..PARTITIONS {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "{topic}-{partition} is not served");
            link.create_topic(topic, PARTITIONS).expect("made, or there already");
            match link.produce(topic, partition, b"new") {
                // The old topic still: its records go with it.
                Ok(offset) if offset >= old_ends => {}
                Ok(_) => break,
                Err(error) => assert!(is_unknown_or_moving(&error), "{error}"),
            }
        }
    }
}

/// Directories that were set aside, or renamed for deletion and not removed yet.
fn left_behind(broker: &Broker) -> Vec<String> {
    let names = fs::read_dir(broker.data_dir()).expect("a data directory");
    let names = names.map(|entry| entry.expect("an entry").file_name().into_string());
    let stray = |name: &String| name.ends_with("-stray") || name.ends_with("-delete");
    names.flatten().filter(stray).collect()
}

#[test]
fn a_name_used_again_keeps_the_new_topics_records() {
    let mut broker = Broker::start(Options::default().with_shards(2));
    let mut deleting = Connection::open(broker.address()).expect("it answers");
    let mut making = Connection::open(broker.address()).expect("it answers");
    let topics: Vec<_> = (0..ROUNDS).map(|round| format!("orders{round}")).collect();
    for topic in &topics {
        deleting.create_topic(topic, PARTITIONS).expect("made");
        for partition in 0..PARTITIONS {
            for _ in 0..3 {
                deleting.produce(topic, partition, b"old").expect("acknowledged");
            }
        }
        thread::scope(|scope| {
            scope.spawn(|| take_over(&mut making, topic, 3));
            deleting.delete_topic(topic).expect("deleted");
        });
    }
    broker.kill();
    broker.restart();
    let mut link = Connection::open(broker.address()).expect("it answers");
    for topic in &topics {
        for partition in 0..PARTITIONS {
            let end = link.end_offset(topic, partition).expect("the topic is there");
            assert!(end >= 1, "{topic}-{partition} lost what it acknowledged");
        }
    }
    // What was renamed for deletion goes in the background, over the restart too.
    let begun = Instant::now();
    while !left_behind(&broker).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "left behind: {:?}", left_behind(&broker));
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_deletion_that_a_kill_cut_short_is_finished_at_the_next_start() {
    let mut broker = Broker::start(Options::default());
    let left = broker.data_dir().join("orders-0.0123456789abcdef-delete");
    let other = broker.data_dir().join("notes-delete");
    broker.kill();
    for dir in [&left, &other] {
        fs::create_dir(dir).expect("made");
        fs::write(dir.join("00000000000000000000.log"), b"old").expect("written");
    }
    broker.restart();
    let begun = Instant::now();
    while left.exists() {
        assert!(begun.elapsed() < PATIENCE, "it stays");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(other.exists(), "only what we renamed is ours to remove");
}
