//! The shard's io_uring: submission, completion and cancellation.
//!
//! Owns the ring, the table of operations in flight and the receive buffers. Knows descriptors and
//! buffers, not files or connections, and not the executor: `driver` turns the ring between tasks,
//! `bridge` does so for a borrowed executor.
//! Invariant: whatever the kernel may touch lives until the operation's last completion, whoever
//! drops what before. Results are the kernel's own; nothing is retried here.

pub(in crate::io) mod bridge;
mod buffers;
pub(in crate::io) mod driver;
mod op;
mod slot;

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    rc::Rc,
    task::Waker,
};

use io_uring::{IoUring, cqueue, opcode, squeue::Entry, types::CancelBuilder};

use self::{
    buffers::ReceiveBuffers,
    slot::{Slots, State},
};
pub(in crate::io) use self::{
    op::{IOVECS_MAX, Op},
    slot::{Key, Sink},
};
use crate::{
    io::{
        buf::{Pool, Slice},
        sys,
    },
    limits::{RING_COMPLETIONS, RING_ENTRIES},
};

/// User data of submissions whose completion means nothing.
const IGNORED: u64 = u64::MAX;

/// Set in the user data of a cancellation, beside the key of what is to be cancelled.
const CANCELLATION: u64 = 1 << 63;

/// A completion as read from the ring: user data, result, flags.
type Completion = (u64, i32, u32);

/// One shard's ring. Field order matters: the ring closes before the buffers it knows are freed.
pub(in crate::io) struct Ring {
    uring: RefCell<IoUring>,
    slots: RefCell<Slots>,
    buffers: RefCell<ReceiveBuffers>,
    /// Submissions that found the queue full.
    backlog: RefCell<VecDeque<Entry>>,
    /// The driver while it waits to be woken.
    driver: Cell<Option<Waker>>,
    batch: RefCell<Vec<Completion>>,
    /// Receivers that wait for buffers.
    starved: RefCell<VecDeque<Rc<dyn Sink>>>,
}

impl Ring {
    /// A ring for the calling thread, which alone may use it.
    pub(in crate::io) fn new(pool: Pool) -> io::Result<Rc<Self>> {
        let uring = build(RING_ENTRIES, RING_COMPLETIONS)?;
        let buffers = ReceiveBuffers::register(&uring.submitter(), pool)?;
        Ok(Rc::new(Self {
            uring: RefCell::new(uring),
            slots: RefCell::default(),
            buffers: RefCell::new(buffers),
            backlog: RefCell::default(),
            driver: Cell::new(None),
            batch: RefCell::default(),
            starved: RefCell::default(),
        }))
    }

    /// Keeps the kernel's threads that serve this ring on one CPU. By itself the kernel wakes them
    /// wherever it likes; the shard that waits for them leaves its own CPU idle (and waking another
    /// is what costs: measured on two virtual CPUs, p99 of an acknowledgement 9 % less). Where the
    /// kernel knows no such thing (before 5.14), nothing changes.
    pub(in crate::io) fn keep_workers_on(&self, cpu: usize) {
        let _unknown = self.uring.borrow().submitter().register_iowq_aff(&sys::only(cpu));
    }

    /// Lets completions signal `bell` while the driver sleeps.
    fn register_bell(&self, bell: &impl AsRawFd) -> io::Result<()> {
        self.uring.borrow().submitter().register_eventfd(bell.as_raw_fd())
    }

    /// Queues a submission for the driver's next turn.
    fn push(&self, entry: Entry) {
        let mut backlog = self.backlog.borrow_mut();
        // SAFETY: what the entry points to lies in a slot, which outlives the operation.
        let full = !backlog.is_empty()
            || unsafe { self.uring.borrow_mut().submission().push(&entry) }.is_err();
        if full {
            backlog.push_back(entry);
        }
        drop(backlog);
        self.wake_driver();
    }

    /// Gives the driver a turn soon.
    pub(in crate::io) fn wake_driver(&self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    /// Asks the kernel to end an operation soon; its completion still comes.
    pub(in crate::io) fn cancel(&self, key: Key) {
        let user_data = key.user_data();
        let entry = opcode::AsyncCancel::new(user_data).build();
        self.push(entry.user_data(user_data | CANCELLATION));
    }

    /// A multishot operation that is just running cannot be cancelled and goes on: try again.
    fn cancellation_done(&self, key: Key, result: i32) {
        if result < 0 && self.slots.borrow().is_many(key) {
            self.cancel(key);
        }
    }

    /// Asks the kernel to end every operation soon.
    fn cancel_all(&self) {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::any()).build().user_data(IGNORED);
        self.push(entry);
    }

    /// Operations the kernel has not finished.
    fn in_flight(&self) -> usize {
        self.slots.borrow().in_use()
    }

    /// Hands queued submissions to the kernel and lets it run its deferred work here.
    fn enter(&self) -> io::Result<()> {
        self.enter_for(0)
    }

    /// As [`Ring::enter`], and waits until there is a completion. The kernel does not wait if it
    /// cannot take all submissions first.
    fn enter_and_wait(&self) -> io::Result<()> {
        self.enter_for(1)
    }

    fn enter_for(&self, completions: u32) -> io::Result<()> {
        loop {
            self.drain_backlog();
            let mut uring = self.uring.borrow_mut();
            let to_submit = u32::try_from(uring.submission().len()).unwrap_or(u32::MAX);
            // What found no room is submitted before anybody waits.
            let wait = if self.backlog.borrow().is_empty() { completions } else { 0 };
            let submitter = uring.submitter();
            // SAFETY: no argument structure is passed.
            let entered =
                unsafe { submitter.enter::<libc::sigset_t>(to_submit, wait, GETEVENTS, None) };
            match entered {
                Ok(_) => {}
                // The kernel wants completions taken, or memory back, first: the next turn tries.
                Err(error) if is_transient(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
            if self.backlog.borrow().is_empty() {
                return Ok(());
            }
            if uring.submission().is_full() {
                return Ok(());
            }
        }
    }

    fn drain_backlog(&self) {
        let mut backlog = self.backlog.borrow_mut();
        if backlog.is_empty() {
            return;
        }
        let mut uring = self.uring.borrow_mut();
        let mut queue = uring.submission();
        while let Some(entry) = backlog.front() {
            // SAFETY: what the entry points to lies in a slot, which outlives the operation.
            if unsafe { queue.push(entry) }.is_err() {
                break;
            }
            backlog.pop_front();
        }
    }

    /// Whether there seems to be something that only a call of the kernel gets done now;
    /// submissions alone are no reason if the next call `may_wait` for the one that blocks.
    fn must_enter(&self, may_wait: bool) -> bool {
        let mut uring = self.uring.borrow_mut();
        let queue = uring.submission();
        (!may_wait && !queue.is_empty()) || queue.cq_overflow() || queue.taskrun()
    }

    /// Whether there seems to be something to submit, run or take, by a look at shared memory.
    pub(in crate::io) fn has_work(&self) -> bool {
        let taskrun = self.uring.borrow_mut().submission().taskrun();
        taskrun || self.has_results()
    }

    /// Whether there is something to submit or to take.
    fn has_results(&self) -> bool {
        let mut uring = self.uring.borrow_mut();
        let queue = uring.submission();
        let submit = !queue.is_empty() || queue.cq_overflow();
        drop(queue);
        submit || !uring.completion().is_empty()
    }

    /// Takes all completions; returns how many.
    fn reap(&self) -> usize {
        let mut batch = self.batch.take();
        {
            let mut uring = self.uring.borrow_mut();
            let completions = uring.completion();
            batch.extend(completions.map(|c| (c.user_data(), c.result(), c.flags())));
        }
        let count = batch.len();
        for (user_data, result, flags) in batch.drain(..) {
            let key = Key::from_user_data(user_data & !CANCELLATION);
            if user_data & CANCELLATION == 0 {
                self.complete(key, result, flags);
            } else if user_data != IGNORED {
                self.cancellation_done(key, result);
            }
        }
        self.batch.replace(batch);
        count
    }

    fn complete(&self, key: Key, result: i32, flags: u32) {
        let more = cqueue::more(flags);
        let piece = self.received(result, flags);
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get(key);
        match &mut slot.state {
            State::Waiting(waker) => {
                let waker = waker.take();
                slot.state = State::Done(result);
                drop(slots);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            State::Abandoned => drop(slots.release(key)),
            State::Many(sink) => {
                let sink = sink.clone();
                let over = (!more).then(|| slots.release(key));
                drop(slots);
                sink.complete(result, piece, more);
                drop(over);
            }
            State::Free | State::Done(_) => unreachable!("the kernel completes an operation once"),
        }
    }

    fn received(&self, result: i32, flags: u32) -> Option<Slice> {
        let mut buffers = self.buffers.borrow_mut();
        if result == -libc::ENOBUFS {
            buffers.ran_out();
        }
        let id = cqueue::buffer_select(flags)?;
        let count = usize::try_from(result).unwrap_or(0);
        let keeps_filling = buffers.is_incremental() && cqueue::buffer_more(flags);
        buffers.received(id, count, keeps_filling)
    }

    /// Parks a receiver until buffers are there again.
    pub(in crate::io) fn starve(&self, receiver: Rc<dyn Sink>) {
        self.starved.borrow_mut().push_back(receiver);
    }

    /// Lends receive buffers as needed and resumes as many starved receivers as have a chance.
    /// Returns whether any are still starved.
    fn feed(&self) -> bool {
        let mut buffers = self.buffers.borrow_mut();
        buffers.refill();
        let lent = buffers.lent();
        drop(buffers);
        for _ in 0..lent {
            let Some(receiver) = self.starved.borrow_mut().pop_front() else { break };
            receiver.resume();
        }
        !self.starved.borrow().is_empty()
    }

    /// Whether receive buffers are short: whoever holds part of a frame should copy it away.
    pub(in crate::io) fn is_short_of_buffers(&self) -> bool {
        self.buffers.borrow().pool_refused() || !self.starved.borrow().is_empty()
    }
}

/// `IORING_ENTER_GETEVENTS`.
const GETEVENTS: u32 = 1;

fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN | libc::ENOMEM))
}

/// A ring with deferred task work where the kernel has it (6.1), else a plain one.
pub(in crate::io) fn build(entries: u32, completions: u32) -> io::Result<IoUring> {
    let deferred = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_cqsize(completions)
        .build(entries);
    match deferred {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            IoUring::builder().setup_cqsize(completions).build(entries)
        }
        other => other,
    }
}

/// The descriptor that a completion of an accept carries. Call once per completion.
pub(in crate::io) fn accepted_descriptor(result: i32) -> OwnedFd {
    assert!(result >= 0, "only a successful accept carries a descriptor");
    // SAFETY: the kernel made the descriptor for this completion and tells nobody else.
    unsafe { OwnedFd::from_raw_fd(result) }
}
