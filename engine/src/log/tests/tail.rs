//! The tail in memory: what it costs and what it serves.

use std::time::Duration;

use super::*;
use crate::io::buf::copied_bytes;

#[test]
fn a_payload_byte_is_copied_once() {
    let world = World::fresh();
    let (log, _) = world.open(&Settings::default());
    world.append(&log, &[b"makes the files"]);
    let (header, bytes) = batch(&[&[5; 100_000]], 1, &BatchOptions::default());
    let payload = Slice::copy_of(&bytes[HEADER_BYTES..]).into();
    let before = copied_bytes();
    let appended = log.append_parts(&header, &payload, LeaderEpoch(0), 1).expect("taken");
    world.sim.settle();
    let Read::Ready(chain) = log.read(appended.base_offset, 1, end(&log)) else {
        panic!("the tail is in memory")
    };
    assert_eq!(copied_bytes() - before, bytes.len() as u64);
    assert_eq!(chain.len(), bytes.len());
}

#[test]
fn a_quiet_log_keeps_one_block() {
    let world = World::fresh();
    let (log, _) = world.open(&Settings::default());
    for _ in 0..100 {
        world.append(&log, &[&[1; 3_000]]);
    }
    assert!(world.pool.in_use_bytes() > 4_096);
    let all = world.read_all(&log);
    world.sim.advance(Duration::from_secs(60));
    assert_eq!(world.pool.in_use_bytes(), 4_096);
    assert_eq!(world.read_all(&log), all, "the rest is read from disk");
    world.append(&log, &[b"goes on"]);
}

#[test]
fn the_tail_is_bounded_over_all_logs() {
    let world = World::fresh();
    let (log, _) = world.open(&Settings::default());
    for _ in 0..100 {
        world.append(&log, &[&[1; 60_000]]);
    }
    let held = world.pool.in_use_bytes();
    assert!(held <= (1 << 20) + (512 << 10), "{held} bytes for a budget of 1 MiB");
    let last = Offset(end(&log).0 - 1);
    assert!(matches!(log.read(last, 1, end(&log)), Read::Ready(_)));
    assert!(matches!(log.read(Offset(0), 1, end(&log)), Read::Cold(_)));
}

#[test]
fn without_buffers_an_append_waits() {
    let world = World::fresh();
    let pool = Pool::new(64 << 10);
    let opening = Log::open(
        world.sim.env(),
        world.volume.clone(),
        pool,
        dir().to_owned(),
        Settings::default(),
    );
    let (log, _) = world.sim.block_on(opening).expect("opened");
    let mut sent = 0;
    while world.send(&log, &[&[1; 10_000]], &BatchOptions::default()).is_ok() {
        sent += 1;
    }
    assert!((2..7).contains(&sent), "{sent}");
    let full = world.send(&log, &[&[1; 10_000]], &BatchOptions::default());
    assert!(matches!(full, Err(AppendError::Busy)));
    world.sim.settle();
    world.append(&log, &[&[1; 10_000]]);
}

#[test]
fn the_largest_batch_spans_chunks_and_segments_of_any_size() {
    let world = World::fresh();
    let settings = Settings { segment_bytes: 4_096, ..Settings::default() };
    let (log, _) = world.open(&settings);
    let values: Vec<Vec<u8>> = (1..6_u8).map(|n| vec![n; 700_000]).collect();
    for value in &values {
        world.append(&log, &[value]);
    }
    let all = world.read_all(&log);
    drop(log);
    let world = world.power_cut();
    let (log, _) = world.open(&settings);
    assert_eq!(world.read_all(&log), all);
    assert_eq!(end(&log), Offset(5));
}
