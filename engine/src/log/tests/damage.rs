//! A torn tail is cut, damage is kept: two things that look alike and must not be mixed up.

use super::*;
use crate::io::fake::{FaultPoint, Random};

const LOG: &str = "00000000000000000000.log";

fn three_batches(world: &World) -> (Vec<u8>, usize) {
    let (log, _) = world.open(&Settings::default());
    for value in [b"first", b"other", b"third"] {
        world.append(&log, &[value]);
    }
    let bytes = world.read_all(&log);
    let size = bytes.len() / 3;
    (bytes, size)
}

/// A world after a power cut, whose first segment holds these pieces and nothing else.
fn cut_with_segment(pieces: &[&[u8]]) -> World {
    let world = World::fresh();
    let (log, _) = world.open(&Settings::default());
    world.append(&log, &[b"makes the files"]);
    let world = world.power_cut();
    world.sim.disk().edit(&file(LOG), |content| *content = pieces.concat());
    world
}

#[test]
fn a_tear_at_any_byte_leaves_the_longest_whole_prefix() {
    let world = World::fresh();
    let (bytes, size) = three_batches(&world);
    let mut random = Random::new(1);
    for cut in 0..bytes.len() {
        // What a recycled block or a torn write may have left behind.
        let left: Vec<u8> = (0..200).map(|_| random.bits().to_le_bytes()[0]).collect();
        let world = cut_with_segment(&[&bytes[..cut], &left]);
        let (log, report) = world.open(&Settings::default());
        let whole = cut / size;
        assert_eq!(end(&log).0, i64::try_from(whole).expect("three"), "cut at {cut}");
        assert!(report.damage.is_empty());
        let kept = world.sim.disk().content(&file(LOG)).expect("there");
        assert_eq!(kept, bytes[..whole * size], "nothing is left behind the end");
        world.append(&log, &[b"goes on"]);
    }
}

#[test]
fn a_bad_batch_before_the_durable_end_is_kept_and_refuses_appends() {
    let world = World::fresh();
    let (bytes, size) = three_batches(&world);
    // Quiet for long enough, so the durable end is on disk.
    world.sim.advance(std::time::Duration::from_secs(60));
    for at in [size - 1, 2 * size - 1] {
        let world = World::new(World::fresh().sim);
        let (log, _) = world.open(&Settings::default());
        for value in [b"first", b"other", b"third"] {
            world.append(&log, &[value]);
        }
        world.sim.advance(std::time::Duration::from_secs(60));
        drop(log);
        let world = world.power_cut();
        world.sim.disk().edit(&file(LOG), |content| content[at] ^= 1);
        let before = world.sim.disk().content(&file(LOG));
        let (log, report) = world.open(&Settings::default());
        assert_eq!(report.damage.len(), 1, "{report:?}");
        assert_eq!(end(&log).0, i64::try_from(at / size).expect("small"));
        let refused = world.send(&log, &[b"no"], &BatchOptions::default());
        assert!(matches!(refused, Err(AppendError::Failed(_))));
        assert_eq!(world.read_all(&log), bytes[..at / size * size], "what is whole is served");
        assert_eq!(world.sim.disk().content(&file(LOG)), before, "nothing was changed");
    }
}

/// After every kill each partition was said to have a torn tail: the zeros written ahead.
#[test]
fn space_prepared_for_writes_is_no_torn_tail() {
    let world = World::fresh();
    let (bytes, size) = three_batches(&world);
    for (torn, kept) in [(&[][..], 3), (&[7; 100][..], 3), (&bytes[..size - 2], 0)] {
        let world = cut_with_segment(&[&bytes[..kept * size], torn, &[0; 700 << 10]]);
        let (log, report) = world.open(&Settings::default());
        assert_eq!(report.cut_bytes, torn.len() as u64);
        assert_eq!(end(&log).0, i64::try_from(kept).expect("three"));
        let left = world.sim.disk().content(&file(LOG)).expect("there");
        assert_eq!(left, bytes[..kept * size], "both are taken off");
    }
}

const RECORD: &str = "durable-end";

fn flip(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
}

/// A log whose record has been written more than once, after a power cut; and what it holds.
fn recorded_twice() -> (World, Vec<u8>) {
    let world = World::fresh();
    let (log, _) = world.open(&Settings::default());
    for value in [b"first", b"other", b"third"] {
        world.append(&log, &[value]);
        world.sim.advance(std::time::Duration::from_secs(60));
    }
    let bytes = world.read_all(&log);
    drop(log);
    (world.power_cut(), bytes)
}

#[test]
fn one_damaged_copy_of_the_durable_end_record_does_no_harm() {
    for slot in 0..2 {
        let (world, bytes) = recorded_twice();
        let damage = |content: &mut Vec<u8>| flip(&mut content[slot * 4096..][..4096]);
        world.sim.disk().edit(&file(RECORD), damage);
        let (log, report) = world.open(&Settings::default());
        assert_eq!((report.damage, world.read_all(&log)), (Vec::new(), bytes));
        world.append(&log, &[b"goes on"]);
    }
}

/// It was taken for a log without a record: a cut tail went unnoticed, and offsets could be used
/// twice.
#[test]
fn two_damaged_copies_of_the_durable_end_record_are_damage() {
    let (world, bytes) = recorded_twice();
    world.sim.disk().edit(&file(RECORD), |content| flip(content));
    world.sim.disk().edit(&file(LOG), |content| content.truncate(bytes.len() / 3 * 2 + 7));
    let before = world.sim.disk().content(&file(LOG));
    for _ in 0..2 {
        let (log, report) = world.open(&Settings::default());
        assert_eq!(report.damage.len(), 1, "{report:?}");
        assert!(report.damage[0].contains(RECORD), "{report:?}");
        assert_eq!(world.read_all(&log), bytes[..bytes.len() / 3 * 2], "what is whole is served");
        let refused = world.send(&log, &[b"no"], &BatchOptions::default());
        assert!(matches!(refused, Err(AppendError::Failed(_))));
        world.close(&log);
        assert_eq!(world.sim.disk().content(&file(LOG)), before, "nothing was changed");
    }
    let (disk, record) = (world.sim.disk(), file(RECORD));
    world.sim.block_on(async move {
        use crate::io::Disk;
        disk.remove_file(&record).await.expect("removed");
    });
    let (log, report) = world.open(&Settings::default());
    assert_eq!((report.damage, end(&log)), (Vec::new(), Offset(2)), "taken as it is");
    world.append(&log, &[b"goes on"]);
}

/// Every file of the log's directory.
fn contents(world: &World) -> Vec<(String, Option<Vec<u8>>)> {
    let names = world.sim.disk().names(dir());
    names.into_iter().map(|name| (name.clone(), world.sim.disk().content(&file(&name)))).collect()
}

fn remove(world: &World, names: &[String]) {
    let (disk, names) = (world.sim.disk(), names.to_vec());
    world.sim.block_on(async move {
        use crate::io::Disk;
        for name in names {
            disk.remove_file(&file(&name)).await.expect("removed");
        }
        disk.sync_dir(dir()).await.expect("synced");
    });
}

/// The start that found the damage sealed what lay before it and recorded the shortened end as the
/// durable one; the next start saw no damage and removed all that followed.
#[test]
fn a_damaged_log_is_not_written_to_by_any_start_or_stop() {
    let unsealed = [".seal", ".producers", "index"];
    let leftovers = ["00000000000000000100.seal", "00000000000000000100.log.deleted"];
    for (rotten, left) in [(0, false), (1, false), (2, true)] {
        let world = World::fresh();
        let (log, _) = world.open(&small_segments());
        for n in 0..20_u8 {
            world.append(&log, &[&[n; 200]]);
        }
        world.close(&log);
        drop(log);
        let names = world.sim.disk().names(dir());
        let is_gone = |name: &&String| unsealed.iter().any(|suffix| name.ends_with(suffix));
        remove(&world, &names.iter().filter(is_gone).cloned().collect::<Vec<_>>());
        let logs: Vec<_> = names.iter().filter(|name| name.ends_with(".log")).collect();
        assert!(logs.len() >= 4, "{names:?}");
        world.sim.disk().edit(&file(logs[rotten]), |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        });
        for name in leftovers.iter().filter(|_| left) {
            world.sim.disk().edit(&file(name), |bytes| bytes.push(1));
        }
        let before = contents(&world);
        for _ in 0..3 {
            let (log, report) = world.open(&small_segments());
            world.sim.advance(std::time::Duration::from_secs(600));
            assert_eq!(report.damage.len(), 1, "{report:?}");
            let retaining = log.clone();
            let retained = world.sim.block_on(async move { retaining.apply_retention(0).await });
            retained.expect_err("refused");
            world.close(&log);
            assert!(contents(&world) == before, "rot in segment {rotten}: a file has changed");
        }
    }
}

#[test]
fn a_lost_segment_is_damage() {
    let world = World::fresh();
    let (log, _) = world.open(&small_segments());
    for _ in 0..30 {
        world.append(&log, &[&[7; 200]]);
    }
    world.sim.settle();
    let logs: Vec<String> = world.sim.disk().names(dir());
    let logs: Vec<_> = logs.iter().filter(|name| name.ends_with(".log")).collect();
    let missing = file(logs[2]);
    let disk = world.sim.disk();
    world.sim.block_on(async move {
        use crate::io::Disk;
        disk.remove_file(&missing).await.expect("removed");
        disk.sync_dir(dir()).await.expect("synced");
    });
    drop(log);
    let world = world.power_cut();
    let (log, report) = world.open(&small_segments());
    assert_eq!(report.damage.len(), 1);
    assert!(end(&log) < Offset(30) && end(&log) > Offset(0));
}

#[test]
fn a_damaged_index_is_rebuilt_from_the_segment() {
    let (world, log) = World::with_batches::<100>(30);
    let all = world.read_all(&log);
    world.close(&log);
    let world = world.power_cut();
    for name in world.sim.disk().names(dir()) {
        if name.ends_with("index") {
            world.sim.disk().edit(&file(&name), |bytes| {
                bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
            });
        }
    }
    let (log, report) = world.open(&small_segments());
    assert!(report.damage.is_empty());
    assert_eq!(world.read_all(&log), all);
    for offset in 0..30 {
        let Read::Cold(cold) = log.read(Offset(offset), 1, end(&log)) else { continue };
        let log = log.clone();
        let chain = world.sim.block_on(async move { log.read_cold(cold).await });
        let header = Header::from_chain(&chain.expect("readable"), 0).expect("a batch");
        assert_eq!(header.base_offset, Offset(offset));
    }
}

#[test]
fn stale_batches_of_the_same_file_are_not_taken_for_new_ones() {
    let world = World::fresh();
    let (bytes, size) = three_batches(&world);
    let world = cut_with_segment(&[&bytes[..size], &bytes[2 * size..], &bytes[..size]]);
    let (log, _) = world.open(&Settings::default());
    assert_eq!(end(&log), Offset(1), "a good batch with another offset breaks the chain");
}

/// One unreadable sector in a file that batches can replace kept the partition from opening.
#[test]
fn side_files_that_cannot_be_read_are_made_again() {
    let mut tolerated = 0;
    for after in 0..20 {
        let world = World::fresh();
        let (log, _) = world.open(&small_segments());
        for n in 0..30_u8 {
            world.append(&log, &[&[n; 200]]);
        }
        world.close(&log);
        let bytes = world.read_all(&log);
        drop(log);
        let world = world.power_cut();
        world.sim.disk().fail(FaultPoint::ReadFile, after, libc::EIO);
        let opening = Log::open(
            world.sim.env(),
            world.volume.clone(),
            world.pool.clone(),
            dir().to_owned(),
            small_segments(),
        );
        // The first two say what nothing else does: the durable end and the leader epochs.
        let Ok((log, report)) = world.sim.block_on(opening) else {
            assert!(after < 2, "read {after}");
            continue;
        };
        assert!(report.damage.is_empty(), "read {after}: {report:?}");
        assert!(world.read_all(&log) == bytes, "read {after}");
        world.append(&log, &[b"goes on"]);
        tolerated += 1;
    }
    assert_eq!(tolerated, 18);
}
