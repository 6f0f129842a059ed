//! Look-ups by timestamp: what a shard's core leaves to other threads, and what memory, retention
//! or a deletion come in the way of.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
};

use super::*;
use crate::{
    batch::{Codec, TimestampedOffset},
    error::{Kind, Result},
    io::buf::TailBuf,
    limits::QUICK_RECORDS_BYTES,
};

const VALUE_BYTES: usize = 20_000;
const BATCHES: i64 = 30;

fn settings() -> Settings {
    Settings { segment_bytes: 100_000, index_interval_bytes: 100, ..Settings::default() }
}

/// A world whose disk reads into the shard's buffers, with a log of several segments whose records
/// lie on disk alone, two and two a second apart.
fn on_disk() -> (World, Log<FakeEnv>) {
    let world = World::fresh();
    world.sim.disk().read_into(&world.pool);
    let (log, _) = world.open(&settings());
    for n in 0..BATCHES {
        let (header, bytes) =
            batch(&[&[1; VALUE_BYTES], b"two"], n * 1_000, &BatchOptions::default());
        let payload = Slice::copy_of(&bytes[HEADER_BYTES..]).into();
        log.append_parts(&header, &payload, LeaderEpoch(0), 0).expect("taken");
        world.sim.settle();
    }
    world.sim.advance(std::time::Duration::from_secs(60));
    (world, log)
}

fn look_up(world: &World, log: &Log<FakeEnv>, ms: i64) -> Result<Option<TimestampedOffset>> {
    let (asked, up_to) = (log.clone(), end(log));
    world.sim.block_on(async move { asked.offset_for_timestamp(ms, up_to).await })
}

fn newest(world: &World, log: &Log<FakeEnv>) -> Result<Option<TimestampedOffset>> {
    let asked = log.clone();
    world.sim.block_on(async move { asked.max_timestamp_offset().await })
}

fn offset(found: Result<Option<TimestampedOffset>>) -> Option<Offset> {
    found.expect("answered").map(|found| found.offset)
}

/// All that the shard's buffers still give.
fn take_all(world: &World) -> Vec<TailBuf> {
    std::iter::from_fn(|| world.pool.take(4_096)).collect()
}

/// The answer was "no such record".
#[test]
fn without_memory_the_answer_is_to_ask_again() {
    let (world, log) = on_disk();
    let held = take_all(&world);
    for ms in [0, 500, 7_000] {
        let refused = look_up(&world, &log, ms).expect_err("nothing could be read");
        assert_eq!(refused.kind(), Kind::Retry, "{refused}");
    }
    assert_eq!(newest(&world, &log).expect_err("nor there").kind(), Kind::Retry);
    drop(held);
    for (ms, found) in [(0, 0), (500, 2), (7_000, 14)] {
        assert_eq!(offset(look_up(&world, &log, ms)), Some(Offset(found)), "at {ms}");
    }
    assert_eq!(offset(newest(&world, &log)), Some(Offset(2 * (BATCHES - 1))));
}

#[test]
fn without_memory_to_rebuild_an_index_too() {
    let (world, log) = on_disk();
    world.close(&log);
    drop(log);
    let world = world.power_cut();
    world.sim.disk().read_into(&world.pool);
    for name in world.sim.disk().names(dir()).iter().filter(|name| name.ends_with("index")) {
        world.sim.disk().edit(&file(name), |bytes| bytes.push(1));
    }
    let (log, _) = world.open(&settings());
    let held = take_all(&world);
    let refused = look_up(&world, &log, 500).expect_err("nothing could be read");
    assert_eq!(refused.kind(), Kind::Retry, "{refused}");
    assert!(log.failure().is_none(), "no fault of the disk");
    drop(held);
    assert_eq!(offset(look_up(&world, &log, 500)), Some(Offset(2)));
}

/// It went round for ever, and the whole shard stood still.
#[test]
fn in_a_deleted_log_the_answer_is_its_failure() {
    let (world, log) = on_disk();
    let deleting = log.clone();
    world.sim.block_on(async move { deleting.delete().await }).expect("deleted");
    for ms in [0, 7_000] {
        let refused = look_up(&world, &log, ms).expect_err("it is gone");
        assert_eq!(refused.kind(), Kind::NotOwner, "{refused}");
    }
}

#[test]
fn a_batch_that_is_not_whole_before_the_end_asked_for_does_not_count() {
    let (world, log) = on_disk();
    for (up_to, found) in [(11, None), (12, Some(Offset(10)))] {
        let asked = log.clone();
        let answer = async move { asked.offset_for_timestamp(5_000, Offset(up_to)).await };
        assert_eq!(offset(world.sim.block_on(answer)), found, "up to {up_to}");
    }
}

/// A look at records that come to more than the bound once held a core for up to 64 MiB of
/// decompression. On the simulated disk such work is put off once, which shows at the first poll.
#[test]
fn records_over_the_bound_are_looked_at_elsewhere() {
    let small = vec![7; 1_000];
    let large = vec![7; QUICK_RECORDS_BYTES];
    for codec in Codec::ALL {
        for (value, long) in [(&small, false), (&large, true)] {
            let world = World::fresh();
            let (log, _) = world.open(&Settings::default());
            let options = BatchOptions { codec, ..BatchOptions::default() };
            let sent = world.send(&log, &[value], &options).expect("taken");
            world.sim.settle();
            let now_ms = world.sim.env().wall_ms();
            let asked = async {
                let by_time = log.offset_for_timestamp(now_ms - 1, end(&log)).await;
                let newest = log.max_timestamp_offset().await;
                (by_time.expect("readable"), newest.expect("readable"))
            };
            let mut asked = pin!(asked);
            let first = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(first.is_pending(), long, "{codec:?}");
            let (log, up_to) = (log.clone(), end(&log));
            let (by_time, newest) = world.sim.block_on(async move {
                let by_time = log.offset_for_timestamp(now_ms - 1, up_to).await;
                (by_time.expect("readable"), log.max_timestamp_offset().await.expect("readable"))
            });
            assert_eq!(by_time.map(|hit| hit.offset), Some(sent.base_offset), "{codec:?}");
            assert_eq!(newest, by_time, "{codec:?}");
        }
    }
}
