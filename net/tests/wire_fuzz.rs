//! Hostile bytes at every entrance of the wire module: golden frames, mutated by a seeded generator
//! and cut at random, must neither panic nor take more memory than a small multiple of themselves,
//! and what is understood must read the same once written.
//!
//! `MILLRACE_FUZZ_RUNS` sets the frames per entrance (default 20,000; the long run has 1,000,000),
//! `MILLRACE_FUZZ_SEED` the seed. A failure prints the entrance, the run and the frame.

#[path = "wire/counting.rs"]
mod counting;
#[path = "wire/golden.rs"]
mod golden;

use counting::counted;
use millrace_engine::io::buf::{Chain, Pool, TailBuf};
use millrace_net::wire::{
    ApiKey, Encoder,
    entrances::{ENTRANCES, Entrance, Outcome},
};

const RUNS: u64 = 20_000;
const SEED: u64 = 0x4d69_6c6c_7261_6365;

/// What a frame may cost beyond its own length, in bytes: the text of an error, a spilled chain.
const MEMORY_BASE_BYTES: i64 = 8 << 10;

/// What a frame off the hot path may cost per byte of its own: its smallest elements take one byte
/// on the wire and a vector's slot in memory. The hot path has no such vectors.
const MEMORY_FACTOR_TYPED: i64 = 76;

/// Splitmix64: small, seeded, good enough to pick mutations.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, or 0 when there is none.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits fit") % bound.max(1)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

const WORDS: [i32; 8] = [-1, -2, 0, 1, i32::MAX, i32::MIN, 0x7fff_0000, 0x00ff_ffff];
const BYTES: [u8; 6] = [0x00, 0x01, 0x7f, 0x80, 0xff, 0xfe];

fn mutate(frame: &mut Vec<u8>, random: &mut Random, other: &[u8]) {
    let at = random.below(frame.len());
    let length = random.below(16).min(frame.len() - at);
    match random.below(9) {
        0 => frame.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (at % 8)),
        1 => {
            let value = random.of(&BYTES);
            frame.iter_mut().skip(at).take(1).for_each(|byte| *byte = value);
        }
        2 => {
            let word = random.of(&WORDS).to_be_bytes();
            frame.iter_mut().skip(at).zip(word).for_each(|(byte, value)| *byte = value);
        }
        3 => drop(frame.drain(at..at + length)),
        4 => {
            let copy = frame[at..at + length].to_vec();
            drop(frame.splice(at..at, copy));
        }
        5 => frame.truncate(at),
        6 => {
            let (from, value) = (random.below(other.len()), random.below(64));
            let part = other.iter().copied().skip(from).take(value);
            drop(frame.splice(at..at, part.collect::<Vec<_>>()));
        }
        7 => {
            let varint = [0xff, 0xff, 0xff, 0xff, random.of(&[0x0f, 0x07, 0xff])];
            let end = (at + 1).min(frame.len());
            drop(frame.splice(at..end, varint));
        }
        _ => {
            let noise: Vec<u8> = (0..length).map(|_| random.byte()).collect();
            drop(frame.splice(at..at, noise));
        }
    }
}

/// The bytes as a chain of up to three slices.
fn chain_of(bytes: &[u8], random: &mut Random) -> Chain {
    let mut buffer = TailBuf::unpooled(bytes.len());
    buffer.append(bytes);
    let mut cuts = [random.below(bytes.len()), random.below(bytes.len())];
    cuts.sort_unstable();
    let mut chain = Chain::new();
    chain.push(buffer.slice(0..cuts[0]));
    chain.push(buffer.slice(cuts[0]..cuts[1]));
    chain.push(buffer.slice(cuts[1]..bytes.len()));
    chain
}

fn is_hot(key: ApiKey) -> bool {
    matches!(key, ApiKey::Produce | ApiKey::Fetch | ApiKey::ApiVersions)
}

/// Prints what was being tried when a check fails.
struct Report<'a> {
    entrance: &'a Entrance,
    seed: u64,
    run: u64,
    version: i16,
    frame: &'a [u8],
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (key, version) = (self.entrance.key, self.version);
            let hex: String = self.frame.iter().map(|byte| format!("{byte:02x}")).collect();
            eprintln!("{key:?} v{version} seed {} run {}: {hex}", self.seed, self.run);
        }
    }
}

fn number_from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn attack(entrance: &Entrance) {
    let frames = golden::frames(entrance.key, entrance.is_request);
    let seed = number_from_environment("MILLRACE_FUZZ_SEED", SEED);
    let side = u64::from(entrance.is_request);
    let key = u64::try_from(entrance.key.code()).expect("keys are positive");
    let mut random = Random(seed ^ (key * 2 + side));
    let mut encoder = Encoder::new(Pool::new(64 << 20));
    for run in 0..number_from_environment("MILLRACE_FUZZ_RUNS", RUNS) {
        let base = &frames[random.below(frames.len())];
        let other = &frames[random.below(frames.len())];
        let mut frame = base.bytes.clone();
        for _ in 0..=random.below(4) {
            mutate(&mut frame, &mut random, &other.bytes);
        }
        let chain = chain_of(&frame, &mut random);
        let version = base.version;
        let _report = Report { entrance, seed, run, version, frame: &frame };
        check(entrance, &mut encoder, &chain, version);
    }
}

fn check(entrance: &Entrance, encoder: &mut Encoder, frame: &Chain, version: i16) {
    let (outcome, counts) = counted(|| (entrance.pass)(encoder, frame, version));
    let factor = if is_hot(entrance.key) { 1 } else { MEMORY_FACTOR_TYPED };
    let length = i64::try_from(frame.len()).expect("a small frame");
    let bound = MEMORY_BASE_BYTES + factor * length;
    assert!(counts.peak <= bound, "{counts:?} for {length} bytes");
    match outcome {
        Outcome::Refused(_) => {}
        Outcome::Unwritable(error) => assert!(!is_hot(entrance.key), "{error}"),
        Outcome::Written(written) => {
            let body = written.sub(4..written.len());
            match (entrance.pass)(encoder, &body, version) {
                Outcome::Written(again) => assert_eq!(again.to_vec(), written.to_vec()),
                other => panic!("what was written is not understood: {other:?}"),
            }
        }
    }
}

#[test]
fn hostile_requests_off_the_hot_path() {
    ENTRANCES.iter().filter(|one| one.is_request && !is_hot(one.key)).for_each(attack);
}

#[test]
fn hostile_responses_off_the_hot_path() {
    ENTRANCES.iter().filter(|one| !one.is_request && !is_hot(one.key)).for_each(attack);
}

#[test]
fn hostile_requests_on_the_hot_path() {
    ENTRANCES.iter().filter(|one| one.is_request && is_hot(one.key)).for_each(attack);
}

#[test]
fn hostile_responses_on_the_hot_path() {
    ENTRANCES.iter().filter(|one| !one.is_request && is_hot(one.key)).for_each(attack);
}
