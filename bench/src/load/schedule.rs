//! When each record is due: fixed before the run, whatever the broker does.

use std::time::Duration;

use super::Load;

/// How long a run without `--records` and `--duration` takes, in seconds.
const DEFAULT_DURATION_S: u64 = 30;

/// A record handed over later than this after it was due is late.
pub const LATE_AFTER: Duration = Duration::from_millis(10);

/// Share of late records beyond which a schedule counts as not held.
pub const LATE_SHARE_MAX: f64 = 0.01;

/// The schedule of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    rate: Option<f64>,
    warmup: Duration,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Records(u64),
    After(Duration),
}

/// What to do with the next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Hand it over once this time since the start has passed.
    Due(Duration),
    /// The run is over.
    Over,
}

impl Schedule {
    /// The schedule that `load` asks for.
    pub fn of(load: &Load) -> Self {
        let end = match load.records {
            Some(records) => End::Records(records),
            None => {
                let seconds = load.duration.unwrap_or(DEFAULT_DURATION_S);
                End::After(Duration::from_secs(seconds))
            }
        };
        Self { rate: load.rate, warmup: load.warmup(), end }
    }

    /// Record number `sent` (from 0), of which `measured` came after the warm-up, at `elapsed`
    /// since the start.
    pub fn next(&self, sent: u64, measured: u64, elapsed: Duration) -> Next {
        let due = self.rate.map_or(elapsed, |rate| offset(sent, rate));
        let over = match self.end {
            End::Records(records) => measured >= records,
            End::After(length) => due >= self.warmup + length,
        };
        if over { Next::Over } else { Next::Due(due) }
    }

    /// Whether a record that was due then counts.
    pub fn is_measured(&self, due: Duration) -> bool {
        due >= self.warmup
    }

    /// Whether records are due at fixed instants.
    pub fn is_open_loop(&self) -> bool {
        self.rate.is_some()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count of records stays far below 2^53")]
fn offset(sent: u64, rate: f64) -> Duration {
    Duration::from_secs_f64(sent as f64 / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_rate_fixes_every_instant_however_late_it_is() {
        let schedule =
            Schedule { rate: Some(1_000.0), warmup: SECOND, end: End::After(SECOND * 2) };
        assert_eq!(schedule.next(0, 0, SECOND * 9), Next::Due(Duration::ZERO));
        assert_eq!(schedule.next(500, 0, SECOND * 9), Next::Due(SECOND / 2));
        assert_eq!(schedule.next(3_000, 2_000, SECOND), Next::Over);
        assert!(!schedule.is_measured(SECOND / 2) && schedule.is_measured(SECOND));
    }

    #[test]
    fn without_a_rate_the_next_is_due_now() {
        let schedule = Schedule { rate: None, warmup: Duration::ZERO, end: End::Records(2) };
        assert_eq!(schedule.next(1, 1, SECOND), Next::Due(SECOND));
        assert_eq!(schedule.next(2, 2, SECOND), Next::Over);
    }
}
