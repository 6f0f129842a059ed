//! The records that every client produces and reads back.
//!
//! Owns the mix of sizes, keys, headers and times, the split into runs (codec by acks mode), and
//! what a client cannot say ([`Profile`]). Does not know brokers or clients' programs. The same
//! seed, record count and base time give the same corpus; each lane (topic and partition) keeps
//! the order of the corpus.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::path::Path;

use crate::frames;

/// Partitions of each topic.
pub const PARTITIONS: i32 = 6;
/// The codecs by Kafka's names, in the order of the runs.
pub const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
/// Runs: each codec with acks 0, acks 1, acks all, and acks all with idempotence.
pub const RUNS: usize = CODECS.len() * 4;
/// Topic of every acknowledged run; the run of acks 0 with codec `c` has topic `c + 1` for
/// itself, because two connections without acknowledgements have no order between them.
pub const ACKED_TOPIC: u8 = 0;
/// Topics of one client.
pub const TOPICS: u8 = 6;

const HOUR_MS: i64 = 3_600_000;
const LARGE_MIN_BYTES: u64 = 800 * 1024 + 1;
const LARGE_MAX_BYTES: u64 = 900 * 1024;

/// One record, without its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Partition that the client is told to send it to.
    pub partition: i32,
    /// Create time, milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Key; `None` is Kafka's null.
    pub key: Option<Vec<u8>>,
    /// Value; `None` is Kafka's null.
    pub value: Option<Vec<u8>>,
    /// Headers in order; keys may repeat.
    pub headers: Vec<Header>,
}

/// One header: key and value, where `None` is Kafka's null.
pub type Header = (Vec<u8>, Option<Vec<u8>>);

impl Record {
    /// Writes the record as clients read it from the corpus file.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.partition.to_be_bytes())?;
        self.write_content(out)
    }

    /// Writes all but the partition: the form in which a dump repeats what was read.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn write_content(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.timestamp_ms.to_be_bytes())?;
        frames::put_field(out, self.key.as_deref())?;
        frames::put_field(out, self.value.as_deref())?;
        frames::put_count(out, self.headers.len())?;
        for (key, value) in &self.headers {
            frames::put_field(out, Some(key))?;
            frames::put_field(out, value.as_deref())?;
        }
        Ok(())
    }

    /// Reads what [`Record::write_content`] wrote.
    ///
    /// # Errors
    /// The error of the reader, or a file that is cut or malformed.
    pub fn read_content(partition: i32, input: &mut impl Read) -> io::Result<Self> {
        let timestamp_ms = frames::get_i64(input)?;
        let key = frames::get_field(input)?;
        let value = frames::get_field(input)?;
        let mut headers = Vec::new();
        for _ in 0..frames::get_count(input)? {
            let key = frames::get_field(input)?;
            let key = key.ok_or_else(|| io::Error::other("a header without a key"))?;
            headers.push((key, frames::get_field(input)?));
        }
        Ok(Self { partition, timestamp_ms, key, value, headers })
    }
}

/// When the broker has a record for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// No answer: `acks=0`.
    None,
    /// `acks=1`.
    Leader,
    /// `acks=all`.
    All,
}

impl Acks {
    /// The value of the setting `acks`.
    #[must_use]
    pub fn setting(self) -> &'static str {
        match self {
            Self::None => "0",
            Self::Leader => "1",
            Self::All => "all",
        }
    }
}

/// Neighbouring records of the corpus that go out through one producer.
#[derive(Clone, Debug)]
pub struct Run {
    /// Codec by Kafka's name.
    pub codec: &'static str,
    /// Acks mode.
    pub acks: Acks,
    /// Whether the producer is idempotent (`acks=all` only).
    pub idempotent: bool,
    /// Topic index, see [`ACKED_TOPIC`].
    pub topic: u8,
    /// Indexes of its records in the corpus.
    pub records: Range<usize>,
}

/// What a client can put into a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Headers whose value is null.
    pub null_headers: bool,
    /// Records whose key and value are both null.
    pub null_records: bool,
    /// Only what `kcat -P` can say: the same headers for all records of a process, no timestamps,
    /// and per process either only null or only empty keys and values.
    pub kcat: bool,
}

impl Profile {
    /// A client that can say everything.
    pub const FULL: Self = Self { null_headers: true, null_records: true, kcat: false };

    /// Whether the records keep the create time that the corpus gives them.
    #[must_use]
    pub fn has_timestamps(self) -> bool {
        !self.kcat
    }

    fn adapt(self, run: usize, record: &mut Record) {
        if !self.null_headers {
            for (_, value) in &mut record.headers {
                value.get_or_insert_with(Vec::new);
            }
        }
        if !self.null_records && record.value.is_none() {
            record.key.get_or_insert_with(Vec::new);
        }
        if self.kcat {
            let partition = record.partition.to_string().into_bytes();
            record.headers = vec![
                (b"run".to_vec(), Some(run.to_string().into_bytes())),
                (b"partition".to_vec(), Some(partition)),
            ];
            for field in [&mut record.key, &mut record.value] {
                if field.as_ref().is_none_or(Vec::is_empty) {
                    *field = (!kcat_says_null(record.partition)).then(Vec::new);
                }
            }
        }
    }
}

/// Whether kcat runs with `-Z` for this partition, which turns empty keys and values into nulls.
#[must_use]
pub fn kcat_says_null(partition: i32) -> bool {
    partition % 2 == 0
}

/// Size and content of a corpus.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Records over all runs; at least one per run.
    pub records: usize,
    /// Seed of all that is random.
    pub seed: u64,
    /// Start of the run, milliseconds since 1970; the create times lie in the two hours before,
    /// so that no broker takes them for expired or for the future.
    pub now_ms: i64,
}

/// All records of one client with their runs.
pub struct Corpus {
    /// The records, run after run.
    pub records: Vec<Record>,
    /// The runs in the order in which they are produced.
    pub runs: Vec<Run>,
}

impl Corpus {
    /// Makes the corpus of `shape` with what `profile` allows.
    #[must_use]
    pub fn new(shape: Shape, profile: Profile) -> Self {
        let mut random = Random(shape.seed);
        let mut corpus = Self { records: Vec::with_capacity(shape.records), runs: Vec::new() };
        for run in 0..RUNS {
            let first = corpus.records.len();
            let count = (shape.records * (run + 1) / RUNS - first).max(1);
            for size in sizes(count, &mut random) {
                let mut record = make_record(size, shape.now_ms, &mut random);
                profile.adapt(run, &mut record);
                corpus.records.push(record);
            }
            corpus.runs.push(describe_run(run, first..corpus.records.len()));
        }
        corpus
    }

    /// Writes the corpus file.
    ///
    /// # Errors
    /// The error of the file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        for record in &self.records {
            record.write(&mut out)?;
        }
        out.flush()
    }

    /// Indexes of the records of one topic and partition, in order.
    #[must_use]
    pub fn lane(&self, topic: u8, partition: i32) -> Vec<usize> {
        let runs = self.runs.iter().filter(|run| run.topic == topic);
        runs.flat_map(|run| run.records.clone())
            .filter(|&index| self.records.get(index).is_some_and(|r| r.partition == partition))
            .collect()
    }
}

/// Reads corpus files, for the clients that are part of this program.
pub struct CorpusReader(BufReader<File>);

impl CorpusReader {
    /// Opens the corpus file at `path`.
    ///
    /// # Errors
    /// The error of the file.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(BufReader::with_capacity(1 << 20, File::open(path)?)))
    }

    /// The next record in the order of the corpus.
    ///
    /// # Errors
    /// The error of the file, its end included.
    pub fn next_record(&mut self) -> io::Result<Record> {
        let partition = frames::get_i32(&mut self.0)?;
        Record::read_content(partition, &mut self.0)
    }
}

fn describe_run(run: usize, records: Range<usize>) -> Run {
    let codec = run / 4;
    let (acks, idempotent) = match run % 4 {
        0 => (Acks::None, false),
        1 => (Acks::Leader, false),
        2 => (Acks::All, false),
        _ => (Acks::All, true),
    };
    let own = u8::try_from(codec + 1).unwrap_or(u8::MAX);
    let topic = if acks == Acks::None { own } else { ACKED_TOPIC };
    Run { codec: CODECS.get(codec).copied().unwrap_or("none"), acks, idempotent, topic, records }
}

/// Value sizes of one run, shuffled: one in a thousand up to 900 KiB and the first of these above
/// 800 KiB, 99 in a thousand up to 32 KiB, the rest up to 1 KiB. Inside a class small sizes are
/// likelier, which keeps 100,000 records near 120 MB.
fn sizes(count: usize, random: &mut Random) -> Vec<usize> {
    let mut sizes = Vec::with_capacity(count);
    for index in 0..count {
        let size = match index * 1000 / count {
            0 if index == 0 => random.between(LARGE_MIN_BYTES, LARGE_MAX_BYTES),
            0 => random.skewed(32 * 1024 + 1, LARGE_MAX_BYTES),
            1..=99 => random.skewed(1025, 32 * 1024),
            _ => random.skewed(0, 1024),
        };
        sizes.push(usize::try_from(size).unwrap_or(0));
    }
    for index in (1..count).rev() {
        sizes.swap(index, random.below(index + 1));
    }
    sizes
}

fn make_record(size: usize, now_ms: i64, random: &mut Random) -> Record {
    let partition = i32::try_from(random.below(6)).unwrap_or(0);
    let age_ms = i64::try_from(random.between(HOUR_MS.unsigned_abs(), 2 * HOUR_MS.unsigned_abs()));
    let value = match random.below(50) {
        0 if size <= 1024 => None,
        1 if size <= 1024 => Some(Vec::new()),
        _ => Some(make_value(size, random)),
    };
    Record {
        partition,
        timestamp_ms: now_ms - age_ms.unwrap_or(HOUR_MS),
        key: make_key(random),
        value,
        headers: make_headers(random),
    }
}

fn make_key(random: &mut Random) -> Option<Vec<u8>> {
    match random.below(20) {
        0 | 1 => None,
        2 => Some(Vec::new()),
        3..=6 => {
            let length = 1 + random.below(40);
            Some(random.bytes(length))
        }
        _ => Some(format!("key-{}", random.below(10_000)).into_bytes()),
    }
}

/// Half of the values are words, which every codec shrinks, half are noise, which none does.
fn make_value(size: usize, random: &mut Random) -> Vec<u8> {
    const WORDS: [&str; 8] =
        ["water ", "wheel ", "stone ", "grain ", "flour ", "sluice ", "größe ", "\0\n\r\t,=; "];
    if random.below(2) == 0 {
        return random.bytes(size);
    }
    let mut value = Vec::with_capacity(size + 8);
    while value.len() < size {
        let word = WORDS.get(random.below(WORDS.len())).copied().unwrap_or("mill ");
        value.extend_from_slice(word.as_bytes());
    }
    value.truncate(size);
    value
}

/// Seven records in ten have no headers. A repeated key directly follows the first, because a
/// client whose headers are a map of lists (kafkajs) can say no other order.
fn make_headers(random: &mut Random) -> Vec<Header> {
    if random.below(10) < 7 {
        return Vec::new();
    }
    let mut headers = vec![(b"trace".to_vec(), Some(random.bytes(16)))];
    if random.below(2) == 0 {
        headers.push((b"tag".to_vec(), Some(b"first".to_vec())));
        headers.push((b"tag".to_vec(), Some(b"second".to_vec())));
    }
    match random.below(4) {
        0 => headers.push((b"empty".to_vec(), Some(Vec::new()))),
        1 => headers.push((b"null".to_vec(), None)),
        2 => headers.push(("größe".as_bytes().to_vec(), Some("naïve".as_bytes().to_vec()))),
        _ => {
            let length = 1 + random.below(500);
            headers.push((b"blob".to_vec(), Some(random.bytes(length))));
        }
    }
    headers
}

/// SplitMix64: repeatable on every machine, which is all that is asked of it.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound as u64)).unwrap_or(0)
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// Between `low` and `high` with the mean at a fifth of the span: `u^4` for `u` in 0 to 1.
    fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let u = self.next() % 1025;
        low + ((high - low) * (u * u / 1024) / 1024) * (u * u / 1024) / 1024
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { records: 100_000, seed: 1, now_ms: 1_800_000_000_000 };

    fn size(record: &Record) -> usize {
        record.value.as_ref().map_or(0, Vec::len)
    }

    #[test]
    fn the_mix_is_the_promised_one() {
        let corpus = Corpus::new(SHAPE, Profile::FULL);
        let count = |what: &dyn Fn(&Record) -> bool| {
            corpus.records.iter().filter(|record| what(record)).count()
        };
        assert_eq!(corpus.records.len(), 100_000);
        assert_eq!(count(&|r| size(r) <= 1024), 90_000);
        assert_eq!(count(&|r| (1025..=32 * 1024).contains(&size(r))), 9_900);
        assert_eq!(count(&|r| (32 * 1024 + 1..=900 * 1024).contains(&size(r))), 100);
        assert!(count(&|r| size(r) > 800 * 1024) >= RUNS);
        let volume: usize = corpus.records.iter().map(size).sum();
        assert!((80 << 20..150 << 20).contains(&volume), "{volume} bytes");
        assert!(count(&|r| r.value.is_none()) > 1000);
        assert!(count(&|r| r.key.is_none() && r.value.is_none()) > 100);
        assert!(count(&|r| r.headers.iter().any(|(_, value)| value.is_none())) > 1000);
        assert!(count(&|r| r.headers.windows(2).any(|pair| pair[0].0 == pair[1].0)) > 1000);
    }

    #[test]
    fn every_codec_meets_every_acks_mode_in_every_partition() {
        let corpus = Corpus::new(SHAPE, Profile::FULL);
        assert_eq!(corpus.runs.len(), RUNS);
        for run in &corpus.runs {
            let records = &corpus.records[run.records.clone()];
            assert_eq!(records.len(), 5000);
            assert!(records.iter().any(|record| size(record) > 800 * 1024));
            for partition in 0..PARTITIONS {
                assert!(records.iter().any(|record| record.partition == partition));
            }
        }
    }

    #[test]
    fn a_seed_makes_one_corpus() {
        let shape = Shape { records: 2000, ..SHAPE };
        let first = Corpus::new(shape, Profile::FULL);
        assert_eq!(first.records, Corpus::new(shape, Profile::FULL).records);
        let other = Corpus::new(Shape { seed: 2, ..shape }, Profile::FULL);
        assert_ne!(first.records, other.records);
    }
}
