//! When an append is acknowledged, and what a failure does.

use std::{cell::Cell, rc::Rc, time::Duration};

use super::*;
use crate::{
    error::{Error, Kind},
    io::{Disk, fake::FaultPoint},
    limits::FLUSH_RATE_WINDOW_NS,
    types::ProducerId,
};

#[test]
fn an_append_is_acknowledged_by_the_flush_and_not_before() {
    let world = World::fresh();
    let (log, _) = world.open(&Settings::default());
    let told = Rc::new(Cell::new(Offset(0)));
    let target = told.clone();
    log.set_on_advance(Box::new(move |marks| target.set(marks.ack_end())));
    world.send(&log, &[b"one"], &BatchOptions::default()).expect("taken");
    assert_eq!((end(&log), log.marks().ack_end()), (Offset(1), Offset(0)));
    while log.marks().ack_end() == Offset(0) {
        assert_eq!(world.volume.flushes(), 0, "no acknowledgement before the flush");
        assert!(world.sim.run(1), "work goes on");
    }
    assert_eq!((world.volume.flushes(), told.get()), (1, Offset(1)));
}

#[test]
fn a_relaxed_log_acknowledges_what_the_device_has() {
    let world = World::fresh();
    let (log, _) = world.open(&Settings { flush_messages: 3, ..Settings::default() });
    for _ in 0..2 {
        world.append(&log, &[b"x"]);
    }
    assert_eq!((log.marks().durable_end(), world.volume.flushes()), (Offset(0), 0));
    world.append(&log, &[b"x"]);
    assert_eq!(log.marks().durable_end(), Offset(3), "flush.messages is reached");
    let settings = Settings { flush_messages: 100, flush_ms: 50, ..Settings::default() };
    log.set_settings(settings).expect("good settings");
    world.append(&log, &[b"x"]);
    assert_eq!(log.marks().durable_end(), Offset(3));
    world.sim.advance(std::time::Duration::from_millis(60));
    assert_eq!(log.marks().durable_end(), Offset(4), "flush.ms has passed");
}

/// The write completed while `flush.messages` was 1, so only its flush would acknowledge it; the
/// topic was relaxed before that flush ended, and the producer waited for ever.
#[test]
fn a_flush_acknowledges_though_the_topic_was_relaxed_meanwhile() {
    let world = World::fresh();
    let (log, _) = world.open(&Settings::default());
    world.append(&log, &[b"prepares the space"]);
    world.send(&log, &[b"strict"], &BatchOptions::default()).expect("taken");
    while log.shared.state.borrow().written_end < Offset(2) {
        assert!(world.sim.run(1), "work goes on");
    }
    assert_eq!(log.marks().ack_end(), Offset(1), "the flush is not done");
    let relaxed = Settings { flush_messages: 100, ..Settings::default() };
    log.set_settings(relaxed).expect("good settings");
    world.sim.settle();
    assert_eq!(log.marks().ack_end(), Offset(2));
}

#[test]
fn one_flush_covers_many_logs() {
    let world = World::fresh();
    let logs: Vec<_> = (0..20)
        .map(|n| {
            let dir = PathBuf::from(format!("/data/topic-{n}"));
            let (log, _) = world.open_at(&dir, &Settings::default());
            world.append(&log, &[b"prepares the space"]);
            log
        })
        .collect();
    let before = world.volume.flushes();
    for _ in 0..10 {
        for log in &logs {
            world.send(log, &[b"value"], &BatchOptions::default()).expect("taken");
        }
    }
    // The disk rests between flushes of so much.
    world.sim.advance(Duration::from_secs(1));
    let flushes = world.volume.flushes() - before;
    assert!(logs.iter().all(|log| log.marks().ack_end() == Offset(11)));
    assert!(flushes < 40, "{flushes} flushes for 200 appends to 20 logs");
}

#[test]
fn a_failed_write_ends_its_log_only() {
    let world = World::fresh();
    let (log, _) = world.open(&Settings::default());
    let (other, _) = world.open_at(Path::new("/data/topic-1"), &Settings::default());
    world.append(&log, &[b"kept"]);
    world.append(&other, &[b"kept"]);
    world.sim.disk().fail(FaultPoint::Write, 0, libc::EIO);
    world.send(&log, &[b"lost"], &BatchOptions::default()).expect("taken");
    world.sim.settle();
    assert_eq!(log.failure().map(|error| error.kind()), Some(Kind::Fatal));
    assert_eq!(log.marks().ack_end(), Offset(1));
    let refused = world.send(&log, &[b"no"], &BatchOptions::default());
    assert!(matches!(refused, Err(AppendError::Failed(_))));
    assert!(!world.read_all(&log).is_empty(), "reads go on");
    world.append(&other, &[b"goes on"]);
}

#[test]
fn a_failed_flush_ends_the_disk_in_all_shards_and_is_never_repeated() {
    let world = World::fresh();
    if world.sim.disk().flush_scope() != crate::io::FlushScope::Disk {
        panic!("the seed gives a disk-wide flush");
    }
    let health = world.volume.health().clone();
    let elsewhere = Volume::new(world.sim.env(), world.sim.disk(), health, 1 << 20);
    let (log, _) = world.open(&Settings::default());
    let opening = Log::open(
        world.sim.env(),
        elsewhere,
        world.pool.clone(),
        PathBuf::from("/data/topic-1"),
        Settings::default(),
    );
    let (other, _) = world.sim.block_on(opening).expect("opened");
    world.append(&log, &[b"kept"]);
    world.append(&other, &[b"kept"]);
    world.sim.disk().fail(FaultPoint::Flush, 0, libc::EIO);
    world.send(&log, &[b"lost"], &BatchOptions::default()).expect("taken");
    world.sim.settle();
    assert_eq!(log.marks().ack_end(), Offset(1));
    for log in [&log, &other] {
        let refused = world.send(log, &[b"no"], &BatchOptions::default());
        assert!(matches!(refused, Err(AppendError::Failed(_))));
        assert!(!world.read_all(log).is_empty(), "reads go on");
    }
    world.sim.settle();
}

/// Want of room or descriptors where space is prepared or a segment made or sealed, at any point.
#[test]
fn a_log_short_of_room_or_descriptors_says_so_and_goes_on_when_there_is_some() {
    let faults = [FaultPoint::Zeros, FaultPoint::Other];
    let cases = faults.iter().flat_map(|point| (0..40).map(move |after| (*point, after)));
    // The flush of a directory counts among the others, and its failure is final.
    let is_flush =
        |error: &Error, errno| errno == libc::ENOSPC && error.to_string().contains("flush");
    let (mut refused, mut cases_left) = (0, 0);
    for (point, after) in cases {
        for errno in [libc::ENOSPC, libc::EMFILE] {
            let world = World::fresh();
            let (log, _) = world.open(&small_segments());
            world.append(&log, &[b"first"]);
            world.sim.disk().fail(point, after, errno);
            for _ in 0..20 {
                match world.send(&log, &[&[1; 200]], &BatchOptions::default()) {
                    Ok(_) => {}
                    Err(AppendError::Failed(error)) if error.kind() == Kind::Full => refused += 1,
                    Err(AppendError::Failed(error)) if is_flush(&error, errno) => {}
                    Err(error) => panic!("{point:?} {after}: {error:?}"),
                }
                world.sim.run(40);
            }
            world.sim.advance(Duration::from_secs(10));
            if let Some(error) = log.failure() {
                assert!(is_flush(&error, errno), "{point:?} {after}: {error}");
                continue;
            }
            cases_left += 1;
            world.append(&log, &[b"goes on"]);
            let bytes = world.read_all(&log);
            let acknowledged = log.marks().ack_end();
            drop(log);
            let world = world.power_cut();
            let (log, report) = world.open(&small_segments());
            assert_eq!((end(&log), report.damage), (acknowledged, vec![]), "{point:?} {after}");
            assert!(world.read_all(&log) == bytes, "{point:?} {after}");
        }
    }
    assert!(refused > 0 && cases_left > 100, "{refused} refused, {cases_left} healed");
}

/// What waits for room at a stop was acknowledged to nobody, so the stop waits for none.
#[test]
fn a_stop_does_not_wait_for_room() {
    let world = World::fresh();
    let (log, _) = world.open(&Settings::default());
    world.sim.disk().fail(FaultPoint::Zeros, 1, libc::ENOSPC);
    world.send(&log, &[b"lost"], &BatchOptions::default()).expect("taken");
    world.sim.settle();
    assert_eq!(log.failure().map(|error| error.kind()), Some(Kind::Full));
    let closed = world.sim.block_on(async move { log.close().await });
    assert_eq!(closed.expect_err("not clean").kind(), Kind::Full);
}

/// A direct write fills its last block: small records look like forty times their bytes, and the
/// disk rested for them.
#[test]
fn what_fills_a_block_is_no_reason_to_rest() {
    for (record_bytes, rests) in [(40, false), (8_000, true)] {
        let world = World::fresh();
        let (log, _) = world.open(&Settings::default());
        world.append(&log, &[b"prepares the space"]);
        for _ in 0..150 {
            world.send(&log, &[&vec![1; record_bytes]], &BatchOptions::default()).expect("taken");
            world.sim.settle();
        }
        let now_ns = world.sim.env().monotonic_ns() + FLUSH_RATE_WINDOW_NS;
        assert_eq!(world.volume.gate().rest(1, now_ns).is_some(), rests, "{record_bytes} bytes");
    }
}

#[test]
fn repeated_batches_are_known_after_a_power_cut_and_a_gap_is_refused() {
    let mut world = World::fresh();
    let (mut log, _) = world.open(&small_segments());
    let options = |base_sequence| BatchOptions {
        producer_id: ProducerId(7),
        producer_epoch: 0,
        base_sequence,
        ..BatchOptions::default()
    };
    for sequence in 0..30 {
        world.send(&log, &[&[1; 100]], &options(sequence)).expect("taken");
        world.sim.settle();
    }
    for _ in 0..2 {
        for sequence in 25..30 {
            let again = world.send(&log, &[&[1; 100]], &options(sequence)).expect("known");
            assert!(again.duplicate);
            assert_eq!(again.base_offset, Offset(i64::from(sequence)));
        }
        let old = world.send(&log, &[&[1; 100]], &options(24));
        assert!(matches!(old, Err(AppendError::OutOfOrderSequence { expected: 30 })));
        let gap = world.send(&log, &[&[1; 100]], &options(31));
        assert!(matches!(gap, Err(AppendError::OutOfOrderSequence { expected: 30 })));
        world = world.power_cut();
        log = world.open(&small_segments()).0;
        assert_eq!(end(&log), Offset(30));
    }
    let newer = BatchOptions { producer_epoch: 1, ..options(0) };
    world.send(&log, &[b"x"], &newer).expect("a new epoch starts at 0");
    let older = world.send(&log, &[b"x"], &options(30));
    assert!(matches!(older, Err(AppendError::InvalidProducerEpoch { current: 1 })));
}
