//! One load on one topic: a producer, and a consumer where end-to-end latency is asked for.
//!
//! Open loop (`--rate`): the instant each record is due is fixed before the run, and its latency
//! counts from there, so that a stall of the broker is charged to every record that it delays (no
//! coordinated omission). Closed loop: as fast as `buffer.memory` allows, for the highest rate.
//!
//! Failure behaviour: a run whose schedule was not held is reported and marked invalid.

mod consume;
mod latency;
mod payload;
mod process;
mod produce;
mod report;
mod schedule;
mod target;

use std::time::Duration;

use clap::{Args, ValueEnum};
use millrace_net::client::{
    config::ProducerConfig,
    error::{ClientError, Result},
};
pub use report::Report;
use target::Target;

/// What is done to the topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Send records and time their acknowledgement
    Produce,
    /// Read what the topic holds, as fast as it comes
    Consume,
    /// Send records, read them back, and time both
    Both,
}

/// Put load on one topic and print rate, latency and cost
#[derive(Clone, Debug, Args)]
pub struct Load {
    /// Brokers to ask first, HOST:PORT, separated by commas
    #[arg(long, default_value = "localhost:9092", value_name = "HOST:PORT")]
    pub bootstrap_server: String,
    /// What is done to the topic
    #[arg(long, value_enum, default_value = "produce")]
    pub mode: Mode,
    /// Name of the topic; created if it does not exist
    #[arg(long, default_value = "millrace-bench")]
    pub topic: String,
    /// Partitions of a topic that is created
    #[arg(long, default_value_t = 12)]
    pub partitions: i32,
    /// A setting of a topic that is created; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    pub topic_config: Vec<String>,
    /// Records after the warm-up; without this and --duration, 30 s
    #[arg(long, conflicts_with = "duration")]
    pub records: Option<u64>,
    /// Length of the run after the warm-up, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub duration: Option<u64>,
    /// Seconds at the start that are not measured
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    pub warmup: u64,
    /// Records per second, on a schedule fixed beforehand (open loop); as fast as possible if not
    /// given (closed loop)
    #[arg(long, value_name = "RECORDS/S")]
    pub rate: Option<f64>,
    /// Bytes of a record's value
    #[arg(long, default_value_t = 1024, value_name = "BYTES")]
    pub record_size: usize,
    /// 0, 1 or all
    #[arg(long, default_value = "all")]
    pub acks: String,
    /// linger.ms
    #[arg(long, default_value_t = 5)]
    pub linger_ms: u64,
    /// batch.size
    #[arg(long, default_value_t = 16_384, value_name = "BYTES")]
    pub batch_size: usize,
    /// none, gzip, snappy, lz4 or zstd
    #[arg(long, default_value = "none")]
    pub compression_type: String,
    /// Any other setting of the producer, under Kafka's name; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    pub producer_property: Vec<String>,
    /// The broker's process on this host, for its CPU time and memory
    #[arg(long, value_name = "PID")]
    pub broker_pid: Option<u32>,
}

impl Load {
    /// Runs the load.
    ///
    /// # Errors
    /// When options contradict each other or the broker cannot be reached. Records that failed are
    /// counted in the report.
    pub fn run(&self) -> Result<Report> {
        self.validate()?;
        let config = self.producer_config()?;
        let target = Target::prepare(self)?;
        match self.mode {
            Mode::Consume => consume::drain(self, target),
            Mode::Produce | Mode::Both => produce::run(self, config, target),
        }
    }

    fn validate(&self) -> Result<()> {
        if self.record_size < payload::MIN_BYTES {
            return Err(ClientError::invalid(format!(
                "--record-size {}: give at least {} bytes, which hold the record's due time",
                self.record_size,
                payload::MIN_BYTES
            )));
        }
        if self.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
            return Err(ClientError::invalid("--rate: give a number above 0"));
        }
        Ok(())
    }

    fn producer_config(&self) -> Result<ProducerConfig> {
        let mut config = ProducerConfig::new(&self.bootstrap_server);
        config.client.client_id = "millrace-bench".to_owned();
        config.set("acks", &self.acks)?;
        config.set("compression.type", &self.compression_type)?;
        config.linger_ms = self.linger_ms;
        config.batch_size = self.batch_size;
        config.max_request_size = config.max_request_size.max(self.batch_size + 1024);
        for property in &self.producer_property {
            let (name, value) = name_and_value("--producer-property", property)?;
            config.set(name, value)?;
        }
        config.validate()?;
        Ok(config)
    }

    fn warmup(&self) -> Duration {
        Duration::from_secs(self.warmup)
    }
}

fn name_and_value<'t>(flag: &str, text: &'t str) -> Result<(&'t str, &'t str)> {
    text.split_once('=')
        .ok_or_else(|| ClientError::invalid(format!("{flag} {text}: give name=value")))
}
