//! `millrace consume`: records to standard output, as `kafka-console-consumer.sh` and kcat print
//! them. Without a group: partitions are read from offsets, nothing is committed.

mod format;
mod start;

use std::time::{Duration, Instant};

use clap::Args;
use format::Format;
use millrace_net::client::{
    config::ConsumerConfig,
    consumer::{Consumer, RecordView},
};
use start::Start;

use crate::{
    bootstrap::Bootstrap,
    failure::{Failure, Outcome},
    output::Output,
    settings,
};

/// Longest wait for records before output is flushed and limits are looked at.
const POLL_MS: u64 = 100;

/// Print records of a topic
#[derive(Debug, Args)]
pub struct Consume {
    #[command(flatten)]
    bootstrap: Bootstrap,
    /// Name of the topic
    #[arg(long)]
    topic: String,
    /// Only this partition; may be given several times. All if not given
    #[arg(long)]
    partition: Vec<i32>,
    /// Start with the first record that is still there
    #[arg(long, conflicts_with = "offset")]
    from_beginning: bool,
    /// Start at this offset, or at earliest, latest, -N (N records before the end), or
    /// timestamp:MS
    #[arg(long, allow_hyphen_values = true, value_name = "OFFSET")]
    offset: Option<Start>,
    /// Stop after this many records
    #[arg(long)]
    max_messages: Option<u64>,
    /// Stop when no record came for this long, in ms
    #[arg(long)]
    timeout_ms: Option<u64>,
    /// Stop at the end of every partition as it is now
    #[arg(long, short = 'e')]
    exit_at_end: bool,
    /// How to print a record: %t topic, %p partition, %o offset, %k key, %v value, %T timestamp,
    /// %h headers, %K and %S lengths of key and value; \n, \t, \xNN
    #[arg(long, short = 'f', value_name = "FORMAT")]
    format: Option<String>,
    /// Print the key in front of the value
    #[arg(long, conflicts_with = "format")]
    print_key: bool,
    /// Print the timestamp in front
    #[arg(long, conflicts_with = "format")]
    print_timestamp: bool,
    /// Print partition and offset in front
    #[arg(long, conflicts_with = "format")]
    print_offset: bool,
    /// Print the headers in front
    #[arg(long, conflicts_with = "format")]
    print_headers: bool,
    /// Between the fields of a record
    #[arg(long, default_value = "\t", conflicts_with = "format")]
    key_separator: String,
    /// How a null key or value is printed
    #[arg(long, default_value = "null")]
    null: String,
    /// read_uncommitted or read_committed
    #[arg(long)]
    isolation_level: Option<String>,
    /// print.key, print.timestamp, print.partition, print.offset, print.headers, key.separator,
    /// null.literal, as kafka-console-consumer takes them
    #[arg(long, value_name = "NAME=VALUE")]
    property: Vec<String>,
    /// A client setting under Kafka's name; may be given several times
    #[arg(long, visible_alias = "command-property", value_name = "NAME=VALUE")]
    consumer_property: Vec<String>,
}

/// How far reading has come, against where it is to stop.
struct Progress {
    left: Option<u64>,
    /// Per partition that is not done, its offset to stop at.
    ends: Option<Vec<(i32, i64)>>,
    last_record: Instant,
    idle_limit: Option<Duration>,
}

impl Consume {
    /// Does it.
    pub fn run(mut self) -> Outcome {
        self.apply_properties()?;
        let format = Format::parse(&self.format(), &self.null)?;
        let mut consumer = Consumer::connect(self.config()?)?;
        let partitions = self.partitions(&mut consumer)?;
        let assigned: Vec<(&str, i32)> =
            partitions.iter().map(|&partition| (self.topic.as_str(), partition)).collect();
        consumer.assign(&assigned);
        let start = self.offset.unwrap_or(if self.from_beginning {
            Start::Earliest
        } else {
            Start::Latest
        });
        for &partition in &partitions {
            start.seek(&mut consumer, &self.topic, partition)?;
        }
        let mut progress = self.progress(&mut consumer, &partitions)?;
        self.copy(&mut consumer, &format, &mut progress)
    }

    fn copy(&self, consumer: &mut Consumer, format: &Format, progress: &mut Progress) -> Outcome {
        let mut output = Output::new();
        let mut text = Vec::new();
        while !progress.is_done() {
            text.clear();
            let wait = Duration::from_millis(self.timeout_ms.unwrap_or(POLL_MS).min(POLL_MS));
            let count = consumer.poll_each(wait, &mut |record: &RecordView<'_>| {
                if progress.take(record) {
                    format.print(record, &mut text);
                }
            })?;
            output.bytes(&text)?;
            progress.look_at_positions(consumer, &self.topic)?;
            if count == 0 || output.is_watched() {
                output.flush()?;
            }
        }
        output.flush()
    }

    /// The format that the `--print-...` flags stand for.
    fn format(&self) -> String {
        if let Some(format) = &self.format {
            return format.clone();
        }
        let separator = self.key_separator.replace('%', "%%").replace('\\', "\\\\");
        let mut fields = Vec::new();
        if self.print_timestamp {
            fields.push("CreateTime:%T");
        }
        if self.print_offset {
            fields.push("Partition:%p");
            fields.push("Offset:%o");
        }
        if self.print_headers {
            fields.push("%h");
        }
        if self.print_key {
            fields.push("%k");
        }
        fields.push("%v");
        fields.join(&separator) + "\\n"
    }

    fn apply_properties(&mut self) -> Outcome {
        for property in std::mem::take(&mut self.property) {
            let (name, value) = settings::parse("--property", &property)?;
            let on = value == "true";
            match name.as_str() {
                "print.key" => self.print_key = on,
                "print.timestamp" => self.print_timestamp = on,
                "print.partition" | "print.offset" => self.print_offset |= on,
                "print.headers" => self.print_headers = on,
                "print.value" if on => {}
                "key.separator" => self.key_separator = value,
                "null.literal" => self.null = value,
                _ => return Err(Failure::line(format!("--property {name} is not known here"))),
            }
        }
        Ok(())
    }

    fn config(&self) -> Outcome<ConsumerConfig> {
        let mut config = ConsumerConfig::new(self.bootstrap.servers());
        config.allow_auto_create_topics = false;
        if let Some(level) = &self.isolation_level {
            config.set("isolation.level", level)?;
        }
        for property in &self.consumer_property {
            let (name, value) = settings::parse("--consumer-property", property)?;
            config.set(&name, &value)?;
        }
        Ok(config)
    }

    fn partitions(&self, consumer: &mut Consumer) -> Outcome<Vec<i32>> {
        let cluster = consumer.metadata(Some(&[&self.topic]))?;
        let Some(topic) = cluster.topics.get(&self.topic) else {
            return Err(Failure::line(format!("topic {} does not exist", self.topic)));
        };
        topic.failure().map_or(Ok(()), Err)?;
        for &partition in &self.partition {
            if topic.partition(partition).is_none() {
                return Err(Failure::line(format!(
                    "topic {} has {} partitions, so none with number {partition}",
                    self.topic,
                    topic.partitions.len()
                )));
            }
        }
        if !self.partition.is_empty() {
            return Ok(self.partition.clone());
        }
        Ok(topic.partitions.iter().map(|it| it.partition).collect())
    }

    fn progress(&self, consumer: &mut Consumer, partitions: &[i32]) -> Outcome<Progress> {
        let mut ends = None;
        if self.exit_at_end {
            let mut found = Vec::new();
            for &partition in partitions {
                let end = Start::Latest.resolve(consumer, &self.topic, partition)?;
                if consumer.position(&self.topic, partition)? < end {
                    found.push((partition, end));
                }
            }
            ends = Some(found);
        }
        Ok(Progress {
            left: self.max_messages,
            ends,
            last_record: Instant::now(),
            idle_limit: self.timeout_ms.map(Duration::from_millis),
        })
    }
}

impl Progress {
    /// Counts a record; whether it is to be printed.
    fn take(&mut self, record: &RecordView<'_>) -> bool {
        self.last_record = Instant::now();
        if let Some(ends) = &self.ends {
            let end = ends.iter().find(|(partition, _)| *partition == record.partition);
            if end.is_none_or(|&(_, end)| record.offset >= end) {
                return false;
            }
        }
        match &mut self.left {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }

    /// Takes partitions that were read to their end off the list, also where the last offsets hold
    /// no record.
    fn look_at_positions(&mut self, consumer: &mut Consumer, topic: &str) -> Outcome {
        let Some(ends) = &mut self.ends else { return Ok(()) };
        let mut open = Vec::with_capacity(ends.len());
        for &(partition, end) in ends.iter() {
            if consumer.position(topic, partition)? < end {
                open.push((partition, end));
            }
        }
        *ends = open;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.left == Some(0)
            || self.ends.as_ref().is_some_and(Vec::is_empty)
            || self.idle_limit.is_some_and(|limit| self.last_record.elapsed() >= limit)
    }
}
