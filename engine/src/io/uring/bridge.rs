//! The driver as a task of a borrowed executor, which cannot wait for a foreign ring.
//!
//! Submits what the others queued, takes completions, wakes whom they concern, and goes again
//! behind them. With nothing else runnable it spins while that pays, then arms the eventfd, which
//! the executor reads, and rests until woken. Each such rest costs several system calls more than
//! a block in the ring itself; and an executor that parks with tasks runnable is not woken by an
//! eventfd that nobody armed. Kept to compare with.
//! Invariant: at rest, the kernel signals the eventfd for whatever happens on the ring.

use std::{
    future::poll_fn,
    rc::Rc,
    sync::atomic::{Ordering, fence},
    task::{Context, Poll},
};

use super::{Ring, driver::Driver};
use crate::io::{local::Local, sys};

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

/// State of the bridge between the driver's turns.
struct Bridge<H> {
    local: Rc<Local>,
    driver: Driver,
    host: H,
    armed: bool,
    asleep_since_ns: Option<u64>,
    others_ran_ns: u64,
    polls_seen: u64,
}

/// Runs the shard's ring until the host stops and every operation has ended.
pub(in crate::io) async fn drive(local: Rc<Local>, host: impl Host, spin_ns: u64) {
    local.ring.register_bell(&local.port.bell).expect("a new ring takes an eventfd");
    local.ring.completion_signal(false);
    let mut bridge = Bridge {
        driver: Driver::new(local.clone(), spin_ns),
        local,
        host,
        armed: false,
        asleep_since_ns: None,
        others_ran_ns: 0,
        polls_seen: 0,
    };
    poll_fn(|cx| bridge.turn(cx)).await;
}

impl<H: Host> Bridge<H> {
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.disarm();
            let busy = self.driver.work(false);
            if self.host.is_stopping() && self.driver.is_over() {
                return Poll::Ready(());
            }
            let polls = self.local.polls.get();
            if busy || polls != self.polls_seen {
                self.polls_seen = polls;
                self.go_again(cx);
                return Poll::Pending;
            }
            if self.driver.should_stay(cx) || !self.arm() {
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

    fn disarm(&mut self) {
        if self.armed {
            self.armed = false;
            self.local.ring.completion_signal(false);
            self.local.port.stay_awake();
        }
        self.local.ring.driver.take();
        if let Some(since) = self.asleep_since_ns.take() {
            self.driver.slept(sys::monotonic_ns() - since);
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
