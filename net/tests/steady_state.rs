//! What a request costs a running broker in steady state: few allocations and none per record, one
//! copy of the payload on produce and none on fetch, on one shard and over a hop.
//!
//! Requests come one at a time, the dearest way: nothing is shared between two of them, neither a
//! flush nor a wake-up.

#[path = "steady_state/counters.rs"]
mod counters;
#[path = "wire/counting.rs"]
mod counting;
#[path = "steady_state/frames.rs"]
mod frames;
#[path = "steady_state/limits.rs"]
mod limits;
#[path = "steady_state/rig.rs"]
mod rig;
#[path = "socket/socket.rs"]
mod socket;

use std::{
    hint::black_box,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

use counters::Taken;
use limits::{Limits, allocations_per_record, check};
use millrace_engine::io::buf::Slice;
use rig::{Connection, LAYOUTS, Layout, Rig};

/// Requests before anything is counted: by then the tail's memory has gone round.
const WARM_UP: u64 = 1_200;

const REQUESTS: u64 = 2_000;

/// The join of its answers, the task that writes and the task that flushes: 3, and 4 more to sync
/// files at once where the disk's flush does not cover all of them. The rest is for what many
/// requests share.
const PRODUCE: Limits = Limits { allocations: 8, heap_bytes: 4 << 10, header_bytes: 128 };

/// The handler's future, the watch and the join: 3.
const FETCH: Limits = Limits { allocations: 4, heap_bytes: 4 << 10, header_bytes: 256 };

/// A produce, and a fetch that waits for it and so reads twice: 7, or 11.
const PRODUCE_AND_FETCH: Limits =
    Limits { allocations: 12, heap_bytes: 8 << 10, header_bytes: 512 };

/// A fetch of 1 MiB from disk: 3 as any, and three chains of more pieces than lie in place.
const COLD_FETCH: Limits = Limits { allocations: 10, heap_bytes: 16 << 10, header_bytes: 256 };

/// What counts as none: the shard's other work comes to a few allocations in a thousand requests.
const NO_ALLOCATION: f64 = 0.005;

/// Bytes that a cold fetch asks for.
const COLD_FETCH_BYTES: i32 = 1 << 20;

/// The counters belong to all tests: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Per shard the payload bytes to be copied of each request: all by the owner, none by another.
fn copied_by_owner(layout: Layout, payload_bytes: usize) -> Vec<u64> {
    let of = |shard| if shard == layout.owner { payload_bytes as u64 } else { 0 };
    (0..layout.shards).map(of).collect()
}

fn report(what: &str, layout: Layout, taken: &[Taken], requests: u64) {
    for (shard, taken) in taken.iter().enumerate() {
        let each = |total: u64| total as f64 / requests as f64;
        println!(
            "{what}, {layout:?}, shard {shard}: {:.2} allocations, {:.0} heap bytes, {:.1} copied",
            each(taken.allocations),
            each(taken.heap_bytes),
            each(taken.copied_bytes),
        );
    }
}

/// Produces one batch after the other; returns the offset behind the last.
fn produce(connection: &Connection, frame: &[u8], records: i64, count: u64) -> i64 {
    let next = |_, _| frames::produced(&connection.call(frame)) + records;
    (0..count).fold(0, next)
}

#[test]
fn a_produce_costs_few_allocations_and_one_copy() {
    let _alone = alone();
    for layout in LAYOUTS {
        let dir = tempfile::tempdir().expect("a directory");
        let rig = Rig::start(dir.path(), layout.shards);
        let partition = rig.partition_of(layout.owner);
        let connection = rig.connect(0);
        let totals = [16, 160].map(|records| {
            let batch = frames::batch(records);
            let frame = frames::produce(partition, &batch);
            produce(&connection, &frame, 0, WARM_UP);
            let taken = rig.measure(|| {
                produce(&connection, &frame, 0, REQUESTS);
            });
            report(&format!("produce of {records} records"), layout, &taken, REQUESTS);
            check(&taken, REQUESTS, &copied_by_owner(layout, batch.len()), &PRODUCE)
                .expect("within the limits");
            (records as u64, taken.into_iter().sum())
        });
        let per_record = allocations_per_record(totals[0], totals[1], REQUESTS);
        assert!(per_record < NO_ALLOCATION, "{per_record} allocations per record");
        rig.stop();
    }
}

/// Fetches at the tail: the first half of each round waits for the produce that is its other half.
#[test]
fn a_waiting_fetch_costs_few_allocations_and_no_copy() {
    let _alone = alone();
    for layout in LAYOUTS {
        let dir = tempfile::tempdir().expect("a directory");
        let rig = Rig::start(dir.path(), layout.shards);
        let partition = rig.partition_of(layout.owner);
        let (producer, consumer) = (rig.connect(0), rig.connect(0));
        let totals = [16, 160].map(|records: u64| {
            let batch = frames::batch(usize::try_from(records).expect("few"));
            let frame = frames::produce(partition, &batch);
            let each = i64::try_from(records).expect("few");
            let mut offset = produce(&producer, &frame, each, WARM_UP);
            let taken = rig.measure(|| {
                for _ in 0..REQUESTS {
                    consumer.send(&frames::fetch(partition, offset, COLD_FETCH_BYTES));
                    frames::produced(&producer.call(&frame));
                    let fetched = frames::fetched(&consumer.receive(), offset);
                    assert_eq!(fetched.bytes, batch.len(), "the batch just produced");
                    offset = fetched.next_offset;
                }
            });
            report(&format!("waiting fetch of {records} records"), layout, &taken, REQUESTS);
            check(&taken, REQUESTS, &copied_by_owner(layout, batch.len()), &PRODUCE_AND_FETCH)
                .expect("within the limits");
            (records, taken.into_iter().sum())
        });
        let per_record = allocations_per_record(totals[0], totals[1], REQUESTS);
        assert!(per_record < NO_ALLOCATION, "{per_record} allocations per record");
        rig.stop();
    }
}

#[test]
fn a_fetch_from_memory_costs_few_allocations_and_no_copy() {
    let _alone = alone();
    const IN_MEMORY: u64 = 200;
    for layout in LAYOUTS {
        let dir = tempfile::tempdir().expect("a directory");
        let rig = Rig::start(dir.path(), layout.shards);
        let partition = rig.partition_of(layout.owner);
        let connection = rig.connect(0);
        let batch = frames::batch(16);
        let end = produce(&connection, &frames::produce(partition, &batch), 16, IN_MEMORY);
        let one = i32::try_from(batch.len()).expect("small");
        let mut offset = end - 16 * i64::try_from(IN_MEMORY).expect("small");
        let taken = rig.measure(|| {
            for _ in 0..IN_MEMORY {
                let answer = connection.call(&frames::fetch(partition, offset, one));
                let fetched = frames::fetched(&answer, offset);
                assert_eq!(fetched.bytes, batch.len(), "one batch");
                offset = fetched.next_offset;
            }
        });
        report("fetch from memory", layout, &taken, IN_MEMORY);
        check(&taken, IN_MEMORY, &copied_by_owner(layout, 0), &FETCH).expect("within the limits");
        rig.stop();
    }
}

/// Writes `batches` batches of 16 records from offset 0 and ends that broker, so that all is cold.
fn write_and_stop(dir: &Path, layout: Layout, batches: u64) -> i32 {
    let rig = Rig::start(dir, layout.shards);
    let partition = rig.partition_of(layout.owner);
    produce(&rig.connect(0), &frames::produce(partition, &frames::batch(16)), 16, batches);
    rig.stop();
    partition
}

#[test]
fn a_cold_fetch_copies_nothing() {
    let _alone = alone();
    // Enough that a new peak of what is read ahead, taken from the heap once and kept in the pool
    // from then on, does not count as a cost of each request.
    const ROUNDS: u64 = 20;
    for layout in LAYOUTS {
        let dir = tempfile::tempdir().expect("a directory");
        let partition = write_and_stop(dir.path(), layout, 640);
        let rig = Rig::start(dir.path(), layout.shards);
        let connection = rig.connect(0);
        let read_all = || {
            let (mut offset, mut bytes, mut answers) = (0, 0, 0);
            while bytes < 640 * frames::batch(16).len() {
                let frame = frames::fetch(partition, offset, COLD_FETCH_BYTES);
                let fetched = frames::fetched(&connection.call(&frame), offset);
                assert!(fetched.next_offset > offset, "all is there");
                (offset, bytes) = (fetched.next_offset, bytes + fetched.bytes);
                answers += 1;
            }
            answers
        };
        let answers = read_all() * ROUNDS;
        let taken = rig.measure(|| {
            for _ in 0..ROUNDS {
                read_all();
            }
        });
        report("cold fetch of 1 MiB", layout, &taken, answers);
        check(&taken, answers, &copied_by_owner(layout, 0), &COLD_FETCH)
            .expect("within the limits");
        rig.stop();
    }
}

/// A frame that stalls half-way is moved out of the shared receive buffers: a second copy and
/// memory of its own, and both are seen.
#[test]
fn a_second_copy_is_seen() {
    let _alone = alone();
    let layout = LAYOUTS[0];
    let dir = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(dir.path(), layout.shards);
    let connection = rig.connect(0);
    let batch = frames::batch(16);
    let frame = frames::produce(rig.partition_of(0), &batch);
    let (front, back) = frame.split_at(frame.len() / 2);
    let taken = rig.measure(|| {
        connection.send(front);
        thread::sleep(millrace_net::limits::STALL_SETTLE * 4);
        connection.send(back);
        frames::produced(&connection.receive());
    });
    let payload = copied_by_owner(layout, batch.len());
    let generous = Limits { allocations: 1000, heap_bytes: 1 << 20, header_bytes: 1 << 10 };
    let refused = check(&taken, 1, &payload, &generous).expect_err("copied more than once");
    assert!(refused.contains("copied"), "{refused}");
    let twice = Limits { header_bytes: 1 << 20, ..generous };
    check(&taken, 1, &payload, &twice).expect("and no more than that");
    assert!(taken[0].heap_bytes >= front.len() as u64, "it took memory: {taken:?}");
    rig.stop();
}

/// What `work` takes on a thread that is named like a shard that no broker has.
fn on_a_shard(work: fn()) -> Taken {
    const SHARD: usize = counters::SHARDS_COUNTED - 1;
    let run = move || {
        // The first allocation finds out who the thread is and brings the copied bytes over.
        drop(black_box(Box::new(0)));
        let before = counters::taken(SHARD);
        work();
        drop(black_box(Box::new(0)));
        counters::taken(SHARD) - before
    };
    let thread = thread::Builder::new().name(format!("shard-{SHARD}")).spawn(run);
    thread.expect("starts").join().expect("no panic")
}

#[test]
fn the_counters_see_planted_work() {
    let _alone = alone();
    counters::start();
    let nothing = on_a_shard(|| ());
    assert_eq!(nothing, Taken { allocations: 1, heap_bytes: 4, copied_bytes: 0 });
    let vector = on_a_shard(|| drop(black_box(Vec::<u8>::with_capacity(1000))));
    assert_eq!(vector, Taken { allocations: 2, heap_bytes: 1004, copied_bytes: 0 });
    let copy = on_a_shard(|| drop(black_box(Slice::copy_of(&[1; 5000]))));
    assert_eq!(copy.copied_bytes, 5000);
    let before = counters::taken(counters::SHARDS_COUNTED - 1);
    drop(black_box(Slice::copy_of(&[1; 5000])));
    assert_eq!(counters::taken(counters::SHARDS_COUNTED - 1), before, "not a shard's thread");
}

#[test]
fn each_limit_can_be_exceeded() {
    let fine = Taken { allocations: 50, heap_bytes: 1000, copied_bytes: 10_000 };
    let limits = Limits { allocations: 5, heap_bytes: 100, header_bytes: 10 };
    let check_one = |taken: Taken| check(&[taken], 10, &[1000], &limits);
    check_one(fine).expect("all within");
    for worse in [
        Taken { allocations: 51, ..fine },
        Taken { heap_bytes: 1001, ..fine },
        Taken { copied_bytes: 10_101, ..fine },
        Taken { copied_bytes: 9_999, ..fine },
    ] {
        check_one(worse).expect_err("beyond a limit");
    }
    let more = Taken { allocations: fine.allocations + 144 * 10, ..fine };
    let per_record = allocations_per_record((16, fine), (160, more), 10);
    assert!((per_record - 1.0).abs() < 1e-9, "one for each record: {per_record}");
    assert!(per_record > NO_ALLOCATION);
}
