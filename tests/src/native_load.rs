//! One measured run of our own client: `millrace bench load` with a schedule fixed beforehand.
//!
//! Owns its command line and the reading of its report. Latency counts from the intended start of a
//! record, in microseconds, so that a stall shows in every record that it delayed.

use std::{io, net::SocketAddr, process::Command};

use crate::{
    broker,
    load::{Load, Run},
};

/// Runs the load; CPU and memory of the broker are the caller's to add.
pub(crate) fn run(load: &Load, bootstrap: SocketAddr, topic: &str) -> io::Result<Run> {
    let rate = u64::try_from(load.records_per_second).map_err(|_| {
        io::Error::other("the native client is for open loops: it wants a rate of its own")
    })?;
    let mut tool = Command::new(broker::binary());
    tool.args(["bench", "load", "--bootstrap-server", &bootstrap.to_string(), "--topic", topic]);
    let mut option = |name: &str, value: u64| {
        tool.args([name, &value.to_string()]);
    };
    option("--rate", rate);
    option("--record-size", u64::try_from(load.record_bytes).map_err(io::Error::other)?);
    option("--records", load.records - load.warm_up_records);
    option("--warmup", load.warm_up_records / rate.max(1));
    for (name, value) in &load.producer {
        tool.args([format!("--{}", name.replace('.', "-")), value.clone()]);
    }
    let output = tool.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let error = || {
        let error = String::from_utf8_lossy(&output.stderr);
        io::Error::other(format!("millrace bench load: {text}{error}"))
    };
    if output.status.success() { report(&text).ok_or_else(error) } else { Err(error()) }
}

/// Reads the lines "records N in X s: R/s, ..." and "ack p50 A ms p90 B ms p99 C ms p99.9 D ms max
/// E ms". What the report does not give is not a number.
fn report(text: &str) -> Option<Run> {
    let line = |head: &str| text.lines().find(|line| line.split_whitespace().next() == Some(head));
    let rate = line("records")?.split(": ").nth(1)?.split("/s").next()?.parse().ok()?;
    let words: Vec<&str> = line("ack")?.split_whitespace().collect();
    let after = |name: &str| -> Option<f64> {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1)?.parse().ok()
    };
    Some(Run {
        rate,
        mean_ms: f64::NAN,
        p95_ms: f64::NAN,
        p50_ms: after("p50")?,
        p99_ms: after("p99")?,
        p999_ms: after("p99.9")?,
        max_ms: after("max")?,
        ..Run::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_read() {
        let text = "target      127.0.0.1:9092 topic t, 12 partitions\n\
                    records     160000 in 8.00 s: 19999/s, 20.5 MB/s, 0 failed\n\
                    ack         p50 1.026 ms p90 1.745 ms p99 3.133 ms p99.9 8.937 ms max \
                    15.540 ms\n";
        let run = report(text).expect("a report");
        let figures = [run.rate, run.p50_ms, run.p99_ms, run.p999_ms, run.max_ms];
        assert_eq!(figures, [19_999.0, 1.026, 3.133, 8.937, 15.54]);
        assert_eq!(report("records     0 in 8.00 s"), None);
    }
}
