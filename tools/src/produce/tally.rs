//! How many records were sent, delivered and lost, with progress on a terminal.

use std::{
    io::{self, IsTerminal},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use millrace_net::client::{
    error::{ClientError, Result},
    producer::RecordMetadata,
};

use crate::failure::{Failure, Outcome};

/// How often progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// Counters that the producer's threads add to.
pub struct Tally {
    sent: AtomicU64,
    delivered: AtomicU64,
    failed: AtomicU64,
    first_error: Mutex<Option<ClientError>>,
    shows: bool,
    over: AtomicBool,
    start: Instant,
}

impl Tally {
    /// Counts from zero; shows progress if standard error is a terminal and the input is none.
    pub fn start() -> Arc<Self> {
        let tally = Arc::new(Self {
            sent: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            first_error: Mutex::new(None),
            shows: io::stderr().is_terminal() && !io::stdin().is_terminal(),
            over: AtomicBool::new(false),
            start: Instant::now(),
        });
        if tally.shows {
            let shown = tally.clone();
            thread::spawn(move || {
                while !shown.over.load(Ordering::Relaxed) {
                    eprint!("\r{}", shown.line());
                    thread::sleep(SHOW_EVERY);
                }
            });
        }
        tally
    }

    /// A record is about to be sent.
    pub fn began(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// A record arrived.
    pub fn delivered(&self) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
    }

    /// A record did not arrive.
    pub fn failed(&self, error: &ClientError) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut first = self.first_error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| error.clone());
    }

    /// A record's fate.
    pub fn take(&self, result: &Result<RecordMetadata>) {
        match result {
            Ok(_) => self.delivered(),
            Err(error) => self.failed(error),
        }
    }

    fn line(&self) -> String {
        let delivered = self.delivered.load(Ordering::Relaxed);
        let failed = self.failed.load(Ordering::Relaxed);
        #[expect(clippy::cast_precision_loss, reason = "a count of records stays far below 2^53")]
        let rate = delivered as f64 / self.start.elapsed().as_secs_f64().max(0.001);
        format!("{delivered} records acknowledged, {failed} failed, {rate:.0}/s ")
    }

    /// Ends the progress line; an error when a record failed.
    pub fn finish(&self) -> Outcome {
        self.over.store(true, Ordering::Relaxed);
        if self.shows {
            eprintln!("\r{}", self.line());
        }
        let failed = self.failed.load(Ordering::Relaxed);
        if failed == 0 {
            return Ok(());
        }
        let sent = self.sent.load(Ordering::Relaxed);
        let first = self.first_error.lock().unwrap_or_else(PoisonError::into_inner);
        let reason = first.as_ref().map(ClientError::to_string).unwrap_or_default();
        Err(Failure::line(format!("{failed} of {sent} records failed: {reason}")))
    }
}
