//! Segments roll, are sealed, and a start trusts what is sealed.

use super::*;

#[test]
fn a_clean_stop_leaves_nothing_to_scan() {
    let (world, log) = World::with_batches::<150>(20);
    let all = world.read_all(&log);
    world.close(&log);
    let world = world.power_cut();
    let (log, report) = world.open(&small_segments());
    assert_eq!((report.scanned_bytes, report.cut_bytes), (0, 0));
    assert_eq!(world.read_all(&log), all);
    world.append(&log, &[b"goes on in the last segment"]);
    let more = world.read_all(&log);
    drop(log);
    let world = world.power_cut();
    let (log, report) = world.open(&small_segments());
    assert!(report.scanned_bytes < 1_100, "the last segment only: {}", report.scanned_bytes);
    assert_eq!(world.read_all(&log), more);
}

#[test]
fn a_start_reads_the_unsealed_part_only() {
    let (world, log) = World::with_batches::<150>(50);
    drop(log);
    let world = world.power_cut();
    let (log, report) = world.open(&small_segments());
    assert_eq!(end(&log), Offset(50));
    assert!(report.scanned_bytes <= 2_000, "{}", report.scanned_bytes);
}

#[test]
fn sealed_files_have_their_real_size_and_kafka_entries() {
    let (world, _log) = World::with_batches::<150>(10);
    let segment = world.sim.disk().content(&file("00000000000000000000.log")).expect("there");
    let first = Header::from_prefix(&segment).expect("a batch");
    let size = first.size_bytes();
    assert_eq!(segment.len(), 1_000 / size * size);
    let index = world.sim.disk().content(&file("00000000000000000000.index")).expect("there");
    // The second batch is the first that starts more than the interval behind.
    let entry = [1_i32.to_be_bytes(), i32::try_from(size).expect("small").to_be_bytes()].concat();
    assert_eq!(index[..8], entry);
    let times = world.sim.disk().content(&file("00000000000000000000.timeindex")).expect("there");
    assert_eq!(times[..8], first.max_timestamp_ms.to_be_bytes());
}

#[test]
fn an_empty_log_takes_no_disk_and_a_new_one_little() {
    let world = World::fresh();
    let (log, _) = world.open(&Settings::default());
    assert_eq!(world.sim.disk().names(dir()), Vec::<String>::new());
    world.append(&log, &[b"first"]);
    let total: usize = world
        .sim
        .disk()
        .names(dir())
        .iter()
        .filter_map(|name| world.sim.disk().content(&file(name)))
        .map(|content| content.len())
        .sum();
    assert!(total <= 1 << 20, "{total}");
}

#[test]
fn leader_epochs_survive() {
    let world = World::fresh();
    let (log, _) = world.open(&small_segments());
    for n in 0..30_u8 {
        let now_ms = world.sim.env().wall_ms();
        let (header, bytes) = batch(&[&[n; 200]], now_ms, &BatchOptions::default());
        let payload = Slice::copy_of(&bytes[HEADER_BYTES..]).into();
        let epoch = LeaderEpoch(i32::from(n) / 10 * 2);
        log.append_parts(&header, &payload, epoch, now_ms).expect("taken");
        world.sim.settle();
    }
    let check = |log: &Log<FakeEnv>| {
        assert_eq!(log.epoch_end(LeaderEpoch(0)), Some((LeaderEpoch(0), Offset(10))));
        assert_eq!(log.epoch_end(LeaderEpoch(1)), Some((LeaderEpoch(0), Offset(10))));
        assert_eq!(log.epoch_end(LeaderEpoch(9)), Some((LeaderEpoch(4), Offset(30))));
        assert_eq!(log.latest_epoch(), Some(LeaderEpoch(4)));
    };
    check(&log);
    drop(log);
    let world = world.power_cut();
    check(&world.open(&small_segments()).0);
}

fn with_suffix(world: &World, suffix: &str) -> Vec<String> {
    let names = world.sim.disk().names(dir());
    names.into_iter().filter(|name| name.ends_with(suffix)).collect()
}

/// Each stop left one more for ever.
#[test]
fn stops_and_starts_leave_a_bounded_number_of_producer_snapshots() {
    let world = World::fresh();
    for settings in [Settings::default(), small_segments()] {
        for n in 0..12_u8 {
            let (log, report) = world.open(&settings);
            assert_eq!(report.scanned_bytes, 0, "the snapshot of the stop is there");
            world.append(&log, &[&[n; 150]]);
            world.close(&log);
            let left = with_suffix(&world, ".producers");
            assert!(left.len() <= 4, "{left:?}");
        }
    }
    world.open(&small_segments());
    let left = with_suffix(&world, ".producers");
    assert!(left.len() <= 2, "{left:?}");
}

/// A crash in the removal of a segment left them; only its seal was looked for.
#[test]
fn what_is_left_of_a_removed_segment_goes_at_the_next_start() {
    let (world, log) = World::with_batches::<150>(20);
    let all = world.read_all(&log);
    world.close(&log);
    let kept = world.sim.disk().names(dir());
    for suffix in ["seal", "index", "timeindex", "producers", "index.deleted"] {
        let name = format!("00000000000000000{}.{suffix}", 900 + suffix.len());
        world.sim.disk().edit(&file(&name), |bytes| bytes.push(1));
    }
    let foreign = file("00000000000000000900.snapshot");
    world.sim.disk().edit(&foreign, |bytes| bytes.push(1));
    let (log, report) = world.open(&small_segments());
    assert_eq!((report.damage, world.read_all(&log)), (Vec::new(), all));
    let mut left = world.sim.disk().names(dir());
    left.retain(|name| !foreign.ends_with(name));
    assert_eq!(left, kept);
    assert!(world.sim.disk().content(&foreign).is_some(), "what is not ours stays");
}

/// A start opened every file at once: a log of many segments had no descriptor left.
#[test]
fn a_start_opens_few_files_at_once_sealed_or_not() {
    let (world, log) = World::with_batches::<150>(200);
    let all = world.read_all(&log);
    world.close(&log);
    assert!(log.segment_count() > 40, "{}", log.segment_count());
    drop(log);
    let mut world = world.power_cut();
    for unsealed in [false, true] {
        if unsealed {
            for name in with_suffix(&world, ".seal") {
                world.sim.disk().edit(&file(&name), Vec::clear);
            }
        }
        let _before = world.sim.disk().open_files();
        let (log, _) = world.open(&small_segments());
        let (most, _) = world.sim.disk().open_files();
        assert!(most <= 4, "{most} files, unsealed: {unsealed}");
        world.sim.settle();
        let (most, now) = world.sim.disk().open_files();
        assert!(most <= 8 && now <= 4, "{most} files, {now} kept, unsealed: {unsealed}");
        assert_eq!(world.read_all(&log), all);
        drop(log);
        world = world.power_cut();
    }
    let scanned = world.open(&small_segments()).1.scanned_bytes;
    assert!(scanned <= 1_000, "all but the last were sealed again: {scanned}");
}
