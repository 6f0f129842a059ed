//! The `rdkafka` crate (librdkafka from source) as a client.
//!
//! Also lends the runner its topic creation and reads what kafkajs produced.

use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, DeliveryResult, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{Offset, TopicPartitionList};

use crate::Outcome;
use crate::corpus::{ACKED_TOPIC, CorpusReader, PARTITIONS, Record};
use crate::dump::{DumpWriter, Entry, Phase};
use crate::job::{Job, JobRun, MIDDLE_RECORDS, TAIL_RECORDS};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Creates the topics of `job` with six partitions each.
///
/// # Errors
/// The broker's or the client's.
pub fn create_topics(job: &Job) -> Outcome<()> {
    let admin: AdminClient<DefaultClientContext> = config(job).create()?;
    let topics = job.topics.iter();
    let topics = topics.map(|name| NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(1)));
    let topics: Vec<_> = topics.collect();
    let options = AdminOptions::new().operation_timeout(Some(TIMEOUT));
    for result in wait_for(admin.create_topics(&topics, &options))? {
        result.map_err(|(topic, code)| format!("topic {topic} was not created: {code}"))?;
    }
    // Metadata may name a partition before its log is there (Apache Kafka does), and what comes
    // with acks=0 in between is lost without a word.
    for &(topic, partition, _) in &job.lanes {
        await_log(&admin, job.topic(topic)?, partition)?;
    }
    Ok(())
}

fn await_log(
    admin: &AdminClient<DefaultClientContext>,
    topic: &str,
    partition: i32,
) -> Outcome<()> {
    let asked = Instant::now();
    loop {
        match admin.inner().fetch_watermarks(topic, partition, TIMEOUT) {
            Ok((0, 0)) => return Ok(()),
            Ok(ends) => return Err(format!("new topic {topic} has the ends {ends:?}").into()),
            Err(error) if asked.elapsed() > TIMEOUT => return Err(error.into()),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Produces all runs of `job` and dumps the acknowledgements.
///
/// # Errors
/// The client's, or a record without a good delivery report.
pub fn produce(job: &Job, dump: &Path) -> Outcome<()> {
    let mut corpus = CorpusReader::open(&job.corpus)?;
    let mut out = DumpWriter::create(dump)?;
    for run in &job.runs {
        for entry in produce_run(job, run, &mut corpus)? {
            out.put(&entry)?;
        }
    }
    Ok(out.finish()?)
}

/// Reads by assign and seek and dumps what came.
///
/// # Errors
/// The client's, or records that do not come in time.
pub fn consume(job: &Job, dump: &Path) -> Outcome<()> {
    let mut settings = config(job);
    // The library wants a group id even for assign; no group is joined and nothing committed.
    settings.set("group.id", "assign-only").set("enable.auto.commit", "false");
    let consumer: BaseConsumer = settings.create()?;
    let mut out = DumpWriter::create(dump)?;
    let mut assignment = TopicPartitionList::new();
    for &(topic, partition, _) in &job.lanes {
        assignment.add_partition_offset(job.topic(topic)?, partition, Offset::Beginning)?;
    }
    consumer.assign(&assignment)?;
    let all = job.lanes.iter().map(|&(topic, partition, count)| (topic, partition, count));
    read(&consumer, job, Phase::Beginning, all.collect(), &mut out)?;
    let acked = job.topic(ACKED_TOPIC)?;
    for phase in [Phase::Tail, Phase::Middle] {
        let mut wanted = Vec::new();
        for partition in 0..PARTITIONS {
            let count = job.lane(ACKED_TOPIC, partition);
            let (start, records) = match phase {
                Phase::Middle => (count / 2, MIDDLE_RECORDS.min(count - count / 2)),
                _ => (count.saturating_sub(TAIL_RECORDS), TAIL_RECORDS.min(count)),
            };
            wanted.push((ACKED_TOPIC, partition, records));
            consumer.seek(acked, partition, Offset::Offset(i64::try_from(start)?), TIMEOUT)?;
        }
        read(&consumer, job, phase, wanted, &mut out)?;
    }
    for partition in 0..PARTITIONS {
        let (low, high) = consumer.fetch_watermarks(acked, partition, TIMEOUT)?;
        out.put(&Entry::Ends { topic: ACKED_TOPIC, partition, low, high })?;
    }
    Ok(out.finish()?)
}

fn produce_run(job: &Job, run: &JobRun, corpus: &mut CorpusReader) -> Outcome<Vec<Entry>> {
    let mut settings = config(job);
    settings.set("acks", &run.acks).set("compression.type", &run.codec);
    settings.set("enable.idempotence", run.idempotent.to_string());
    let producer: BaseProducer<Reports> = settings.create_with_context(Reports::default())?;
    let topic = job.topic(run.topic)?;
    for index in run.first..run.first + run.count {
        let record = corpus.next_record()?;
        send(&producer, topic, index, &record)?;
    }
    producer.flush(TIMEOUT)?;
    let mut reports = producer.context().0.lock().unwrap_or_else(PoisonError::into_inner);
    if reports.len() != run.count {
        return Err(format!("{} of {} delivery reports", reports.len(), run.count).into());
    }
    let mut entries = Vec::new();
    for report in reports.drain(..) {
        let (index, partition, offset) = report?;
        if run.acks != "0" {
            entries.push(Entry::Acked { index, partition, offset });
        }
    }
    Ok(entries)
}

fn send(
    producer: &BaseProducer<Reports>,
    topic: &str,
    index: usize,
    record: &Record,
) -> Outcome<()> {
    let mut message = BaseRecord::with_opaque_to(topic, index)
        .partition(record.partition)
        .timestamp(record.timestamp_ms);
    message.key = record.key.as_deref();
    message.payload = record.value.as_deref();
    let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
    for (key, value) in &record.headers {
        let key = std::str::from_utf8(key)?;
        headers = headers.insert(rdkafka::message::Header { key, value: value.as_ref() });
    }
    if !record.headers.is_empty() {
        message = message.headers(headers);
    }
    let mut waiting: BaseRecord<'_, [u8], [u8], usize> = message;
    loop {
        match producer.send(waiting) {
            Ok(()) => {
                producer.poll(Duration::ZERO);
                return Ok(());
            }
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                producer.poll(Duration::from_millis(10));
                waiting = back;
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}

/// Reads until each lane of `wanted` gave its number of records; a record above it is left out
/// while others are awaited, except that reading to the end (beginning, tail) takes all, so that
/// the comparison sees what is too much.
fn read(
    consumer: &BaseConsumer,
    job: &Job,
    phase: Phase,
    wanted: Vec<(u8, i32, usize)>,
    out: &mut DumpWriter,
) -> Outcome<()> {
    let mut missing: usize = wanted.iter().map(|lane| lane.2).sum();
    let mut wanted = wanted;
    let mut last = Instant::now();
    while missing > 0 {
        if last.elapsed() > TIMEOUT {
            return Err(format!("{phase:?}: {missing} records did not come").into());
        }
        let Some(message) = consumer.poll(Duration::from_millis(100)) else {
            continue;
        };
        let message = message?;
        last = Instant::now();
        let topic = job.topics.iter().position(|name| name == message.topic());
        let topic = u8::try_from(topic.ok_or("a record of an unknown topic")?)?;
        let lane = wanted.iter_mut().find(|lane| (lane.0, lane.1) == (topic, message.partition()));
        match lane {
            Some(lane) if lane.2 > 0 => {
                lane.2 -= 1;
                missing -= 1;
            }
            _ if phase == Phase::Middle => continue,
            _ => {}
        }
        let offset = message.offset();
        out.put(&Entry::Read { phase, topic, offset, record: to_record(&message) })?;
    }
    Ok(())
}

fn to_record(message: &BorrowedMessage<'_>) -> Record {
    let mut headers = Vec::new();
    if let Some(read) = message.headers() {
        for header in read.iter() {
            headers.push((header.key.as_bytes().to_vec(), header.value.map(<[u8]>::to_vec)));
        }
    }
    Record {
        partition: message.partition(),
        timestamp_ms: message.timestamp().to_millis().unwrap_or(-1),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers,
    }
}

/// Runs one future of the library to its end; the library completes it from a thread of its own.
fn wait_for<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

fn config(job: &Job) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &job.bootstrap);
    config
}

/// Collects delivery reports: index, partition and offset, or the error.
#[derive(Default)]
struct Reports(Mutex<Vec<Report>>);

type Report = Result<(usize, i32, i64), KafkaError>;

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, index: usize) {
        let report = match result {
            Ok(message) => Ok((index, message.partition(), message.offset())),
            Err((error, _)) => Err(error.clone()),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(report);
    }
}
