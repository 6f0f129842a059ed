//! A batch whose records must be looked at, and which takes long, holds up its own connection only:
//! its shard goes on serving others, keeps the connection's order, and stops when told to.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use millrace_engine::batch::{BatchBuilder, BatchOptions, Codec, NewRecord};
use millrace_tests::{
    broker::{Broker, Options},
    kernel::Signal,
    wire::{self, ApiKey, Connection, Reader},
};

/// A bound on timestamps, which makes the broker look at records; none of ours breaks it.
const LOOK_AT_RECORDS: (&str, &str) = ("message.timestamp.before.max.ms", "9000000000000000000");

/// Records of one large batch: decompressed close to the most that a batch may be.
const RECORDS: i64 = 4_000_000;

const LARGE_BATCHES: usize = 8;

/// Kafka's codes.
const CORRUPT_MESSAGE: i16 = 2;
const INVALID_TIMESTAMP: i16 = 32;

/// Requests of others per large one that must find their way meanwhile. On the shard's core it was
/// one at best: one between two large batches.
const SMALL_PER_LARGE: usize = 5;

fn large_batch(codec: Codec) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for _ in 0..RECORDS {
        let record = NewRecord { timestamp_ms: 1, value: Some(b"value"), ..NewRecord::default() };
        builder.push(&record).expect("fits");
    }
    let mut batch = Vec::new();
    builder.finish(&BatchOptions { codec, ..BatchOptions::default() }, &mut batch).expect("builds");
    batch
}

/// A broker of one shard with a topic that looks at records, and one beside it.
fn broker(settings: &[(&str, &str)]) -> Broker {
    let broker = Broker::start(Options::default().with_shards(1));
    let mut link = Connection::open(broker.address()).expect("it answers");
    let size = [("max.message.bytes", "104857600")];
    let settings: Vec<_> = settings.iter().chain(&size).copied().collect();
    link.create_topic_with("looked-at", 1, &settings).expect("made");
    link.create_topic("small", 1).expect("made");
    broker
}

/// Sends a batch without waiting for the answer.
fn send(link: &mut Connection, batch: &[u8]) {
    let body = wire::produce_body("looked-at", 0, batch);
    link.send(ApiKey::Produce, 7, &body).expect("the broker reads");
}

/// The error and the base offset of the next answer.
fn answer(link: &mut Connection) -> io::Result<(i16, i64)> {
    let (_, answer) = link.receive()?;
    let mut answer = Reader::new(&answer);
    let (_topics, _name) = (answer.i32()?, answer.string()?);
    let (_partitions, _index, error) = (answer.i32()?, answer.i32()?, answer.i16()?);
    Ok((error, answer.i64()?))
}

/// Produces to the other topic until told to stop, counting.
fn produce_meanwhile(broker: &Broker, stop: &AtomicBool, count: &AtomicUsize) {
    let mut link = Connection::open(broker.address()).expect("it answers");
    while !stop.load(Ordering::Relaxed) {
        link.produce("small", 0, b"value").expect("a small batch is served");
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn others_are_served_meanwhile(codec: Codec, settings: &[(&str, &str)]) {
    let broker = broker(settings);
    let batch = large_batch(codec);
    let mut link = Connection::open(broker.address()).expect("it answers");
    let (stop, count) = (AtomicBool::new(false), Arc::new(AtomicUsize::new(0)));
    std::thread::scope(|scope| {
        scope.spawn(|| produce_meanwhile(&broker, &stop, &count));
        for _ in 0..LARGE_BATCHES {
            send(&mut link, &batch);
            // Its place is behind the large one's, however long that takes.
            send(&mut link, &wire::one_record_batch(b"value"));
        }
        // All has been sent: what is counted from here on is served beside work on large batches.
        let before = count.load(Ordering::Relaxed);
        let mut expected = 0;
        for _ in 0..LARGE_BATCHES {
            for records in [RECORDS, 1] {
                let answer = answer(&mut link).expect("every batch is answered");
                assert_eq!(answer, (0, expected), "batches take their places as they were sent");
                expected += records;
            }
        }
        let meanwhile = count.load(Ordering::Relaxed) - before;
        stop.store(true, Ordering::Relaxed);
        println!("{meanwhile} small batches beside {LARGE_BATCHES} large ones of {codec:?}");
        assert!(meanwhile >= SMALL_PER_LARGE * LARGE_BATCHES, "only {meanwhile} meanwhile");
    });
}

#[test]
fn others_are_served_while_records_are_decompressed() {
    others_are_served_meanwhile(Codec::Zstd, &[LOOK_AT_RECORDS]);
    others_are_served_meanwhile(Codec::Gzip, &[LOOK_AT_RECORDS]);
}

#[test]
fn others_are_served_while_batches_are_compressed_anew() {
    others_are_served_meanwhile(Codec::Zstd, &[LOOK_AT_RECORDS, ("compression.type", "lz4")]);
}

#[test]
fn a_refused_batch_is_answered_whatever_its_size() {
    let broker = broker(&[("message.timestamp.before.max.ms", "1000")]);
    let mut link = Connection::open(broker.address()).expect("it answers");
    let mut corrupt = wire::one_record_batch(b"value");
    corrupt[40] ^= 1;
    for (batch, error) in [
        (large_batch(Codec::Zstd), INVALID_TIMESTAMP),
        (wire::one_record_batch(b"value"), INVALID_TIMESTAMP),
        (corrupt, CORRUPT_MESSAGE),
    ] {
        send(&mut link, &batch);
        assert_eq!(answer(&mut link).expect("it is answered"), (error, -1));
    }
}

#[test]
fn a_stop_does_not_wait_for_every_large_batch() {
    let mut broker = broker(&[LOOK_AT_RECORDS]);
    let batch = large_batch(Codec::Gzip);
    let mut links: Vec<_> = (0..LARGE_BATCHES)
        .map(|_| Connection::open(broker.address()).expect("it answers"))
        .collect();
    links.iter_mut().for_each(|link| (0..LARGE_BATCHES).for_each(|_| send(link, &batch)));
    let (status, _) = broker.stop(Signal::Terminate);
    assert!(status.success(), "{status}: {}", broker.log());
    assert!(!broker.log().contains("panicked"), "{}", broker.log());
    broker.restart();
    let mut link = Connection::open(broker.address()).expect("it answers");
    let end = link.end_offset("looked-at", 0).expect("the partition is there");
    assert_eq!(end % RECORDS, 0, "a batch is there whole or not at all");
}
