//! How the start of the log moves.

use std::time::Duration;

use super::*;
use crate::{
    error::Kind,
    io::{Spawn, fake::FaultPoint},
    log::{is_deleted_name, name_aside, remove_later},
};

fn filled(world: &World, settings: &Settings) -> Log<FakeEnv> {
    let (log, _) = world.open(settings);
    for n in 0..30_u8 {
        world.append(&log, &[&[n; 200]]);
        world.sim.advance(Duration::from_secs(1));
    }
    log
}

fn apply(world: &World, log: &Log<FakeEnv>) -> usize {
    let (log, now_ms) = (log.clone(), world.sim.env().wall_ms());
    world.sim.block_on(async move { log.apply_retention(now_ms).await }).expect("applied")
}

fn log_files(world: &World) -> usize {
    let names = world.sim.disk().names(dir());
    names.iter().filter(|name| name.ends_with(".log")).count()
}

#[test]
fn minus_one_keeps_everything() {
    let world = World::fresh();
    let settings = Settings { retention_ms: -1, retention_bytes: -1, ..small_segments() };
    let log = filled(&world, &settings);
    world.sim.advance(Duration::from_secs(1 << 30));
    assert_eq!(apply(&world, &log), 0);
    assert_eq!(log.marks().log_start(), Offset(0));
}

#[test]
fn old_segments_go_and_the_active_one_too_in_the_end() {
    let world = World::fresh();
    let log = filled(&world, &Settings { retention_ms: 15_000, ..small_segments() });
    let removed = apply(&world, &log);
    let start = log.marks().log_start();
    assert!(removed > 2 && start > Offset(10) && start < Offset(16), "{removed}, {start}");
    assert!(matches!(log.read(Offset(3), 100, end(&log)), Read::OutOfRange));
    world.sim.advance(Duration::from_secs(100));
    // The active segment is rolled first, sealed in the background, then removed.
    apply(&world, &log);
    world.sim.settle();
    apply(&world, &log);
    apply(&world, &log);
    assert_eq!(log.marks().log_start(), Offset(30));
    assert_eq!(log_files(&world), 0);
    world.sim.advance(Duration::from_secs(100));
    let left = world.sim.disk().names(dir());
    assert!(!left.iter().any(|name| name.ends_with(".deleted")), "{left:?}");
    drop(log);
    let world = world.power_cut();
    let (log, report) = world.open(&small_segments());
    assert!(report.damage.is_empty());
    let marks = log.marks();
    assert_eq!((marks.log_start(), marks.log_end()), (Offset(30), Offset(30)));
    assert_eq!(world.append(&log, &[b"goes on"]).base_offset, Offset(30));
}

#[test]
fn size_keeps_the_newest() {
    let world = World::fresh();
    let log = filled(&world, &Settings { retention_bytes: 3_000, ..small_segments() });
    assert!(apply(&world, &log) > 0);
    let bytes = log.bytes_between(log.marks().log_start(), end(&log));
    assert!((3_000..4_100).contains(&bytes), "{bytes}");
}

#[test]
fn deleted_records_do_not_come_back() {
    let world = World::fresh();
    let log = filled(&world, &small_segments());
    let delete = |to| {
        let log = log.clone();
        world.sim.block_on(async move { log.delete_records(Offset(to)).await })
    };
    assert_eq!(delete(13).expect("within the log"), Offset(13));
    assert_eq!(delete(5).expect("already deleted"), Offset(13));
    assert_eq!(delete(31).expect_err("beyond the high watermark").kind(), Kind::Invalid);
    assert!(matches!(log.read(Offset(12), 100, end(&log)), Read::OutOfRange));
    assert!(apply(&world, &log) > 1, "whole segments below the start go");
    drop(log);
    let world = world.power_cut();
    let (log, _) = world.open(&small_segments());
    assert_eq!(log.marks().log_start(), Offset(13));
}

#[test]
fn a_deleted_partition_leaves_nothing() {
    let world = World::fresh();
    let log = filled(&world, &small_segments());
    world.send(&log, &[b"in flight"], &BatchOptions::default()).expect("taken");
    let deleting = log.clone();
    world.sim.block_on(async move { deleting.delete().await }).expect("deleted");
    let renamed = world.sim.disk().names(Path::new("/data"));
    assert!(renamed.iter().all(|name| is_deleted_name(name)), "its name is free: {renamed:?}");
    world.sim.settle();
    assert_eq!(world.sim.disk().names(Path::new("/data")), Vec::<String>::new());
    let refused = world.send(&log, &[b"no"], &BatchOptions::default());
    assert!(matches!(refused, Err(AppendError::Failed(_))));
    drop(log);
    world.sim.settle();
    assert_eq!(world.pool.in_use_bytes(), 0, "its memory is back");
}

#[test]
fn a_deletion_waits_for_the_rename_only() {
    let world = World::fresh();
    let log = filled(&world, &small_segments());
    world.sim.block_on(async move { log.delete().await }).expect("deleted");
    let left = world.sim.disk().names(Path::new("/data"));
    assert_eq!(left.len(), 1, "its files go in the background: {left:?}");
    // A power cut in the midst of it leaves a directory that the next start removes.
    world.sim.run(10);
    let world = world.power_cut();
    for name in world.sim.disk().names(Path::new("/data")) {
        assert!(is_deleted_name(&name), "{name}");
        remove_later(&world.sim.env(), &world.sim.disk(), Path::new("/data").join(name));
    }
    world.sim.settle();
    assert_eq!(world.sim.disk().names(Path::new("/data")), Vec::<String>::new());
}

/// Retention of a log that was being deleted renamed and unlinked files by their paths, when the
/// next log of that name had made its own there.
#[test]
fn a_log_deleted_amid_its_retention_leaves_the_next_one_of_its_name_alone() {
    for seed in 0..300 {
        let world = World::new(Sim::new(seed));
        let delayed = Settings { file_delete_delay_ms: 1, ..small_segments() };
        let old = filled(&world, &Settings { retention_ms: 15_000, ..delayed });
        let (retaining, now_ms) = (old.clone(), world.sim.env().wall_ms());
        world.sim.env().spawn(async move {
            let _may_be_deleted = retaining.apply_retention(now_ms).await;
        });
        world.sim.run(usize::try_from(seed).expect("small"));
        world.sim.block_on(async move { old.delete().await }).expect("deleted");
        let (new, _) = world.open(&small_segments());
        for n in 0..30_u8 {
            world.append(&new, &[&[n; 200]]);
            world.sim.advance(Duration::from_millis(1));
        }
        world.sim.advance(Duration::from_secs(1));
        assert_eq!(log_files(&world), new.segment_count(), "seed {seed}");
        let names = world.sim.disk().names(dir());
        assert!(!names.iter().any(|name| name.ends_with(".deleted")), "seed {seed}: {names:?}");
        let bytes = world.read_all(&new);
        drop(new);
        let world = world.power_cut();
        let (new, report) = world.open(&small_segments());
        assert!(report.damage.is_empty(), "seed {seed}: {report:?}");
        assert_eq!(world.read_all(&new), bytes, "seed {seed}");
    }
}

/// Nothing asked for the flush of the last records of a relaxed topic, so they were never durable,
/// their segment was never rolled, and `retention.ms` never reached them.
#[test]
fn the_last_records_of_a_silent_relaxed_topic_age_too() {
    let world = World::fresh();
    let relaxed = Settings { flush_messages: 1_000, retention_ms: 15_000, ..small_segments() };
    let log = filled(&world, &relaxed);
    for _ in 0..5 {
        world.sim.advance(Duration::from_secs(100));
        apply(&world, &log);
        world.sim.settle();
    }
    assert_eq!(log.marks().log_start(), Offset(30));
    let (log, _) = world.open_at(Path::new("/data/topic-1"), &relaxed);
    world.append(&log, &[b"last"]);
    assert_eq!(log.marks().durable_end(), Offset(0), "relaxed");
    apply(&world, &log);
    world.sim.settle();
    assert_eq!(log.marks().durable_end(), Offset(0), "retention leaves young records alone");
    world.sim.advance(Duration::from_secs(100));
    assert_eq!(log.marks().durable_end(), Offset(1), "a silent log is flushed in the end");
}

/// The suffix made the name of the directory longer than a file system takes.
#[test]
fn a_topic_with_the_longest_name_can_be_deleted() {
    for length in [1, 225, 231, 249] {
        let world = World::fresh();
        let name = "t".repeat(length) + "-12345";
        let (log, _) = world.open_at(&Path::new("/data").join(&name), &Settings::default());
        let deleting = log.clone();
        world.sim.block_on(async move { deleting.delete().await }).expect("deleted");
        let names = world.sim.disk().names(Path::new("/data"));
        assert!(names.iter().all(|name| is_deleted_name(name)), "{names:?}");
        assert!(names.iter().all(|name| name.contains("t-12345.")), "{names:?}");
        let stray = name_aside(&name, &format!(".{}-stray", "i".repeat(36)));
        assert!(stray.len() <= 255 && stray.contains("t-12345.iii"), "{stray}");
    }
    assert_eq!(name_aside("a-0", ".x"), "a-0.x");
}

/// A disk that the log had filled itself stayed full: its first failed preparation ended the log,
/// and with it retention.
#[test]
fn a_full_disk_heals_by_retention() {
    let world = World::fresh();
    let log = filled(&world, &Settings { retention_bytes: 3_000, ..small_segments() });
    world.sim.disk().fail(FaultPoint::Zeros, 0, libc::ENOSPC);
    while log.failure().is_none() {
        world.send(&log, &[&[1; 200]], &BatchOptions::default()).expect("taken");
        world.sim.settle();
    }
    assert!(apply(&world, &log) > 0, "retention goes on");
    let start = log.marks().log_start();
    let deleting = log.clone();
    let deleted = world.sim.block_on(async move { deleting.delete_records(start.plus(1)).await });
    assert_eq!(deleted.expect("so does deletion"), start.plus(1));
    world.sim.advance(Duration::from_secs(10));
    assert_eq!(log.marks().ack_end(), end(&log), "what waited is written");
    world.append(&log, &[b"goes on"]);
}
