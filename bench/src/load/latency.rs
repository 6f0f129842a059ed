//! A latency distribution, shared between the threads that add to it.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use hdrhistogram::Histogram;

/// Longest latency that is told apart from longer ones.
const CAP: Duration = Duration::from_secs(600);

/// Significant digits kept.
const DIGITS: u8 = 3;

/// Latencies so far.
#[derive(Debug)]
pub struct Latency {
    histogram: Mutex<Histogram<u64>>,
}

/// The figures of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantiles {
    /// Latencies in it.
    pub count: u64,
    /// Half are at most this.
    pub p50: Duration,
    /// Nine of ten.
    pub p90: Duration,
    /// 99 of a hundred.
    pub p99: Duration,
    /// 999 of a thousand.
    pub p999: Duration,
    /// The longest.
    pub max: Duration,
}

impl Latency {
    /// None yet.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_max(nanoseconds(CAP), DIGITS)
            .expect("three digits up to ten minutes is a valid range");
        Self { histogram: Mutex::new(histogram) }
    }

    /// Adds one.
    pub fn record(&self, latency: Duration) {
        let mut histogram = self.histogram.lock().unwrap_or_else(PoisonError::into_inner);
        histogram.saturating_record(nanoseconds(latency));
    }

    /// The figures so far.
    pub fn quantiles(&self) -> Quantiles {
        let histogram = self.histogram.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |quantile| Duration::from_nanos(histogram.value_at_quantile(quantile));
        Quantiles {
            count: histogram.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: Duration::from_nanos(histogram.max()),
        }
    }
}

fn nanoseconds(latency: Duration) -> u64 {
    u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_tenth_of_a_percent() {
        let latency = Latency::new();
        (1..=1_000).for_each(|us| latency.record(Duration::from_micros(us)));
        latency.record(Duration::from_secs(10_000));
        let found = latency.quantiles();
        let near = |found: Duration, us: f64| (found.as_secs_f64() * 1e6 / us - 1.0).abs() < 0.002;
        assert!(near(found.p50, 501.0) && near(found.p99, 991.0), "{found:?}");
        assert!(found.max >= CAP);
    }
}
