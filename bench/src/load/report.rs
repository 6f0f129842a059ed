//! What a run found, as lines to read.

use std::{fmt, time::Duration};

use super::{
    Load, Mode,
    latency::Quantiles,
    process::Usage,
    schedule::{LATE_AFTER, LATE_SHARE_MAX},
    target::Target,
};

/// How well an open loop kept to its schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Punctuality {
    /// How late records were handed over to the producer.
    pub lateness: Quantiles,
    /// Share of records that were late by more than 10 ms.
    pub late_share: f64,
}

impl Punctuality {
    /// Whether at most one in a hundred records was late.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.late_share <= LATE_SHARE_MAX
    }
}

/// The figures of a run, warm-up left out.
#[derive(Clone, Debug)]
pub struct Report {
    pub(super) load: Load,
    pub(super) target: Target,
    pub(super) records: u64,
    pub(super) failed: u64,
    pub(super) elapsed: Duration,
    pub(super) ack: Option<Quantiles>,
    pub(super) end_to_end: Option<Quantiles>,
    pub(super) missing: u64,
    pub(super) punctuality: Option<Punctuality>,
    pub(super) broker: Option<Usage>,
    pub(super) own: Option<Usage>,
    pub(super) first_error: Option<String>,
}

impl Report {
    /// Why the figures do not count, or `None` when they do.
    #[must_use]
    pub fn invalid(&self) -> Option<String> {
        if let Some(punctuality) = self.punctuality.filter(|it| !it.is_held()) {
            return Some(format!(
                "the schedule was not held: {:.2} % of records were handed over more than {} ms \
                 late; lower --rate",
                punctuality.late_share * 100.0,
                LATE_AFTER.as_millis(),
            ));
        }
        if self.failed > 0 {
            let reason = self.first_error.as_deref().unwrap_or_default();
            return Some(format!("{} records failed: {reason}", self.failed));
        }
        if self.missing > 0 {
            return Some(format!("{} acknowledged records were not read back", self.missing));
        }
        (self.records == 0).then(|| "no record was measured".to_owned())
    }

    fn load_line(&self) -> String {
        let load = &self.load;
        if load.mode == Mode::Consume {
            return "consume, as fast as records come".to_owned();
        }
        let pace = match load.rate {
            Some(rate) => format!("open loop, {rate} records/s"),
            None => "closed loop".to_owned(),
        };
        format!(
            "{pace}, warm-up {} s, {} B, acks={}, linger.ms={}, batch.size={}, compression.type={}",
            load.warmup,
            load.record_size,
            load.acks,
            load.linger_ms,
            load.batch_size,
            load.compression_type,
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = &self.target;
        writeln!(
            out,
            "target      {} topic {}, {} partitions, {}",
            self.load.bootstrap_server,
            target.topic,
            target.partitions.len(),
            target.durability()
        )?;
        writeln!(out, "load        {}", self.load_line())?;
        let rate = per_second(self.records, self.elapsed);
        writeln!(
            out,
            "records     {} in {:.2} s: {rate:.0}/s, {:.1} MB/s, {} failed",
            self.records,
            self.elapsed.as_secs_f64(),
            rate * count_as_f64(self.load.record_size as u64) / 1e6,
            self.failed
        )?;
        write_latency(out, "ack         ", self.ack)?;
        write_latency(out, "end-to-end  ", self.end_to_end)?;
        if let Some(punctuality) = self.punctuality {
            writeln!(
                out,
                "schedule    {}: {:.2} % late by over {} ms; late p99 {} max {}",
                if punctuality.is_held() { "held" } else { "NOT HELD" },
                punctuality.late_share * 100.0,
                LATE_AFTER.as_millis(),
                milliseconds(punctuality.lateness.p99),
                milliseconds(punctuality.lateness.max),
            )?;
        }
        write_usage(out, "broker      ", self.broker, self.records)?;
        write_usage(out, "client      ", self.own, self.records)
    }
}

fn write_latency(
    out: &mut fmt::Formatter<'_>,
    name: &str,
    quantiles: Option<Quantiles>,
) -> fmt::Result {
    let Some(found) = quantiles else { return Ok(()) };
    writeln!(
        out,
        "{name}p50 {} p90 {} p99 {} p99.9 {} max {}",
        milliseconds(found.p50),
        milliseconds(found.p90),
        milliseconds(found.p99),
        milliseconds(found.p999),
        milliseconds(found.max),
    )
}

fn write_usage(
    out: &mut fmt::Formatter<'_>,
    name: &str,
    usage: Option<Usage>,
    records: u64,
) -> fmt::Result {
    let Some(usage) = usage else { return Ok(()) };
    let per_record_us = usage.cpu.as_secs_f64() * 1e6 / count_as_f64(records.max(1));
    writeln!(
        out,
        "{name}{per_record_us:.2} us CPU per record ({:.2} s), RSS {:.0} MiB",
        usage.cpu.as_secs_f64(),
        count_as_f64(usage.rss_bytes) / f64::from(1 << 20),
    )
}

fn milliseconds(latency: Duration) -> String {
    format!("{:.3} ms", latency.as_secs_f64() * 1e3)
}

fn per_second(records: u64, elapsed: Duration) -> f64 {
    count_as_f64(records) / elapsed.as_secs_f64().max(1e-9)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run stay far below 2^53")]
pub(super) fn count_as_f64(count: u64) -> f64 {
    count as f64
}
