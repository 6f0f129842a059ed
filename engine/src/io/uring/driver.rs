//! Turns the ring between the tasks of a shard, and decides when the shard may sleep.
//!
//! A task of the executor: submits what the others queued, takes completions, wakes whom they
//! concern, and goes again behind them. With nothing else runnable it spins while that pays, then
//! arms the eventfd and rests until woken. Knows nothing of what the completions mean.
//! Invariant: at rest, the kernel signals the eventfd for whatever happens on the ring.
//! A failing ring is beyond repair and ends the process.

use std::{
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

/// Work items that the kernel runs in one call at least, if it has as many (since 6.13).
const ITEMS_PER_ENTER: usize = 20;

/// How long the data path runs before other queues of the executor get their shares.
const TURN_NS: u64 = 1_000_000;

/// What the driver needs of the executor.
pub(in crate::io) trait Host {
    /// Called in a poll of the driver, which is about to return: lets other queues run before it.
    fn let_others_run(&self, cx: &mut Context<'_>);
    /// Whether the shard's tasks are gone, so that the driver may end with the last operation.
    fn is_stopping(&self) -> bool;
}

/// State of the driver between its turns.
struct Driver<H> {
    local: Rc<Local>,
    host: H,
    armed: bool,
    asleep_since_ns: Option<u64>,
    others_ran_ns: u64,
    polls_seen: u64,
    spin: Spin,
    retry: Option<Op>,
    cancelled: bool,
}

/// Runs the shard's ring until the host stops and every operation has ended.
pub(in crate::io) async fn drive(local: Rc<Local>, host: impl Host, spin_ns: u64) {
    local.ring.register_bell(&local.port.bell).expect("a new ring takes an eventfd");
    local.ring.completion_signal(false);
    let mut driver = Driver {
        local,
        host,
        armed: false,
        asleep_since_ns: None,
        others_ran_ns: 0,
        polls_seen: 0,
        spin: Spin { limit_ns: spin_ns, credits: 0 },
        retry: None,
        cancelled: false,
    };
    poll_fn(|cx| driver.turn(cx)).await;
}

impl<H: Host> Driver<H> {
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.disarm();
            let busy = self.work();
            if self.host.is_stopping() && self.is_over() {
                return Poll::Ready(());
            }
            let polls = self.local.polls.get();
            if busy || polls != self.polls_seen {
                self.polls_seen = polls;
                self.go_again(cx);
                return Poll::Pending;
            }
            if self.poll_retry(cx) || self.spin.run(&self.local) || !self.arm() {
                continue;
            }
            self.local.ring.driver.set(Some(cx.waker().clone()));
            return Poll::Pending;
        }
    }

    /// Queues the driver behind the tasks it woke, and now and then behind the other queues too.
    ///
    /// The executor's own preemption timer cannot be relied on: when it fires between a look at
    /// I/O and the first task, the executor goes to sleep with tasks runnable (glommio 0.9).
    fn go_again(&mut self, cx: &mut Context<'_>) {
        let now_ns = sys::monotonic_ns();
        if now_ns - self.others_ran_ns > TURN_NS {
            self.others_ran_ns = now_ns;
            self.host.let_others_run(cx);
        } else {
            cx.waker().wake_by_ref();
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
        if !self.local.ring.is_at_rest() {
            return false;
        }
        self.asleep_since_ns = Some(sys::monotonic_ns());
        true
    }
}

impl Ring {
    /// Lets the kernel run what work it has queued so far, which gave no signal while signals
    /// were off; false if that led to completions.
    ///
    /// The flag that tells of queued work may be set late, when the work is done already, and then
    /// stays. It counts no more once the kernel was asked often enough to run one item for every
    /// operation in flight: work queued later than that gives a signal.
    fn is_at_rest(&self) -> bool {
        for _ in 0..self.in_flight() / ITEMS_PER_ENTER + 2 {
            self.enter().expect("a ring in use can be entered");
            if self.has_results() || !self.backlog.borrow().is_empty() {
                return false;
            }
            if !self.has_work() {
                break;
            }
        }
        true
    }

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
        // Seen right after a round of work, the flag of queued work is probably a late one, and
        // then nothing can be seen by it.
        if local.ring.has_work() {
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
