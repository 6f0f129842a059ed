//! One turn of the ring between tasks, and the sleep when there is none to run.
//!
//! A turn submits what tasks queued, takes completions and wakes whom they concern. Before sleep
//! it spins while that has been paying; then it blocks in the ring, which also reads the shard's
//! eventfd, so that one system call waits for the kernel and for other threads alike. (Measured:
//! waiting by way of another executor's ring cost about 45 us of CPU per idle wake-up, and missed
//! wake-ups when that executor slept on its own account.)
//! Knows nothing of what the completions mean, nor who runs the tasks.
//! Invariant: nobody blocks with a submission that the kernel has not taken, a completion that
//! nobody has, or an eventfd that the ring does not read.
//! A failing ring is beyond repair and ends the process.

use std::{
    future::Future,
    hint::spin_loop,
    pin::Pin,
    rc::Rc,
    task::{Context, Waker},
    time::Duration,
};

use super::Op;
use crate::io::{local::Local, sys};

/// How long starved receivers wait for blocks to come back to the pool before another look.
const STARVED_RETRY: Duration = Duration::from_millis(2);

/// A sleep ended sooner than a spin plus this would have been better spun: cost of a wake-up.
const WAKE_COST_NS: u64 = 60_000;

/// Credits at which spinning starts; a miss costs as much as four hits earn.
const CREDITS_TO_SPIN: i32 = 8;
const CREDITS_MAX: i32 = 16;
const MISS_COST: i32 = 4;

/// State of the driver between its turns.
pub(in crate::io) struct Driver {
    local: Rc<Local>,
    spin: Spin,
    retry: Option<Op>,
    /// The read of the eventfd; in flight whenever the driver blocks, unless it is stopping.
    bell: Option<Op>,
    stopping: bool,
    cancelled: bool,
}

impl Driver {
    /// A driver that spins at most `spin_ns` before it sleeps.
    pub(in crate::io) fn new(local: Rc<Local>, spin_ns: u64) -> Self {
        let spin = Spin { limit_ns: spin_ns, credits: 0 };
        Self { local, spin, retry: None, bell: None, stopping: false, cancelled: false }
    }

    /// One round of submitting and completing; whether anything happened. `idle` says that no task
    /// is runnable: then submissions may wait for the call that blocks.
    pub(in crate::io) fn work(&mut self, idle: bool) -> bool {
        let ring = &self.local.ring;
        if ring.must_enter(idle) {
            ring.enter().expect("a ring in use can be entered");
        }
        let reaped = ring.reap();
        let rang = self.local.port.answer();
        if rang {
            self.local.wake_bell_waiters();
            self.local.wake_fulfilled();
            self.local.take_foreign();
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
    pub(in crate::io) fn is_over(&mut self) -> bool {
        self.stopping = true;
        self.retry = None;
        self.bell = None;
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

    /// With nothing to do: whether something is to be done instead of sleeping.
    pub(super) fn should_stay(&mut self, cx: &mut Context<'_>) -> bool {
        self.poll_retry(cx) || self.spin.run(&self.local)
    }

    /// Learns from a sleep of `slept_ns`.
    pub(super) fn slept(&mut self, slept_ns: u64) {
        self.spin.slept(slept_ns);
    }

    /// With nothing to do: blocks until a completion comes or another thread rings.
    pub(in crate::io) fn rest(&mut self) {
        // The completion that a waker would tell of ends the block anyway.
        if self.should_stay(&mut Context::from_waker(Waker::noop())) {
            return;
        }
        self.arm_bell();
        if !self.local.port.fall_asleep() {
            return;
        }
        let since = sys::monotonic_ns();
        // What completed meanwhile lets the call return at once: the kernel waits until there is a
        // completion to be taken, not for a new one.
        self.local.ring.enter_and_wait().expect("a ring in use can be entered");
        self.local.port.stay_awake();
        self.slept(sys::monotonic_ns() - since);
    }

    /// Lets the ring read the eventfd, if it does not do so already.
    fn arm_bell(&mut self) {
        if self.stopping {
            return;
        }
        if let Some(bell) = &mut self.bell {
            let mut cx = Context::from_waker(Waker::noop());
            if Pin::new(bell).poll(&mut cx).is_pending() {
                return;
            }
        }
        self.bell = Some(self.local.ring.read_count(&self.local.port.bell));
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
