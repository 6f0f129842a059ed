//! `millrace produce`: each line of standard input is a record, as with
//! `kafka-console-producer.sh` and kcat.

mod line;
mod tally;

use std::{
    io::{self, BufRead},
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use line::Layout;
use millrace_net::client::{
    config::ProducerConfig,
    error::Kind,
    producer::{Producer, ProducerRecord},
};
use tally::Tally;

use crate::{
    bootstrap::Bootstrap,
    failure::{Failure, Outcome},
    settings,
};

/// Send lines of standard input as records
#[derive(Debug, Args)]
pub struct Produce {
    #[command(flatten)]
    bootstrap: Bootstrap,
    /// Name of the topic
    #[arg(long)]
    topic: String,
    /// Send to this partition; by key or in turns if not given
    #[arg(long)]
    partition: Option<i32>,
    /// A line is a key and a value with this between
    #[arg(long, short = 'K', value_name = "TEXT")]
    key_separator: Option<String>,
    /// The key of every record, instead of one from the line
    #[arg(long, conflicts_with = "key_separator")]
    key: Option<String>,
    /// A header of every record; may be given several times
    #[arg(long, visible_alias = "headers", value_name = "NAME=VALUE")]
    header: Vec<String>,
    /// A key or value that reads so is null
    #[arg(long, value_name = "TEXT")]
    null_marker: Option<String>,
    /// 0, 1 or all
    #[arg(long, visible_alias = "request-required-acks", default_value = "all")]
    acks: String,
    /// none, gzip, snappy, lz4 or zstd
    #[arg(
        long,
        visible_alias = "compression-codec",
        default_value = "none",
        num_args = 0..=1,
        default_missing_value = "gzip"
    )]
    compression_type: String,
    /// Bytes of records per batch
    #[arg(long, visible_alias = "max-partition-memory-bytes")]
    batch_size: Option<usize>,
    /// How long a batch waits for more records, in ms
    #[arg(long, visible_alias = "timeout")]
    linger_ms: Option<u64>,
    /// At most so many records per second
    #[arg(long, value_name = "RECORDS/S")]
    rate: Option<f64>,
    /// Wait for each record before the next is sent
    #[arg(long)]
    sync: bool,
    /// parse.key, key.separator, parse.headers, headers.delimiter, ignore.error, null.marker, as
    /// kafka-console-producer takes them
    #[arg(long, visible_alias = "reader-property", value_name = "NAME=VALUE")]
    property: Vec<String>,
    /// A client setting under Kafka's name; may be given several times
    #[arg(long, visible_alias = "command-property", value_name = "NAME=VALUE")]
    producer_property: Vec<String>,
}

impl Produce {
    /// Does it.
    pub fn run(self) -> Outcome {
        let layout = self.layout()?;
        let headers = self.headers()?;
        let producer = Producer::connect(self.config()?)?;
        let tally = Tally::start();
        let sent = self.send_lines(&producer, &layout, &headers, &tally);
        producer.flush();
        drop(producer);
        let ended = tally.finish();
        sent.and(ended)
    }

    fn send_lines(
        &self,
        producer: &Producer,
        layout: &Layout,
        headers: &[(String, String)],
        tally: &Arc<Tally>,
    ) -> Outcome {
        let mut input = io::stdin().lock();
        let mut line = Vec::new();
        let start = Instant::now();
        for number in 1_u64.. {
            line.clear();
            let read = input.read_until(b'\n', &mut line);
            if read.map_err(|error| Failure::line(format!("cannot read the input: {error}")))? == 0
            {
                return Ok(());
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            self.pace(start, number - 1);
            let mut parts = layout.parse(&line, number)?;
            let given =
                headers.iter().map(|(name, value)| (name.as_bytes(), Some(value.as_bytes())));
            parts.headers.extend(given);
            let record = ProducerRecord {
                topic: &self.topic,
                partition: self.partition,
                timestamp_ms: None,
                key: self.key.as_deref().map(str::as_bytes).or(parts.key),
                value: parts.value,
                headers: &parts.headers,
            };
            self.send(producer, &record, tally)?;
        }
        Ok(())
    }

    fn send(
        &self,
        producer: &Producer,
        record: &ProducerRecord<'_>,
        tally: &Arc<Tally>,
    ) -> Outcome {
        tally.began();
        let told = tally.clone();
        let queued = if self.sync {
            producer.send_and_wait(record).map(|_| tally.delivered())
        } else {
            producer.send(record, Some(Box::new(move |result| told.take(&result))))
        };
        match queued {
            Ok(()) => Ok(()),
            // The next record may well be fine.
            Err(error) if error.kind() == Kind::Invalid && self.partition.is_none() => {
                tally.failed(&error);
                Ok(())
            }
            Err(error) => {
                tally.failed(&error);
                Err(error.into())
            }
        }
    }

    /// Sleeps until record number `sent` is due.
    fn pace(&self, start: Instant, sent: u64) {
        let Some(rate) = self.rate.filter(|rate| *rate > 0.0) else { return };
        #[expect(clippy::cast_precision_loss, reason = "a count of records stays far below 2^53")]
        let due = start + Duration::from_secs_f64(sent as f64 / rate);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }

    fn layout(&self) -> Outcome<Layout> {
        let mut layout = Layout {
            key_separator: self.key_separator.clone(),
            null_marker: self.null_marker.clone(),
            ..Layout::default()
        };
        let (mut separator, mut delimiter) = ("\t".to_owned(), "\t".to_owned());
        let (mut parse_key, mut parse_headers) = (false, false);
        for property in &self.property {
            let (name, value) = settings::parse("--property", property)?;
            match name.as_str() {
                "parse.key" => parse_key = value == "true",
                "key.separator" => separator = value,
                "parse.headers" => parse_headers = value == "true",
                "headers.delimiter" => delimiter = value,
                "ignore.error" => layout.ignore_error = value == "true",
                "null.marker" => layout.null_marker = Some(value),
                _ => return Err(Failure::line(format!("--property {name} is not known here"))),
            }
        }
        if parse_key {
            layout.key_separator = Some(separator);
        }
        if parse_headers {
            layout.headers_delimiter = Some(delimiter);
        }
        Ok(layout)
    }

    fn headers(&self) -> Outcome<Vec<(String, String)>> {
        self.header.iter().map(|header| settings::parse("--header", header)).collect()
    }

    fn config(&self) -> Outcome<ProducerConfig> {
        let mut config = ProducerConfig::new(self.bootstrap.servers());
        config.set("acks", &self.acks)?;
        config.set("compression.type", &self.compression_type)?;
        if let Some(batch_size) = self.batch_size {
            config.batch_size = batch_size;
        }
        if let Some(linger_ms) = self.linger_ms {
            config.linger_ms = linger_ms;
        }
        for property in &self.producer_property {
            let (name, value) = settings::parse("--producer-property", property)?;
            config.set(&name, &value)?;
        }
        Ok(config)
    }
}
