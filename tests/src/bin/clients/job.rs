//! The task sheet of one client: a text file with one fact per line, words split by spaces, so
//! that every language reads it in a few lines.
//!
//! Owns the format of the sheet. Does not know what clients do with it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::corpus::{self, Corpus, PARTITIONS, TOPICS};

/// Records that a client reads per partition after it seeks to the middle.
pub const MIDDLE_RECORDS: usize = 200;
/// Records before the end of a partition to which a client seeks to read its tail.
pub const TAIL_RECORDS: usize = 10;

/// What a client is told.
#[derive(Debug, Clone)]
pub struct Job {
    /// `host:port` of the broker.
    pub bootstrap: String,
    /// The corpus file.
    pub corpus: PathBuf,
    /// Topic names by topic index.
    pub topics: Vec<String>,
    /// The runs, in order.
    pub runs: Vec<JobRun>,
    /// Records per topic index and partition.
    pub lanes: Vec<(u8, i32, usize)>,
}

/// One run, see [`corpus::Run`].
#[derive(Debug, Clone)]
pub struct JobRun {
    /// Codec by Kafka's name.
    pub codec: String,
    /// `0`, `1` or `all`.
    pub acks: String,
    /// Whether the producer is idempotent.
    pub idempotent: bool,
    /// Topic index.
    pub topic: u8,
    /// Index of its first record.
    pub first: usize,
    /// Its records.
    pub count: usize,
}

impl Job {
    /// The sheet for `corpus`, which lies at `path`, under topic names that start with `prefix`.
    #[must_use]
    pub fn new(bootstrap: &str, path: &Path, prefix: &str, corpus: &Corpus) -> Self {
        let runs = corpus.runs.iter().map(|run| JobRun {
            codec: run.codec.to_owned(),
            acks: run.acks.setting().to_owned(),
            idempotent: run.idempotent,
            topic: run.topic,
            first: run.records.start,
            count: run.records.len(),
        });
        let topic_name = |topic| match topic {
            corpus::ACKED_TOPIC => format!("{prefix}-acked"),
            other => format!("{prefix}-unacked-{other}"),
        };
        let lanes = (0..TOPICS).flat_map(|topic| (0..PARTITIONS).map(move |p| (topic, p)));
        Self {
            bootstrap: bootstrap.to_owned(),
            corpus: path.to_owned(),
            topics: (0..TOPICS).map(topic_name).collect(),
            runs: runs.collect(),
            lanes: lanes.map(|(t, p)| (t, p, corpus.lane(t, p).len())).collect(),
        }
    }

    /// The sheet as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |words: std::fmt::Arguments<'_>| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{words}");
        };
        line(format_args!("bootstrap {}", self.bootstrap));
        line(format_args!("corpus {}", self.corpus.display()));
        line(format_args!("middle {MIDDLE_RECORDS}"));
        line(format_args!("tail {TAIL_RECORDS}"));
        for (index, name) in self.topics.iter().enumerate() {
            line(format_args!("topic {index} {name}"));
        }
        for (topic, partition, count) in &self.lanes {
            line(format_args!("lane {topic} {partition} {count}"));
        }
        for run in &self.runs {
            let JobRun { codec, acks, idempotent, topic, first, count } = run;
            line(format_args!("run {codec} {acks} {idempotent} {topic} {first} {count}"));
        }
        text
    }

    /// Reads a sheet.
    ///
    /// # Errors
    /// A line that [`Job::text`] does not write.
    pub fn parse(text: &str) -> Outcome<Self> {
        let mut job = Self {
            bootstrap: String::new(),
            corpus: PathBuf::new(),
            topics: Vec::new(),
            runs: Vec::new(),
            lanes: Vec::new(),
        };
        for line in text.lines() {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["bootstrap", address] => job.bootstrap = (*address).to_owned(),
                ["corpus", path] => job.corpus = PathBuf::from(path),
                ["middle" | "tail", _] => {}
                ["topic", _, name] => job.topics.push((*name).to_owned()),
                ["lane", topic, partition, count] => {
                    job.lanes.push((topic.parse()?, partition.parse()?, count.parse()?));
                }
                ["run", codec, acks, idempotent, topic, first, count] => job.runs.push(JobRun {
                    codec: (*codec).to_owned(),
                    acks: (*acks).to_owned(),
                    idempotent: idempotent.parse()?,
                    topic: topic.parse()?,
                    first: first.parse()?,
                    count: count.parse()?,
                }),
                _ => return Err(format!("job sheet: unknown line {line:?}").into()),
            }
        }
        Ok(job)
    }

    /// Name of the topic with this index.
    ///
    /// # Errors
    /// No such topic.
    pub fn topic(&self, topic: u8) -> Outcome<&str> {
        let name = self.topics.get(usize::from(topic));
        Ok(name.ok_or_else(|| format!("job sheet: no topic {topic}"))?)
    }

    /// Records in one lane; 0 when the sheet does not name it.
    #[must_use]
    pub fn lane(&self, topic: u8, partition: i32) -> usize {
        let lane = self.lanes.iter().find(|lane| (lane.0, lane.1) == (topic, partition));
        lane.map_or(0, |lane| lane.2)
    }
}
