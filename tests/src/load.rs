//! One measured run of a client against any broker: Kafka's own producer tool, or ours.
//!
//! Owns the command line of `ProducerPerformance`, the reading of its summary, and the broker's CPU
//! over the run. Knows no scenario. The tool is closed-loop inside the producer's buffer and counts
//! whole milliseconds from `send`, which is the same for both brokers and good enough for a ratio
//! of rates; `native_load` has the client with a fixed schedule and microseconds.

use std::{io, net::SocketAddr, process::Stdio};

use crate::{kafka::Installation, kernel, native_load};

/// Heap of the client, in MiB; what matters is that it is the same for both brokers.
const CLIENT_HEAP_MIB: u32 = 1024;

/// Which client puts the load on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Kafka's own `ProducerPerformance`.
    Java,
    /// `millrace bench load`, open loop.
    Native,
}

impl Client {
    /// Its name in a result.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Java => "org.apache.kafka.tools.ProducerPerformance 4.4.0",
            Self::Native => "millrace bench load (open loop, latency from the intended start)",
        }
    }
}

/// What the client does.
#[derive(Clone, Debug)]
pub struct Load {
    /// Which one it is.
    pub client: Client,
    /// Bytes of each record's value.
    pub record_bytes: usize,
    /// Records of a run, those of the warm-up included.
    pub records: u64,
    /// Records at the start of a run that latency and rate leave out: the client is a fresh JVM.
    pub warm_up_records: u64,
    /// Records per second, or -1 for as fast as it goes.
    pub records_per_second: i64,
    /// Producer settings over Kafka's defaults.
    pub producer: Vec<(String, String)>,
}

/// What one run showed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    /// Records per second, as the client counts them.
    pub rate: f64,
    /// Mean time from send to acknowledgement, in milliseconds.
    pub mean_ms: f64,
    /// The longest, in milliseconds.
    pub max_ms: f64,
    /// Median, in milliseconds.
    pub p50_ms: f64,
    /// 95th percentile, in milliseconds.
    pub p95_ms: f64,
    /// 99th percentile, in milliseconds.
    pub p99_ms: f64,
    /// 99.9th percentile, in milliseconds.
    pub p999_ms: f64,
    /// CPU of the broker process over the run, in microseconds for each record.
    pub cpu_us_per_record: f64,
    /// Memory of the broker process at the end of the run, in MiB.
    pub resident_mib: f64,
}

impl Run {
    /// Names of the figures, in the order of [`Run::figures`].
    pub const NAMES: [&'static str; 9] = [
        "records_per_second",
        "mean_ms",
        "max_ms",
        "p50_ms",
        "p95_ms",
        "p99_ms",
        "p999_ms",
        "cpu_us_per_record",
        "resident_mib",
    ];

    /// The figures, in the order of [`Run::NAMES`].
    #[must_use]
    pub fn figures(&self) -> [f64; 9] {
        [
            self.rate,
            self.mean_ms,
            self.max_ms,
            self.p50_ms,
            self.p95_ms,
            self.p99_ms,
            self.p999_ms,
            self.cpu_us_per_record,
            self.resident_mib,
        ]
    }
}

impl Load {
    /// Settings and arguments of the tool, for the record.
    #[must_use]
    pub fn arguments(&self, bootstrap: SocketAddr, topic: &str) -> Vec<String> {
        let mut arguments = vec!["--topic".to_owned(), topic.to_owned()];
        let mut push = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        push("--num-records", self.records.to_string());
        push("--warmup-records", self.warm_up_records.to_string());
        push("--record-size", self.record_bytes.to_string());
        push("--throughput", self.records_per_second.to_string());
        push("--bootstrap-server", bootstrap.to_string());
        for (name, value) in &self.producer {
            push("--command-property", format!("{name}={value}"));
        }
        arguments
    }

    /// Runs the load against the broker with this process id.
    pub fn run(
        &self,
        installation: &Installation,
        bootstrap: SocketAddr,
        pid: u32,
        topic: &str,
    ) -> io::Result<Run> {
        self.account(pid, || match self.client {
            Client::Java => self.run_java(installation, bootstrap, topic),
            Client::Native => native_load::run(self, bootstrap, topic),
        })
    }

    /// Runs the load by our own client, whatever [`Load::client`] says.
    pub fn run_native(&self, bootstrap: SocketAddr, pid: u32, topic: &str) -> io::Result<Run> {
        self.account(pid, || native_load::run(self, bootstrap, topic))
    }

    /// Adds what the run cost the broker with this process id.
    fn account(&self, pid: u32, run: impl FnOnce() -> io::Result<Run>) -> io::Result<Run> {
        let before = kernel::cpu_us(pid)?;
        let mut run = run()?;
        let used = kernel::cpu_us(pid)? - before;
        run.cpu_us_per_record = to_f64(used) / to_f64(self.records);
        run.resident_mib = to_f64(kernel::resident_bytes(pid)? >> 20);
        Ok(run)
    }

    fn run_java(
        &self,
        installation: &Installation,
        bootstrap: SocketAddr,
        topic: &str,
    ) -> io::Result<Run> {
        let mut tool =
            installation.java("org.apache.kafka.tools.ProducerPerformance", CLIENT_HEAP_MIB);
        tool.args(self.arguments(bootstrap, topic)).stdin(Stdio::null());
        let output = tool.output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().rev().find_map(summary).ok_or_else(|| {
            let error = String::from_utf8_lossy(&output.stderr);
            io::Error::other(format!("ProducerPerformance: {text}{error}"))
        })
    }
}

/// Counts here stay far below 2^53.
fn to_f64(count: u64) -> f64 {
    u32::try_from(count).map_or_else(
        |_| f64::from(u32::try_from(count >> 20).unwrap_or(u32::MAX)) * 1_048_576.0,
        f64::from,
    )
}

/// Reads a summary line, of which the tool prints one for the whole run and then one for all but
/// the warm-up: "N records sent, R records/sec (M MB/sec), A ms avg latency, X ms max
/// latency, P ms 50th, P ms 95th, P ms 99th, P ms 99.9th."
fn summary(line: &str) -> Option<Run> {
    if !line.contains("99.9th") {
        return None;
    }
    let number = |part: &str| part.split_whitespace().next()?.parse::<f64>().ok();
    let before = |name: &str| line.split(", ").find(|part| part.contains(name)).and_then(number);
    Some(Run {
        rate: before("records/sec")?,
        mean_ms: before("ms avg latency")?,
        max_ms: before("ms max latency")?,
        p50_ms: before("ms 50th")?,
        p95_ms: before("ms 95th")?,
        p99_ms: before("ms 99th")?,
        p999_ms: before("ms 99.9th")?,
        ..Run::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_the_tool_is_read() {
        let line = "30000 steady state records sent, 19998.5 records/sec (19.53 MB/sec), 2.33 ms \
                    avg latency, 180.00 ms max latency, 1 ms 50th, 8 ms 95th, 23 ms 99th, 91 ms \
                    99.9th.";
        let run = summary(line).expect("a summary");
        assert_eq!(run.figures()[..7], [19_998.5, 2.33, 180.0, 1.0, 8.0, 23.0, 91.0]);
        assert_eq!(summary("100 records sent, 20.0 records/sec (0.02 MB/sec), 2 ms avg"), None);
    }

    #[test]
    fn large_counts_become_floats() {
        assert!((to_f64(1_500_000) - 1_500_000.0).abs() < f64::EPSILON);
        assert!((to_f64(8 << 32) / 34_359_738_368.0 - 1.0).abs() < 1e-6);
    }
}
