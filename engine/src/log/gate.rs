//! Which of a volume's writes wait for its flush.
//!
//! Where little comes in, none does: each log writes as soon as it can, and the next flush covers
//! it. That is the shortest way for each.
//!
//! Where much comes in, the number of writes and flushes is the cost, for each costs the same up to
//! some size. So writes gather behind a flush and start together when it ends: one submission for
//! all logs, and one flush that covers them all. The gate also stays shut for a while after a
//! flush: then writing and flushing take a small share of the time and gather much, where they
//! would otherwise take all of it for little each. That pause scales with what the disk takes, so a
//! fast disk makes it short. (What was measured: `ARCHITECTURE.md`, "Writes gather".)
//! Knows neither logs nor files. Invariant: the gate opens after every flush, so no write waits
//! for longer than the writes in flight, one flush and [`FLUSH_REST_MAX_NS`] take.

use std::{cell::Cell, time::Duration};

use super::event::Event;
use crate::limits::{
    FLUSH_RATE_WINDOW_NS, FLUSH_REST_FROM_BYTES_PER_S, FLUSH_REST_MAX_NS, FLUSH_REST_SHARE,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Writes start as they come.
    #[default]
    Open,
    /// A flush waits for the writes in flight; none starts.
    Draining,
    /// A flush is in flight, or has been and the disk rests; only large writes start, for they
    /// gain nothing by waiting.
    Shut,
}

/// The gate in front of one volume's writes; shard thread only.
#[derive(Default)]
pub(super) struct Gate {
    phase: Cell<Phase>,
    writing: Cell<usize>,
    rate: Rate,
    changed: Event,
}

/// Whether much comes in, by the last whole window of at least [`FLUSH_RATE_WINDOW_NS`]. Between
/// two flushes any few requests that come together look like a high rate, and a rest makes the next
/// ones come together.
#[derive(Default)]
struct Rate {
    /// Bytes of the writes that started in this window.
    bytes: Cell<u64>,
    window_start_ns: Cell<u64>,
    was_high: Cell<bool>,
}

impl Rate {
    fn is_high(&self, now_ns: u64) -> bool {
        let window_ns = now_ns.saturating_sub(self.window_start_ns.get());
        if window_ns >= FLUSH_RATE_WINDOW_NS {
            let rate = u128::from(self.bytes.take()) * 1_000_000_000 / u128::from(window_ns);
            self.was_high.set(rate >= u128::from(FLUSH_REST_FROM_BYTES_PER_S));
            self.window_start_ns.set(now_ns);
        }
        self.was_high.get()
    }
}

/// A write in flight; counts itself off when dropped.
pub(super) struct Pass<'a>(&'a Gate);

impl Gate {
    /// Waits until a write may start; `is_large` tells whether it need not wait for a flush.
    pub(super) async fn wait(&self, is_large: impl Fn() -> bool) {
        let may_start = || match self.phase.get() {
            _ if !self.gathers() => Some(()),
            Phase::Open => Some(()),
            Phase::Draining => None,
            Phase::Shut => is_large().then_some(()),
        };
        self.changed.wait_for(may_start).await;
    }

    /// Counts a write of so many new bytes in until the pass is dropped. What direct I/O writes
    /// again or adds to fill a block is no reason to rest.
    pub(super) fn pass(&self, new_bytes: u64) -> Pass<'_> {
        self.writing.update(|writing| writing + 1);
        self.rate.bytes.update(|before| before + new_bytes);
        Pass(self)
    }

    /// Whether writes wait for one another. Changes in [`Gate::rest`] alone, before the gate opens.
    fn gathers(&self) -> bool {
        self.rate.was_high.get()
    }

    /// Where writes gather: lets none start and waits until none is in flight.
    pub(super) async fn drain(&self) {
        if !self.gathers() {
            return;
        }
        self.phase.set(Phase::Draining);
        self.changed.wait_for(|| (self.writing.get() == 0).then_some(())).await;
    }

    /// The flush starts.
    pub(super) fn flush(&self) {
        self.phase.set(Phase::Shut);
        self.changed.notify();
    }

    /// How long the disk had better rest at `now_ns`, after a flush that took `busy_ns` with its
    /// writes.
    pub(super) fn rest(&self, busy_ns: u64, now_ns: u64) -> Option<Duration> {
        let rest_ns = busy_ns.saturating_mul(FLUSH_REST_SHARE).min(FLUSH_REST_MAX_NS);
        self.rate.is_high(now_ns).then(|| Duration::from_nanos(rest_ns))
    }

    /// Lets all writes start.
    pub(super) fn open(&self) {
        self.phase.set(Phase::Open);
        self.changed.notify();
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.writing.update(|writing| writing - 1);
        if self.0.writing.get() == 0 {
            self.0.changed.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    fn is_ready(future: impl Future<Output = ()>) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    /// A gate that has seen much come in.
    fn busy() -> Gate {
        let gate = Gate::default();
        drop(gate.pass(u64::from(u32::MAX)));
        assert!(gate.rest(1, FLUSH_RATE_WINDOW_NS).is_some(), "it rests");
        gate
    }

    #[test]
    fn where_little_comes_in_nothing_waits() {
        let gate = Gate::default();
        let _in_flight = gate.pass(1);
        assert!(is_ready(gate.drain()), "the flush covers what is complete");
        gate.flush();
        assert!(is_ready(gate.wait(|| false)), "the next flush covers it");
    }

    #[test]
    fn a_flush_waits_for_the_writes_in_flight_and_lets_none_start() {
        let gate = busy();
        assert!(is_ready(gate.wait(|| false)), "an open gate lets writes start");
        let (first, second) = (gate.pass(1), gate.pass(1));
        let mut drained = pin!(gate.drain());
        let mut context = Context::from_waker(Waker::noop());
        assert!(drained.as_mut().poll(&mut context).is_pending());
        assert!(!is_ready(gate.wait(|| true)), "nothing starts while the flush waits");
        drop(first);
        assert!(drained.as_mut().poll(&mut context).is_pending());
        drop(second);
        assert!(drained.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn only_large_writes_start_during_a_flush_and_all_after_it() {
        let gate = busy();
        assert!(is_ready(gate.drain()));
        gate.flush();
        assert!(is_ready(gate.wait(|| true)));
        assert!(!is_ready(gate.wait(|| false)));
        gate.open();
        assert!(is_ready(gate.wait(|| false)));
    }

    #[test]
    fn the_disk_rests_where_much_comes_in_for_a_while_and_not_after_a_burst() {
        let gate = Gate::default();
        let write = |bytes| drop(gate.pass(bytes));
        let window = FLUSH_RATE_WINDOW_NS;
        assert_eq!(gate.rest(100_000, window), None, "nothing came");
        write(100_000);
        assert_eq!(gate.rest(100_000, window + 100_000), None, "a burst at 1 GB/s");
        assert_eq!(gate.rest(100_000, 2 * window), None, "few bytes per window");
        write(1_000_000);
        let rest = gate.rest(100_000, 3 * window);
        assert_eq!(rest, Some(Duration::from_micros(800)), "many bytes per window");
        let longest = gate.rest(1_000_000, 3 * window + 1);
        assert_eq!(longest, Some(Duration::from_nanos(FLUSH_REST_MAX_NS)), "still");
        write(1_000_000);
        assert_eq!(gate.rest(100_000, 1000 * window), None, "one group after a long silence");
    }
}
