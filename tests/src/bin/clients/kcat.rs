//! kcat as a client: one process per run and partition to produce, few to read.
//!
//! Owns the translation between corpus and kcat's command line, delimiters and format string.
//! What kcat cannot say at all is the business of `Profile::kcat`.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::Outcome;
use crate::corpus::{ACKED_TOPIC, CorpusReader, Header, PARTITIONS, Record, kcat_says_null};
use crate::dump::{DumpWriter, Entry, Phase};
use crate::job::{Job, JobRun, MIDDLE_RECORDS, TAIL_RECORDS};

const RECORD_END: &str = "<|end of record|>";
const KEY_END: &str = "<|end of key|>";
/// Lengths first, so that any byte may stand in key and value.
const FORMAT: &str = r"%p %o %T %K %S %h\n%k%s\n";

/// Produces all runs of `job` and dumps the acknowledgements.
///
/// # Errors
/// kcat fails, or reports too little.
pub fn produce(job: &Job, dump: &Path) -> Outcome<()> {
    let mut corpus = CorpusReader::open(&job.corpus)?;
    let mut out = DumpWriter::create(dump)?;
    for (number, run) in job.runs.iter().enumerate() {
        let mut lanes: HashMap<i32, Lane> = HashMap::new();
        for index in run.first..run.first + run.count {
            let record = corpus.next_record()?;
            lanes.entry(record.partition).or_default().push(index, &record);
        }
        // The processes of one run have nothing to do with each other: side by side.
        let started: Vec<_> = lanes
            .into_iter()
            .map(|(partition, lane)| (partition, start(job, number, run, partition, lane)))
            .collect();
        for (partition, lane) in started {
            let (process, indexes) = lane?;
            let offsets = delivered(process)?;
            if offsets.len() != indexes.len() {
                let (got, sent) = (offsets.len(), indexes.len());
                return Err(format!("kcat: {got} of {sent} delivery reports").into());
            }
            if run.acks == "0" {
                continue;
            }
            for (index, offset) in indexes.into_iter().zip(offsets) {
                out.put(&Entry::Acked { index, partition, offset })?;
            }
        }
    }
    Ok(out.finish()?)
}

/// Reads by partition and offset and dumps what came.
///
/// # Errors
/// kcat fails, or prints what its format string does not say.
pub fn consume(job: &Job, dump: &Path) -> Outcome<()> {
    let mut out = DumpWriter::create(dump)?;
    for topic in 0..u8::try_from(job.topics.len())? {
        read(job, Phase::Beginning, topic, &["-o", "beginning", "-e"], &mut out)?;
    }
    for partition in 0..PARTITIONS {
        let count = job.lane(ACKED_TOPIC, partition);
        let partition = partition.to_string();
        let tail = format!("-{TAIL_RECORDS}");
        let words = ["-p", &partition, "-o", &tail, "-e"];
        read(job, Phase::Tail, ACKED_TOPIC, &words, &mut out)?;
        let middle = (count / 2).to_string();
        let limit = MIDDLE_RECORDS.min(count - count / 2).to_string();
        let words = ["-p", &partition, "-o", &middle, "-c", &limit];
        read(job, Phase::Middle, ACKED_TOPIC, &words, &mut out)?;
    }
    for partition in 0..PARTITIONS {
        let low = query(job, partition, -2)?;
        let high = query(job, partition, -1)?;
        out.put(&Entry::Ends { topic: ACKED_TOPIC, partition, low, high })?;
    }
    Ok(out.finish()?)
}

/// The records of one run and partition as kcat's input.
#[derive(Default)]
struct Lane {
    indexes: Vec<usize>,
    input: Vec<u8>,
}

impl Lane {
    fn push(&mut self, index: usize, record: &Record) {
        self.indexes.push(index);
        self.input.extend_from_slice(record.key.as_deref().unwrap_or_default());
        self.input.extend_from_slice(KEY_END.as_bytes());
        self.input.extend_from_slice(record.value.as_deref().unwrap_or_default());
        self.input.extend_from_slice(RECORD_END.as_bytes());
    }
}

fn kcat(job: &Job) -> Command {
    let mut command = Command::new("kcat");
    command.args(["-b", &job.bootstrap]).stdin(Stdio::null());
    command
}

fn start(
    job: &Job,
    number: usize,
    run: &JobRun,
    partition: i32,
    lane: Lane,
) -> Outcome<(Child, Vec<usize>)> {
    let mut command = kcat(job);
    command.args(["-P", "-vv", "-t", job.topic(run.topic)?, "-p", &partition.to_string()]);
    command.args(["-X", &format!("acks={}", run.acks)]);
    command.args(["-X", &format!("compression.codec={}", run.codec)]);
    command.args(["-X", &format!("enable.idempotence={}", run.idempotent)]);
    command.args(["-H", &format!("run={number}"), "-H", &format!("partition={partition}")]);
    command.args(["-D", RECORD_END, "-K", KEY_END]);
    if kcat_says_null(partition) {
        command.arg("-Z");
    }
    let mut process =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut stdin = process.stdin.take().ok_or("kcat has no input")?;
    // A kcat that ends early closes the pipe; its exit code tells, so the write need not.
    thread::spawn(move || stdin.write_all(&lane.input));
    Ok((process, lane.indexes))
}

/// The offsets of the delivery reports in their order, which per partition is that of the input.
fn delivered(mut process: Child) -> Outcome<Vec<i64>> {
    let stderr = process.stderr.take().ok_or("kcat has no error output")?;
    let mut offsets = Vec::new();
    for line in BufReader::new(stderr).lines() {
        let line = line?;
        let Some((_, rest)) = line.split_once("Message delivered to partition ") else {
            if line.contains("ERROR") || line.contains("failed") {
                eprintln!("{line}");
            }
            continue;
        };
        let offset = rest.split_once("(offset ").and_then(|(_, rest)| rest.split_once(')'));
        let (offset, _) = offset.ok_or_else(|| format!("kcat: {line}"))?;
        offsets.push(offset.parse()?);
    }
    end(process)?;
    Ok(offsets)
}

fn read(job: &Job, phase: Phase, topic: u8, words: &[&str], out: &mut DumpWriter) -> Outcome<()> {
    let mut command = kcat(job);
    command.args(["-C", "-q", "-t", job.topic(topic)?, "-f", FORMAT]).args(words);
    let mut process = command.stdout(Stdio::piped()).spawn()?;
    let mut input = BufReader::new(process.stdout.take().ok_or("kcat has no output")?);
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let (offset, record) = parse(&line, &mut input)?;
        out.put(&Entry::Read { phase, topic, offset, record })?;
        line.clear();
    }
    end(process)
}

/// One record in [`FORMAT`]: `line` is its first line, the rest follows in `input`.
fn parse(line: &[u8], input: &mut impl Read) -> Outcome<(i64, Record)> {
    let line = std::str::from_utf8(line)?.trim_end_matches('\n');
    let mut words = line.splitn(6, ' ');
    let mut word = || words.next().ok_or_else(|| format!("kcat: {line:?}"));
    let (partition, offset) = (word()?.parse()?, word()?.parse()?);
    let timestamp_ms = word()?.parse()?;
    let (key, value): (i64, i64) = (word()?.parse()?, word()?.parse()?);
    let headers = parse_headers(word()?)?;
    let record = Record {
        partition,
        timestamp_ms,
        key: field(key, input)?,
        value: field(value, input)?,
        headers,
    };
    let mut newline = [0];
    input.read_exact(&mut newline)?;
    if newline != *b"\n" {
        return Err(format!("kcat: no end of record after {line:?}").into());
    }
    Ok((offset, record))
}

fn field(declared: i64, input: &mut impl Read) -> Outcome<Option<Vec<u8>>> {
    if declared == -1 {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let length = u64::try_from(declared)?;
    if input.take(length).read_to_end(&mut bytes)? as u64 != length {
        return Err("kcat: a cut field".into());
    }
    Ok(Some(bytes))
}

/// `name=value,name=value`; the headers of this profile hold neither `,` nor `=`.
fn parse_headers(text: &str) -> Outcome<Vec<Header>> {
    let mut headers = Vec::new();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("kcat: header {pair}"))?;
        headers.push((key.as_bytes().to_vec(), Some(value.as_bytes().to_vec())));
    }
    Ok(headers)
}

/// An end of a partition by the special timestamps -1 (next offset) and -2 (earliest).
fn query(job: &Job, partition: i32, timestamp: i64) -> Outcome<i64> {
    let topic = job.topic(ACKED_TOPIC)?;
    let mut command = kcat(job);
    command.args(["-Q", "-t", &format!("{topic}:{partition}:{timestamp}")]);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let offset = text.trim().rsplit(' ').next().and_then(|word| word.parse().ok());
    Ok(offset
        .ok_or_else(|| format!("kcat -Q: {text}{}", String::from_utf8_lossy(&output.stderr)))?)
}

fn end(mut process: Child) -> Outcome<()> {
    let status = process.wait()?;
    if status.success() { Ok(()) } else { Err(format!("kcat ended with {status}").into()) }
}
