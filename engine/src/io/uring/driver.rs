//! Turns the ring between the tasks of a shard, and decides when the shard may sleep.
//!
//! A task of the executor: submits what the others queued, takes completions, wakes whom they
//! concern, and goes again behind them. With nothing else runnable it spins while that pays, then
//! arms the eventfd and waits for it through the executor's own ring. Knows nothing of what the
//! completions mean. A failing ring is beyond repair and ends the process.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    hint::spin_loop,
    pin::Pin,
    rc::Rc,
    sync::atomic::{Ordering, fence},
    task::{Context, Poll},
    time::Duration,
};

use super::{Op, Ring};
use crate::io::{local::Local, sys};

/// How long starved receivers wait for blocks to come back to the pool before another look.
const STARVED_RETRY: Duration = Duration::from_millis(2);

/// A sleep ended sooner than a spin plus this would have been better spun: cost of a wake-up.
const WAKE_COST_NS: u64 = 60_000;

/// Credits at which spinning starts; a miss costs as much as four hits earn.
const CREDITS_TO_SPIN: i32 = 8;
const CREDITS_MAX: i32 = 16;
const MISS_COST: i32 = 4;

/// A wait for the shard's eventfd, made anew after each signal.
pub(in crate::io) type WaitForBell = Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()>>>>;

/// State of the driver between its turns.
struct Driver {
    local: Rc<Local>,
    bell: WaitForBell,
    bell_wait: Option<Pin<Box<dyn Future<Output = ()>>>>,
    armed: bool,
    asleep_since_ns: Option<u64>,
    polls_seen: u64,
    spin: Spin,
    retry: Option<Op>,
    cancelled: bool,
}

/// Runs the shard's ring until `stop` is set and every operation has ended.
pub(in crate::io) async fn drive(
    local: Rc<Local>,
    bell: WaitForBell,
    spin_ns: u64,
    stop: Rc<Cell<bool>>,
) {
    local.ring.register_bell(&local.port.bell).expect("a new ring takes an eventfd");
    local.ring.completion_signal(false);
    let mut driver = Driver {
        local,
        bell,
        bell_wait: None,
        armed: false,
        asleep_since_ns: None,
        polls_seen: 0,
        spin: Spin { limit_ns: spin_ns, credits: 0 },
        retry: None,
        cancelled: false,
    };
    poll_fn(|cx| driver.turn(cx, stop.get())).await;
    // The executor must not be left with a read of a descriptor that is about to close.
    if let Some(wait) = driver.bell_wait.take() {
        driver.local.port.wake();
        wait.await;
    }
}

impl Driver {
    fn turn(&mut self, cx: &mut Context<'_>, stop: bool) -> Poll<()> {
        loop {
            self.disarm();
            let busy = self.work();
            if stop && self.is_over() {
                return Poll::Ready(());
            }
            let polls = self.local.polls.get();
            if busy || polls != self.polls_seen {
                self.polls_seen = polls;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.poll_retry(cx) || self.spin.run(&self.local) || !self.arm() {
                continue;
            }
            self.local.ring.driver.set(Some(cx.waker().clone()));
            let bell = &self.bell;
            let wait = self.bell_wait.get_or_insert_with(bell);
            if wait.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.bell_wait = None;
        }
    }

    /// One round of submitting and completing; whether anything happened.
    fn work(&mut self) -> bool {
        let ring = &self.local.ring;
        if ring.has_work() {
            ring.enter().expect("a ring in use can be entered");
        }
        let reaped = ring.reap();
        let rang = self.local.port.answer();
        if rang {
            self.local.wake_bell_waiters();
            self.local.wake_fulfilled();
        }
        let starved = ring.feed();
        if starved && self.retry.is_none() {
            self.retry = Some(ring.timeout(STARVED_RETRY));
        }
        reaped > 0 || rang
    }

    /// Whether the wait for pooled blocks is over, so that it is time to look again.
    fn poll_retry(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(retry) = &mut self.retry else { return false };
        let over = Pin::new(retry).poll(cx).is_ready();
        if over {
            self.retry = None;
        }
        over
    }

    /// While stopping: cancels what is left, once; true when the kernel holds nothing any more.
    fn is_over(&mut self) -> bool {
        self.retry = None;
        self.local.ring.starved.borrow_mut().clear();
        if self.local.ring.in_flight() == 0 {
            return true;
        }
        if !self.cancelled {
            self.cancelled = true;
            self.local.ring.cancel_all();
        }
        false
    }

    fn disarm(&mut self) {
        if self.armed {
            self.armed = false;
            self.local.ring.completion_signal(false);
            self.local.port.stay_awake();
        }
        self.local.ring.driver.take();
        if let Some(since) = self.asleep_since_ns.take() {
            self.spin.slept(sys::monotonic_ns() - since);
        }
    }

    /// Prepares for sleep; false if something turned up meanwhile.
    fn arm(&mut self) -> bool {
        self.armed = true;
        self.local.ring.completion_signal(true);
        if !self.local.port.fall_asleep() {
            return false;
        }
        // Work queued before the signal was on gave none: let the kernel run it, then look.
        self.local.ring.enter().expect("a ring in use can be entered");
        if self.local.ring.has_work() {
            return false;
        }
        self.asleep_since_ns = Some(sys::monotonic_ns());
        true
    }
}

impl Ring {
    /// Whether completions signal the eventfd.
    fn completion_signal(&self, on: bool) {
        let mut uring = self.uring.borrow_mut();
        let completions = uring.completion();
        if on {
            completions.enable_eventfd();
        } else {
            completions.disable_eventfd();
        }
        drop(completions);
        fence(Ordering::SeqCst);
    }
}

/// Spins before sleep, as long as that has been paying.
struct Spin {
    limit_ns: u64,
    credits: i32,
}

impl Spin {
    /// Watches shared memory for a while; whether work turned up.
    fn run(&mut self, local: &Local) -> bool {
        if self.limit_ns == 0 || self.credits < CREDITS_TO_SPIN {
            return false;
        }
        let end = sys::monotonic_ns() + self.limit_ns;
        loop {
            if local.ring.has_work() || local.port.has_rung() {
                self.credits = (self.credits + 1).min(CREDITS_MAX);
                return true;
            }
            if sys::monotonic_ns() >= end {
                self.credits -= MISS_COST;
                return false;
            }
            spin_loop();
        }
    }

    /// Learns from a sleep of `slept_ns`.
    fn slept(&mut self, slept_ns: u64) {
        let would_have_paid = slept_ns < self.limit_ns + WAKE_COST_NS;
        let step = if would_have_paid { 1 } else { -1 };
        self.credits = (self.credits + step).clamp(0, CREDITS_MAX);
    }
}
