//! Cuts, flipped bits and random bytes, against what a file must still prove.

use super::*;
use crate::{
    meta::image::PartitionState,
    types::{LeaderEpoch, NodeId, TopicId},
};

const SALT: u64 = 0x1234_5678_9abc_def0;

pub(in crate::meta) fn some_records() -> Vec<Record> {
    let overrides = [("retention.ms", "5"), ("segment.bytes", "2000000")];
    let overrides = overrides.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let state = PartitionState::new_on(NodeId(1));
    let id = TopicId([9; 16]);
    vec![
        Record::FormatLevel(1),
        Record::Identity { cluster_id: "abc".to_owned(), node_id: NodeId(1) },
        Record::TopicCreated {
            name: "a.topic".to_owned(),
            id,
            partitions: vec![state.clone(); 3],
            overrides: overrides.clone().into(),
        },
        Record::PartitionsAdded { id, partitions: vec![state.clone(); 2] },
        Record::ConfigChanged { id, overrides: overrides.into() },
        Record::ProducerIdsReserved(3000),
        Record::PartitionChanged {
            id,
            partition: 1,
            state: PartitionState { leader_epoch: LeaderEpoch(4), ..state },
        },
        Record::TopicRemoved(id),
    ]
}

/// A log of three groups, and where each of its sealed prefixes ends, with the records by then.
fn log() -> (Vec<u8>, Vec<(usize, usize)>) {
    let mut bytes = Header { kind: FileKind::Log, index: 5, salt: SALT }.start();
    let mut ends = vec![(bytes.len(), 0)];
    let mut index = 5;
    let records = some_records();
    for group in [&records[..2], &records[2..5], &records[5..]] {
        put_frame(&mut bytes, index, group);
        index += group.len() as u64;
        let position = bytes.len() as u64;
        put_seal(&mut bytes, SALT, position, index);
        ends.push((bytes.len(), usize::try_from(index - 5).expect("few")));
    }
    (bytes, ends)
}

#[test]
fn a_whole_log_reads_back() {
    let (bytes, _) = log();
    let recovered = recover(&bytes).expect("whole");
    assert_eq!(recovered.records, some_records());
    assert_eq!((recovered.next_index, recovered.sealed), (13, true));
    assert_eq!(recovered.kept_bytes, bytes.len());
}

#[test]
fn the_first_bytes_are_as_documented() {
    let mut bytes = Header { kind: FileKind::Snapshot, index: 258, salt: SALT }.start();
    put_frame(&mut bytes, 0, &[Record::ProducerIdsReserved(1000)]);
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = concat!(
        "4d524d455441460a", // magic
        "01000000",         // version
        "01000000",         // kind: snapshot
        "0201000000000000", // index
        "f0debc9a78563412", // salt
        "6bf57a65",         // CRC-32C of the above
        "f0debc9a78563412", // seal: salt
        "2400000000000000", // seal: its position
        "0000000000000000", // seal: next index
        "f368d231",         // seal: CRC-32C
        "1c000000",         // frame: bytes after the CRC
        "60ad570b",         // frame: CRC-32C
        "0000000000000000", // frame: first index
        "01000000",         // frame: records
        "0c000000",         // record: bytes
        "0700",             // record: type
        "0100",             // record: version
        "e803000000000000", // next producer id
    );
    assert_eq!(text, expected);
}

#[test]
fn a_cut_keeps_every_sealed_group_before_it() {
    let (bytes, ends) = log();
    let least = ends[0].0;
    for length in 0..bytes.len() {
        let result = recover(&bytes[..length]);
        if length < least {
            assert!(result.is_err(), "a file without its first seal, cut at {length}");
            continue;
        }
        let recovered = result.expect("a cut behind a seal is a torn write");
        let sealed = ends.iter().rfind(|(end, _)| *end <= length).expect("the first at least");
        assert!(recovered.records.len() >= sealed.1, "cut at {length}");
        assert!(recovered.kept_bytes <= length && recovered.kept_bytes >= sealed.0);
        assert_eq!(recovered.records, some_records()[..recovered.records.len()]);
        // Only the group whose seal alone is missing may be there beyond the sealed ones.
        let next = ends.iter().find(|(end, _)| *end > length).expect("the cut is before the end");
        let whole = next.0 - SEAL_BYTES <= length;
        assert_eq!(recovered.records.len(), if whole { next.1 } else { sealed.1 });
    }
}

#[test]
fn a_flipped_bit_in_what_was_answered_is_found() {
    let (bytes, ends) = log();
    let last_seal = bytes.len() - SEAL_BYTES;
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match recover(&flipped) {
            Err(_) => assert!(bit / 8 < last_seal, "bit {bit} of the last seal costs nothing"),
            Ok(recovered) => {
                assert!(bit / 8 >= last_seal, "bit {bit} was answered for");
                assert_eq!(recovered.records, some_records());
                assert_eq!(recovered.kept_bytes, last_seal);
                assert!(!recovered.sealed);
            }
        }
    }
    assert_eq!(ends.len(), 4);
}

/// A power cut can keep any pages of the last, unanswered write: garbage behind the last seal.
#[test]
fn garbage_behind_the_last_seal_is_cut() {
    let (bytes, ends) = log();
    for (end, records) in &ends {
        for filler in [0x00, 0xff] {
            let mut torn = bytes[..*end].to_vec();
            torn.extend([filler; 100]);
            let recovered = recover(&torn).expect("torn");
            assert_eq!(recovered.records.len(), *records);
            assert_eq!(recovered.kept_bytes, *end);
        }
    }
}

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

fn below(seed: &mut u64, bound: usize) -> usize {
    usize::try_from(random(seed) % bound as u64).expect("below a usize")
}

/// Mutated files and records never panic, and never bring out a record that was not put in.
#[test]
fn decoding_survives_hostile_bytes() {
    let runs = std::env::var("MILLRACE_FUZZ_RUNS").ok().and_then(|runs| runs.parse().ok());
    let runs: u64 = runs.unwrap_or(20_000);
    let (file, _) = log();
    let records: Vec<Vec<u8>> = some_records()
        .iter()
        .map(|record| {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            bytes
        })
        .collect();
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    for run in 0..runs {
        let mut bytes = file.clone();
        mutate(&mut bytes, &mut seed);
        if let Ok(recovered) = recover(&bytes) {
            let count = recovered.records.len();
            assert_eq!(recovered.records, some_records()[..count], "run {run}");
        }
        let mut bytes = records[below(&mut seed, records.len())].clone();
        mutate(&mut bytes, &mut seed);
        if let Ok(record) = Record::decode(&bytes) {
            let mut again = Vec::new();
            record.encode(&mut again);
            assert_eq!(again, bytes, "run {run}: one record has one encoding");
        }
    }
}

fn mutate(bytes: &mut Vec<u8>, seed: &mut u64) {
    for _ in 0..=below(seed, 4) {
        if bytes.is_empty() {
            return;
        }
        let at = below(seed, bytes.len());
        match random(seed) % 5 {
            0 => bytes[at] ^= 1 << (random(seed) % 8),
            1 => bytes[at] = [0x00, 0xff, 0x7f, 0x80][below(seed, 4)],
            2 => bytes.truncate(at),
            3 => bytes.insert(at, random(seed).to_le_bytes()[0]),
            _ => {
                let end = bytes.len().min(at + below(seed, 32));
                let copy = bytes[at..end].to_vec();
                let to = below(seed, bytes.len());
                bytes.splice(to..to, copy);
            }
        }
    }
}

#[test]
fn declared_sizes_are_not_believed() {
    let (bytes, ends) = log();
    let mut huge = bytes[..ends[0].0].to_vec();
    huge.extend(u32::MAX.to_le_bytes());
    huge.extend([0; 64]);
    assert_eq!(recover(&huge).expect("torn").kept_bytes, ends[0].0);
    let mut record = Vec::new();
    record.extend(3_u16.to_le_bytes());
    record.extend(1_u16.to_le_bytes());
    record.extend(1_u16.to_le_bytes());
    record.extend(*b"t");
    record.extend([1; 16]);
    record.extend(u16::MAX.to_le_bytes());
    let error = Record::decode(&record).expect_err("no partition is there");
    assert_eq!(error, "count 65535 does not fit");
    assert!(Record::decode(&[9, 0, 1, 0]).expect_err("type").contains("not known"));
    assert!(Record::decode(&[1, 0, 2, 0, 0, 0]).expect_err("version").contains("version 2"));
}
