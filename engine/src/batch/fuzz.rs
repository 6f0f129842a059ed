//! Random damage at every entrance of untrusted bytes: no panic, bounded output, sound answers.
//!
//! A fuzz loop that needs no tool but the stable compiler. The corpus is the fixtures. Each test
//! runs `MILLRACE_FUZZ_RUNS` times (a few thousand unless set) from `MILLRACE_FUZZ_SEED`; a failure
//! prints the seed of its run, which as `MILLRACE_FUZZ_SEED` with one run repeats it.

use std::{env, path::Path};

use super::*;
use crate::{
    io::buf::{Chain, Slice},
    types::Offset,
};

const NOW_MS: i64 = 1_700_000_000_000;

/// `SplitMix64`: each run has a generator of its own, so one number repeats it.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Less than `bound`; 0 for 0.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound.max(1) as u64)).expect("less than a usize")
    }

    fn chance(&mut self, in_how_many: usize) -> bool {
        self.below(in_how_many) == 0
    }

    fn byte(&mut self) -> u8 {
        let [byte, ..] = self.next().to_le_bytes();
        byte
    }

    fn bytes(&mut self, bound: usize) -> Vec<u8> {
        let length = self.below(bound);
        (0..length).map(|_| self.byte()).collect()
    }

    fn codec(&mut self) -> Codec {
        Codec::ALL[self.below(Codec::ALL.len())]
    }
}

/// Names the run when the test fails in it.
struct Run(u64);

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat with MILLRACE_FUZZ_RUNS=1 MILLRACE_FUZZ_SEED={}", self.0);
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn fuzz(mut run: impl FnMut(&mut Random)) {
    let first = number("MILLRACE_FUZZ_SEED", 1);
    for seed in first..first + number("MILLRACE_FUZZ_RUNS", 3000) {
        let _named = Run(seed);
        run(&mut Random(seed));
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/batch/fixtures");
    let mut batches = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the fixtures are in the repository") {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|extension| extension == "batch") {
            batches.push(std::fs::read(path).expect("readable"));
        }
    }
    // In an order that no file system decides, so that a seed means the same everywhere.
    batches.sort();
    batches
}

/// One to four changes of the kinds that break parsers.
fn damage(random: &mut Random, bytes: &mut Vec<u8>, from: usize) {
    for _ in 0..1 + random.below(4) {
        let at = from.min(bytes.len()) + random.below(bytes.len().saturating_sub(from));
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.byte(),
            2 => bytes.truncate(at),
            3 => bytes.insert(at, random.byte()),
            4 if at < bytes.len() => drop(bytes.remove(at)),
            5 => {
                let edges = [0, 1, 0x7F, 0x80, 0xFF];
                let edge = edges[random.below(edges.len())];
                let length = random.below(9);
                bytes.iter_mut().skip(at).take(length).for_each(|byte| *byte = edge);
            }
            _ => {
                let end = (at + random.below(64)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                let to = from.min(bytes.len()) + random.below(bytes.len().saturating_sub(from));
                bytes.splice(to..to, part);
            }
        }
    }
}

/// Gives damaged bytes the length and CRC that let them past the first checks.
fn mend(bytes: &mut [u8]) {
    let counted = bytes.len().saturating_sub(LENGTH_PREFIX_BYTES);
    let Some((head, payload)) = bytes.split_first_chunk_mut::<HEADER_BYTES>() else { return };
    let mut header = Header::parse(head);
    header.batch_length = i32::try_from(counted).expect("small");
    header.crc = checksum(&header.encode(), [&*payload]);
    *head = header.encode();
}

fn random_slices(random: &mut Random, bytes: &[u8]) -> Chain {
    let mut chain = Chain::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let most = if random.chance(2) { rest.len() } else { 40 };
        let (part, behind) = rest.split_at((1 + random.below(most)).min(rest.len()));
        chain.push(Slice::copy_of(part));
        rest = behind;
    }
    chain
}

fn random_rules(random: &mut Random) -> Rules {
    Rules {
        compacted: random.chance(3),
        timestamp_type: if random.chance(3) {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        },
        timestamp_before_max_ms: if random.chance(3) { 1000 } else { i64::MAX },
        strict: random.chance(2),
        decompressed_cap_bytes: if random.chance(3) { 1000 } else { 1 << 20 },
        ..Rules::default()
    }
}

#[test]
fn headers() {
    fuzz(|random| {
        let mut bytes = [0; HEADER_BYTES];
        bytes.iter_mut().for_each(|byte| *byte = random.byte());
        if random.chance(2) {
            bytes[random.below(HEADER_BYTES)..].fill(0xFF);
        }
        let header = Header::parse(&bytes);
        assert_eq!(header.encode(), bytes);
        assert!(header.next_offset() >= header.last_offset());
        assert!(header.last_sequence() >= -1);
        assert!(header.size_bytes() >= header.payload_bytes());
        if header.is_plausible() {
            assert_eq!(header.size_bytes(), header.payload_bytes() + HEADER_BYTES);
        }
    });
}

#[test]
fn batches() {
    let corpus = corpus();
    let mut accepted_count = 0_u64;
    fuzz(|random| {
        let mut bytes = corpus[random.below(corpus.len())].clone();
        let from = if random.chance(2) { HEADER_BYTES } else { 0 };
        damage(random, &mut bytes, from);
        if !random.chance(8) {
            mend(&mut bytes);
        }
        let rules = random_rules(random);
        let chain = random_slices(random, &bytes);
        let Ok(accepted) = check(&chain, &rules, NOW_MS) else { return };
        accepted_count += 1;
        let header = accepted.header;
        assert!(header.is_plausible());
        assert_eq!(accepted.size_bytes(), bytes.len());
        assert_eq!(accepted.payload.to_vec(), bytes[HEADER_BYTES..]);
        assert_eq!(header.crc, checksum(&header.encode(), [&bytes[HEADER_BYTES..]]));
        if random.chance(8) {
            changes_codec_or_refuses(random, &accepted, &rules);
        }
    });
    assert!(accepted_count > 0, "the damage must leave something to accept");
}

fn changes_codec_or_refuses(random: &mut Random, accepted: &Accepted, rules: &Rules) {
    let codec = random.codec();
    let Ok(made) = recompress(accepted, codec, None, rules) else { return };
    let mut whole = Chain::from(Slice::copy_of(&made.header.encode()));
    made.payload.slices().iter().for_each(|slice| whole.push(slice.clone()));
    let lenient = Rules { decompressed_cap_bytes: 1 << 20, ..Rules::default() };
    match check(&whole, &lenient, NOW_MS) {
        Ok(again) => assert_eq!(again.header.codec(), Some(codec)),
        // A stored batch may say LogAppendTime or carry a time from the future; clients may not.
        Err(Rejection::InvalidTimestamp { .. }) => {}
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn records() {
    let corpus = corpus();
    let mut header = Header::from_prefix(&corpus[0]).expect("a header");
    let seeds: Vec<Vec<u8>> = corpus
        .iter()
        .filter(|batch| {
            Header::from_prefix(batch).is_some_and(|header| header.codec() == Some(Codec::None))
        })
        .map(|batch| batch[HEADER_BYTES..].to_vec())
        .collect();
    fuzz(|random| {
        let mut bytes =
            if random.chance(8) { random.bytes(200) } else { seeds[random.below(3)].clone() };
        damage(random, &mut bytes, 0);
        header.record_count = match random.below(4) {
            0 => i32::MAX,
            1 => -1,
            _ => i32::try_from(random.below(6)).expect("small"),
        };
        let (mut walked, mut seen_bytes, mut failed) = (0, 0, false);
        for record in Records::new(&header, &bytes) {
            assert!(!failed, "nothing follows an error");
            let Ok(record) = record else {
                failed = true;
                continue;
            };
            walked += 1;
            seen_bytes += 7 + record.key.map_or(0, <[u8]>::len);
            seen_bytes += record.value.map_or(0, <[u8]>::len);
            let declared = record.headers.len();
            let pairs: Vec<_> = record.headers.collect();
            assert_eq!(pairs.len(), declared);
            seen_bytes += pairs
                .iter()
                .map(|(key, value)| 2 + key.len() + value.map_or(0, <[u8]>::len))
                .sum::<usize>();
        }
        assert!(seen_bytes <= bytes.len(), "nothing is seen that is not there");
        assert!(failed || walked == header.record_count.max(0));
        let found = first_at_or_after(&header, &bytes, NOW_MS, Offset(0));
        assert!(failed || found.is_ok());
        assert_eq!(first_with_max_timestamp(&header, &bytes).is_err(), failed);
    });
}

#[test]
fn compressed() {
    let corpus = corpus();
    let mut out = Vec::new();
    fuzz(|random| {
        let batch = &corpus[random.below(corpus.len())];
        let header = Header::from_prefix(batch).expect("a header");
        let mut bytes = batch[HEADER_BYTES..].to_vec();
        let mut codec = header.codec().expect("known");
        if random.chance(16) {
            (codec, bytes) = (random.codec(), random.bytes(300));
        }
        damage(random, &mut bytes, 0);
        let cap_bytes = if random.chance(2) { random.below(1000) } else { 1 << 20 };
        if random.chance(64) {
            out = Vec::new();
        }
        let before = out.capacity();
        let result = decompress(codec, &bytes, cap_bytes, &mut out);
        if result.is_ok() {
            assert!(out.len() <= cap_bytes);
        }
        // Reading into a vector asks for a little room, then at most doubles what it holds.
        assert!(out.capacity() <= before.max(2 * cap_bytes + 64), "{codec:?}");
    });
}
