//! Restarts after cuts, damage and half-done snapshots, on a real directory.

use std::sync::Arc;

use super::*;
use crate::{
    config::BrokerConfig,
    meta::{image::PartitionState, writer::Journal},
    types::{NodeId, TopicId},
};

fn new_state() -> State {
    State::new(Arc::new(BrokerConfig::default()))
}

fn topic(number: u8) -> Record {
    Record::TopicCreated {
        name: format!("topic-{number}"),
        id: TopicId([number; 16]),
        partitions: vec![PartitionState::new_on(NodeId(1)); 2],
        overrides: [("retention.ms".to_owned(), number.to_string())].into(),
    }
}

fn keep(store: &mut Store, state: &mut State, records: &[Record]) {
    store.append(records).expect("appended");
    records.iter().for_each(|record| state.apply(record).expect("applied"));
}

fn reopen(dir: &Path) -> Result<(Store, State)> {
    let mut state = new_state();
    Store::open(dir, &DiskHealth::new(), &mut state).map(|store| (store, state))
}

/// A store with two topics in two groups.
fn store_with_two(dir: &Path) -> (Store, State) {
    let mut store = Store::create(dir, &DiskHealth::new()).expect("made");
    let mut state = new_state();
    keep(&mut store, &mut state, &[Record::FormatLevel(1), topic(1)]);
    keep(&mut store, &mut state, &[topic(2)]);
    (store, state)
}

fn log_path(dir: &Path, index: u64) -> PathBuf {
    dir.join(DIRECTORY).join(file_name(FileKind::Log, index))
}

fn snapshot_path(dir: &Path, index: u64) -> PathBuf {
    dir.join(DIRECTORY).join(file_name(FileKind::Snapshot, index))
}

#[test]
fn a_log_cut_anywhere_in_its_last_group_opens_and_goes_on() {
    let temp = tempfile::tempdir().expect("a directory");
    let (mut store, mut state) = store_with_two(temp.path());
    let before = usize::try_from(store.length).expect("short");
    keep(&mut store, &mut state, &[topic(3)]);
    drop(store);
    let path = log_path(temp.path(), 0);
    let whole = fs::read(&path).expect("there");
    for length in before..=whole.len() {
        fs::write(&path, &whole[..length]).expect("cut");
        let (mut store, mut state) = reopen(temp.path()).expect("a torn write is cut");
        let frame_is_whole = length >= whole.len() - journal::SEAL_BYTES;
        assert_eq!(state.image().topic_count(), if frame_is_whole { 3 } else { 2 });
        keep(&mut store, &mut state, &[topic(4)]);
        let (_, again) = reopen(temp.path()).expect("what was mended is whole");
        assert_eq!(again.image().version(), state.image().version());
        assert!(again.image().topic("topic-4").is_some(), "cut at {length}");
    }
}

#[test]
fn a_flipped_bit_stops_the_start_and_changes_no_file() {
    let temp = tempfile::tempdir().expect("a directory");
    let (store, _) = store_with_two(temp.path());
    drop(store);
    let path = log_path(temp.path(), 0);
    let whole = fs::read(&path).expect("there");
    for byte in 0..whole.len() - journal::SEAL_BYTES {
        let mut flipped = whole.clone();
        flipped[byte] ^= 0x10;
        fs::write(&path, &flipped).expect("written");
        let error = reopen(temp.path()).expect_err("damaged");
        assert!(matches!(error.kind(), Kind::Corrupt), "byte {byte}: {error}");
        assert!(!error.to_string().contains('\n'));
        assert_eq!(fs::read(&path).expect("there"), flipped);
    }
}

#[test]
fn snapshots_replace_the_log_and_two_are_kept() {
    let temp = tempfile::tempdir().expect("a directory");
    let (mut store, mut state) = store_with_two(temp.path());
    for number in 3..8 {
        keep(&mut store, &mut state, &[topic(number)]);
        store.checkpoint(&state).expect("too short to be replaced");
        store.compact_at = 0;
        store.checkpoint(&state).expect("replaced");
    }
    let (logs, snapshots) = list(&temp.path().join(DIRECTORY)).expect("listed");
    assert_eq!(snapshots, [7, 8]);
    assert_eq!(logs, [7, 8]);
    keep(&mut store, &mut state, &[topic(8)]);
    drop(store);
    let (_, again) = reopen(temp.path()).expect("opens");
    assert!(again.image().topics().eq(state.image().topics()));
    assert_eq!(again.image().version(), 9);

    // A damaged snapshot stops the start; moved away, the one before it and its log stand in.
    let path = snapshot_path(temp.path(), 8);
    let mut bytes = fs::read(&path).expect("there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).expect("written");
    assert!(matches!(reopen(temp.path()).expect_err("damaged").kind(), Kind::Corrupt));
    fs::remove_file(&path).expect("moved away");
    let (_, again) = reopen(temp.path()).expect("opens from the older snapshot");
    assert!(again.image().topics().eq(state.image().topics()));
}

/// Every point at which a crash can stop the making of a snapshot leaves a state that opens.
#[test]
fn a_crash_while_a_snapshot_is_made_loses_nothing() {
    let temp = tempfile::tempdir().expect("a directory");
    let (mut store, mut state) = store_with_two(temp.path());
    let old_log = fs::read(log_path(temp.path(), 0)).expect("there");
    store.compact_at = 0;
    store.checkpoint(&state).expect("replaced");
    let new_log = fs::read(log_path(temp.path(), 3)).expect("there");
    let snapshot = fs::read(snapshot_path(temp.path(), 3)).expect("there");
    keep(&mut store, &mut state, &[topic(9)]);
    drop(store);
    let crashes: [&[(PathBuf, &[u8])]; 5] = [
        &[(temporary(&log_path(temp.path(), 3)), &new_log[..20])],
        &[(temporary(&log_path(temp.path(), 3)), &new_log)],
        &[
            (temporary(&log_path(temp.path(), 3)), &new_log),
            (temporary(&snapshot_path(temp.path(), 3)), &snapshot[..50]),
        ],
        &[
            (log_path(temp.path(), 3), &new_log),
            (temporary(&snapshot_path(temp.path(), 3)), &snapshot),
        ],
        &[(log_path(temp.path(), 3), &new_log), (snapshot_path(temp.path(), 3), &snapshot)],
    ];
    for (number, files) in crashes.into_iter().enumerate() {
        fs::remove_dir_all(temp.path().join(DIRECTORY)).expect("emptied");
        fs::create_dir(temp.path().join(DIRECTORY)).expect("made");
        fs::write(log_path(temp.path(), 0), &old_log).expect("written");
        files.iter().for_each(|(path, bytes)| fs::write(path, bytes).expect("written"));
        let (mut store, mut state) = reopen(temp.path()).expect("opens");
        assert_eq!(state.image().topic_count(), 2, "crash {number}");
        keep(&mut store, &mut state, &[topic(7)]);
        let (_, again) = reopen(temp.path()).expect("opens again");
        assert_eq!(again.image().topic_count(), 3, "crash {number}");
    }
}

#[test]
fn a_missing_or_misplaced_file_stops_the_start() {
    let temp = tempfile::tempdir().expect("a directory");
    let (mut store, state) = store_with_two(temp.path());
    store.compact_at = 0;
    store.checkpoint(&state).expect("replaced");
    drop(store);
    let away = temp.path().join("away");
    fs::rename(log_path(temp.path(), 3), &away).expect("moved");
    let error = reopen(temp.path()).expect_err("the log is missing").to_string();
    assert!(error.contains("00000000000000000003.log is missing"), "{error}");
    fs::copy(&away, log_path(temp.path(), 4)).expect("copied");
    reopen(temp.path()).expect_err("the log is not the one");
    fs::remove_file(log_path(temp.path(), 4)).expect("removed");
    fs::copy(log_path(temp.path(), 0), log_path(temp.path(), 3)).expect("copied");
    let error = reopen(temp.path()).expect_err("another log").to_string();
    assert!(error.contains("does not agree with the file's name"), "{error}");
}

/// A topic made by a program that knows more, or under settings that no longer hold.
#[test]
fn what_cannot_be_understood_stops_the_start() {
    let temp = tempfile::tempdir().expect("a directory");
    let mut store = Store::create(temp.path(), &DiskHealth::new()).expect("made");
    store.append(&[Record::FormatLevel(99)]).expect("appended");
    drop(store);
    let error = reopen(temp.path()).expect_err("newer").to_string();
    assert!(error.contains("format level 99, this program knows 1"), "{error}");
}

#[test]
fn a_failure_is_final() {
    let temp = tempfile::tempdir().expect("a directory");
    let (mut store, state) = store_with_two(temp.path());
    // A descriptor that refuses writes stands in for a disk that fails.
    store.file = File::open(&store.path).expect("opened for reading");
    let first = store.append(&[topic(3)]).expect_err("cannot be written").to_string();
    store.file = File::options().write(true).open(&store.path).expect("opened for writing");
    assert_eq!(store.append(&[topic(3)]).expect_err("stays failed").to_string(), first);
    store.compact_at = 0;
    store.checkpoint(&state).expect_err("stays failed");
    let (_, again) = reopen(temp.path()).expect("opens");
    assert_eq!(again.image().topic_count(), 2);
}

/// A flush of records that failed took the only word of what the device had lost with it: the
/// metadata log went on beside it, and so did the records beside a metadata log whose flush failed.
#[test]
fn a_failed_flush_is_everybodys_on_the_file_system() {
    let temp = tempfile::tempdir().expect("a directory");
    let health = DiskHealth::new();
    let mut store = Store::create(temp.path(), &health).expect("made");
    store.append(&[Record::FormatLevel(1)]).expect("appended");
    health.fail("flush of the disk failed");
    let error = store.append(&[topic(1)]).expect_err("the device may have lost anything");
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (Kind::Fatal, "flush of the disk failed")
    );
    store.finish().expect_err("nothing is flushed any more");

    let temp = tempfile::tempdir().expect("a directory");
    let health = DiskHealth::new();
    let mut store = Store::create(temp.path(), &health).expect("made");
    // Takes writes and has nothing that could be flushed.
    store.file = File::options().write(true).open("/dev/null").expect("there");
    store.append(&[Record::FormatLevel(1)]).expect_err("cannot be flushed");
    assert!(health.is_failed(), "for all who write there");
}

/// A metadata log that met a full disk refused every change until the broker was started again.
#[test]
fn a_full_disk_is_no_failure_and_leaves_nothing_half_written() {
    let temp = tempfile::tempdir().expect("a directory");
    let (mut store, mut state) = store_with_two(temp.path());
    // Takes nothing, for want of room.
    let full = || File::options().read(true).write(true).open("/dev/full").expect("there");
    let whole = std::mem::replace(&mut store.file, full());
    let error = store.append(&[topic(3)]).expect_err("there is no room");
    assert_eq!(error.kind(), Kind::Full);
    store.compact_at = 0;
    store.file = whole;
    store.checkpoint(&state).expect("there is room again");
    keep(&mut store, &mut state, &[topic(4)]);

    // A frame whose seal found no room is durable; the seal comes before whatever follows.
    store.owes_seal = true;
    store.length -= journal::SEAL_BYTES as u64;
    store.file.set_len(store.length).expect("cut");
    let whole = std::mem::replace(&mut store.file, full());
    store.append(&[topic(5)]).expect_err("not even for the seal");
    store.file = whole;
    // Half of a write that found no room.
    let torn = store.file.write_all_at(&[7; 1_000], store.length);
    torn.and_then(|()| store.cut_back()).expect("cut");
    keep(&mut store, &mut state, &[topic(6)]);
    let (_, again) = reopen(temp.path()).expect("whole");
    assert!(again.image().topics().eq(state.image().topics()));
    assert_eq!(again.image().topic_count(), 4);
}
