//! Readers from disk in order: what they wait for, what is held for them, and when it goes.

use std::time::Duration;

use super::*;
use crate::{
    io::fake::FaultPoint,
    limits::{READ_AHEAD_BUDGET_SHARE, READ_AHEAD_IDLE_MS, READ_CHUNK_BYTES},
};

const TAIL_BUDGET_BYTES: usize = 16 << 20;
const FETCH_BYTES: usize = 300_000;

/// A world with room to read ahead, whose disk reads into the shard's buffers.
fn roomy(pool_bytes: usize) -> World {
    let sim = Sim::new(SEED);
    let pool = Pool::new(pool_bytes);
    sim.disk().read_into(&pool);
    let volume = Volume::new(sim.env(), sim.disk(), DiskHealth::new(), TAIL_BUDGET_BYTES);
    World { sim, volume, pool }
}

/// A log of `batches` batches of some 20 KB that lies on disk alone.
fn on_disk(world: &World, batches: usize, settings: &Settings) -> Log<FakeEnv> {
    let (log, _) = world.open(settings);
    for n in 0..batches {
        world.append(&log, &[&vec![u8::try_from(n % 251).expect("small"); 20_000]]);
    }
    world.sim.advance(Duration::from_secs(60));
    log
}

/// One read from disk and the reads of the device that it waited for.
fn fetch(world: &World, log: &Log<FakeEnv>, from: Offset, max_bytes: usize) -> (Vec<u8>, u64) {
    let Read::Cold(cold) = log.read(from, max_bytes, end(log)) else {
        panic!("{from} lies on disk")
    };
    let before = world.sim.disk().reads();
    let reader = log.clone();
    let chain = world.sim.block_on(async move { reader.read_cold(cold).await }).expect("readable");
    // The simulation stops where the answer is there: nothing was read ahead meanwhile.
    (chain.to_vec(), world.sim.disk().reads() - before)
}

fn next_offset(bytes: &[u8]) -> Offset {
    let chain = Slice::copy_of(bytes).into();
    let (mut at, mut next) = (0, Offset(-1));
    while let Some(header) = Header::from_chain(&chain, at) {
        at += header.size_bytes();
        next = header.next_offset();
    }
    assert_eq!(at, bytes.len(), "whole batches");
    next
}

/// Reads all that lies on disk in order; what `between` does happens after each read. Returns the
/// bytes and the reads waited for.
fn in_order(world: &World, log: &Log<FakeEnv>, between: impl Fn()) -> (Vec<u8>, u64) {
    let (mut all, mut waited, mut from) = (Vec::new(), 0, log.marks().log_start());
    while matches!(log.read(from, FETCH_BYTES, end(log)), Read::Cold(_)) {
        let (bytes, reads) = fetch(world, log, from, FETCH_BYTES);
        from = next_offset(&bytes);
        all.extend(bytes);
        waited += reads;
        between();
    }
    (all, waited)
}

#[test]
fn a_reader_in_order_seldom_waits_for_the_disk() {
    let world = roomy(64 << 20);
    let log = on_disk(&world, 300, &Settings { segment_bytes: 2_000_000, ..Settings::default() });
    // With each stream dropped at once, every read is the first of its reader.
    let (bytes, alone) = in_order(&world, &log, || {
        world.volume.read_ahead().forget_before(&log.shared, Offset(i64::MAX));
        world.sim.settle();
    });
    let (same, ahead) = in_order(&world, &log, || world.sim.settle());
    assert_eq!(bytes, same);
    assert!(bytes.len() > 5_000_000, "{}", bytes.len());
    assert!(ahead * 2 < alone, "{ahead} of {alone}");
    // Also where the reader is back while a piece is being read.
    for steps in 0..20 {
        let (same, _) = in_order(&world, &log, || {
            world.sim.run(steps);
        });
        assert_eq!(bytes, same);
    }
}

#[test]
fn a_reader_that_jumps_reads_what_it_asks_for() {
    let world = roomy(64 << 20);
    let log = on_disk(&world, 300, &Settings::default());
    world.sim.settle();
    for step in 0..50 {
        let from = Offset(step * 89 % 280);
        let (bytes, waited) = fetch(&world, &log, from, FETCH_BYTES);
        assert!(next_offset(&bytes) > from);
        let before = world.sim.disk().reads();
        world.sim.settle();
        assert_eq!(world.sim.disk().reads(), before, "nothing is read for it");
        assert!(waited > 0, "and nothing was");
        assert_eq!(world.volume.read_ahead().held_bytes(), 0);
    }
}

#[test]
fn what_is_held_is_bounded_and_given_back() {
    let world = roomy(64 << 20);
    let log = on_disk(&world, 500, &Settings::default());
    let at_rest = world.pool.in_use_bytes();
    let held = || world.volume.read_ahead().held_bytes();
    let two_reads = |from| {
        let (first, _) = fetch(&world, &log, Offset(from), 1 << 20);
        let _second = fetch(&world, &log, next_offset(&first), 1 << 20);
        world.sim.settle();
    };
    let budget = TAIL_BUDGET_BYTES / READ_AHEAD_BUDGET_SHARE;
    (0..20).for_each(|n| two_reads(n * 10));
    assert!(held() > budget / 2 && held() <= budget, "{} of {budget}", held());
    assert!(world.pool.in_use_bytes() - at_rest <= held(), "and no more is taken");
    world.volume.evict(READ_CHUNK_BYTES);
    assert_eq!(world.pool.in_use_bytes(), at_rest, "all of it goes before a tail does");
    two_reads(300);
    assert!(held() > 0);
    world.sim.advance(Duration::from_millis(2 * READ_AHEAD_IDLE_MS));
    assert_eq!((held(), world.pool.in_use_bytes()), (0, at_rest), "a reader has gone");
}

#[test]
fn nothing_is_read_ahead_when_buffers_are_short() {
    let world = roomy(2 << 20);
    let log = on_disk(&world, 100, &Settings::default());
    let budget = world.pool.budget_bytes();
    let mut taken = Vec::new();
    while world.pool.in_use_bytes() < budget / 4 * 3 {
        taken.extend(world.pool.take(64 << 10));
    }
    let (_, waited) = in_order(&world, &log, || {
        world.sim.settle();
        assert_eq!(world.volume.read_ahead().held_bytes(), 0);
    });
    assert!(waited > 0);
    taken.clear();
    let (first, _) = fetch(&world, &log, Offset(0), FETCH_BYTES);
    fetch(&world, &log, next_offset(&first), FETCH_BYTES);
    world.sim.settle();
    assert!(world.volume.read_ahead().held_bytes() > 0);
    // An append takes what is held.
    while let Some(buffer) = world.pool.take(4 << 10) {
        taken.push(buffer);
    }
    world.send(&log, &[&[1; 30_000]], &BatchOptions::default()).expect("taken");
    assert_eq!(world.volume.read_ahead().held_bytes(), 0);
}

#[test]
fn deleted_records_are_not_served() {
    let world = roomy(64 << 20);
    let log = on_disk(&world, 300, &Settings { segment_bytes: 1_000_000, ..Settings::default() });
    let held = || world.volume.read_ahead().held_bytes();
    let (first, _) = fetch(&world, &log, Offset(0), FETCH_BYTES);
    let from = next_offset(&first);
    let (second, _) = fetch(&world, &log, from, FETCH_BYTES);
    world.sim.settle();
    let from = next_offset(&second);
    assert!(held() > 0);
    // The reader has its answer of `log.read` already.
    let Read::Cold(cold) = log.read(from, FETCH_BYTES, end(&log)) else { panic!("on disk") };
    let (deleting, now_ms) = (log.clone(), world.sim.env().wall_ms());
    world.sim.block_on(async move {
        deleting.delete_records(Offset(200)).await.expect("within the log");
        assert!(deleting.apply_retention(now_ms).await.expect("applied") > 0);
    });
    assert_eq!(held(), 0);
    let reader = log.clone();
    let answer = world.sim.block_on(async move { reader.read_cold(cold).await });
    assert!(answer.is_err(), "{:?}", answer.map(|chain| chain.len()));
    let (third, _) = fetch(&world, &log, Offset(200), FETCH_BYTES);
    fetch(&world, &log, next_offset(&third), FETCH_BYTES);
    world.sim.settle();
    assert!(held() > 0);
    world.sim.block_on(async move { log.delete().await }).expect("deleted");
    assert_eq!(held(), 0);
}

#[test]
fn a_failed_read_ahead_is_the_readers_to_meet() {
    let world = roomy(64 << 20);
    let log = on_disk(&world, 300, &Settings::default());
    let (first, _) = fetch(&world, &log, Offset(0), FETCH_BYTES);
    let (second, _) = fetch(&world, &log, next_offset(&first), FETCH_BYTES);
    world.sim.disk().fail(FaultPoint::Read, 0, libc::EIO);
    world.sim.settle();
    let from = next_offset(&second);
    let (third, waited) = fetch(&world, &log, from, FETCH_BYTES);
    assert!(waited > 0, "the reader asks the disk itself");
    assert!(next_offset(&third) > from);
    assert!(log.failure().is_none());
}

/// Five readers of long answers took all buffers: producers were told to come back, and nothing
/// could be received.
#[test]
fn long_reads_from_disk_leave_a_reserve_and_each_gets_a_batch() {
    const POOL_BYTES: usize = 8 << 20;
    const READERS: usize = 5;
    let world = roomy(POOL_BYTES);
    let log = on_disk(&world, 600, &Settings::default());
    let mut answers = Vec::new();
    for reader in 0..READERS {
        let Read::Cold(cold) = log.read(Offset(0), 50 << 20, end(&log)) else { panic!("on disk") };
        let log = log.clone();
        let answer = world.sim.block_on(async move { log.read_cold(cold).await });
        answers.push(answer.expect("readable"));
        assert!(!answers[reader].is_empty(), "reader {reader} moves on");
        // The first batch of each may come from beyond, in a buffer of its own.
        let most = POOL_BYTES / 4 * 3 + (reader + 1) * READ_CHUNK_BYTES;
        assert!(world.pool.in_use_bytes() <= most, "{} bytes", world.pool.in_use_bytes());
    }
    assert!(answers[0].len() > POOL_BYTES / 2, "what is free is used");
    world.append(&log, &[&[7; 20_000]]);
    answers.clear();
    let (bytes, _) = fetch(&world, &log, Offset(0), FETCH_BYTES);
    assert!(bytes.len() > FETCH_BYTES / 2, "there is room again");
}
