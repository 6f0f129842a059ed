//! Runnable tasks of a shard, by class, and which comes next.
//!
//! The data path goes first; the background gets a small share of the time while there is data
//! path work, and all the time there is none. Shard thread only; tasks that other threads wake
//! come by way of the port.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

/// A runnable task: to be run once, on its shard's thread.
pub(in crate::io) type Task = async_task::Runnable;

/// How long one round may take before the ring has a turn again.
const ROUND_NS: u64 = 1_000_000;

/// Time of the data path that pays for the same time of the background.
const HOT_PER_BACKGROUND: u64 = 20;

/// The longest debt the background can run up, so that one slow task does not starve the rest.
const DEBT_MAX_NS: u64 = 20_000_000;

/// What a task is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::io) enum Class {
    /// The data path.
    Hot,
    /// Zeroing, deletion, read-ahead, retention.
    Background,
}

/// The runnable tasks.
#[derive(Default)]
pub(in crate::io) struct Queues {
    hot: RefCell<VecDeque<Task>>,
    background: RefCell<VecDeque<Task>>,
    /// Time of the data path that the background has yet to wait for, where they compete.
    debt_ns: Cell<u64>,
}

impl Queues {
    /// Queues a task behind the others of its class.
    pub(in crate::io) fn push(&self, class: Class, task: Task) {
        self.of(class).borrow_mut().push_back(task);
    }

    /// Whether no task is runnable.
    pub(super) fn is_empty(&self) -> bool {
        self.hot.borrow().is_empty() && self.background.borrow().is_empty()
    }

    /// Runs each data path task that is runnable now once, as long as a round may take, and one of
    /// the background if it is its turn; `clock` gives nanoseconds. A task that wakes itself waits
    /// for the next round.
    pub(super) fn run_round(&self, clock: impl Fn() -> u64) {
        if self.is_empty() {
            return;
        }
        let start = clock();
        let mut now = start;
        let queued = self.hot.borrow().len();
        for _ in 0..queued {
            self.run_next(Class::Hot);
            now = clock();
            if now - start > ROUND_NS {
                break;
            }
        }
        self.debt_ns.update(|debt| debt.saturating_sub(now - start));
        self.run_background(now, clock);
    }

    /// Runs one task of the background, behind which the ring has a turn again: completions are
    /// waited for no longer than that.
    fn run_background(&self, before: u64, clock: impl Fn() -> u64) {
        if self.background.borrow().is_empty() {
            return;
        }
        let competes = !self.hot.borrow().is_empty();
        if competes && self.debt_ns.get() > 0 {
            return;
        }
        self.run_next(Class::Background);
        if competes {
            let debt = (clock() - before) * HOT_PER_BACKGROUND;
            self.debt_ns.set(debt.min(DEBT_MAX_NS));
        }
    }

    fn run_next(&self, class: Class) {
        // Not held while the task runs: it wakes others.
        let task = self.of(class).borrow_mut().pop_front();
        if let Some(task) = task {
            task.run();
        }
    }

    fn of(&self, class: Class) -> &RefCell<VecDeque<Task>> {
        match class {
            Class::Hot => &self.hot,
            Class::Background => &self.background,
        }
    }
}
