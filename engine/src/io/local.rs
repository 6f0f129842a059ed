//! What a shard's thread keeps for all code that runs on it, found through a thread-local.
//!
//! Owns the shard's ring, its receive buffers and the wakers of tasks that wait for something
//! other than the ring. Knows nothing of the executor. Never leaves its thread.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    task::Waker,
};

use super::{
    buf::Pool,
    net::Acceptors,
    port::Port,
    runtime::{blocking::Blocking, queues::Queues},
    uring::Ring,
};

thread_local! {
    static CURRENT: RefCell<Option<Rc<Local>>> = const { RefCell::new(None) };
}

/// The calling thread's shard.
pub(super) struct Local {
    pub(super) port: Arc<Port>,
    pub(super) ring: Rc<Ring>,
    pub(super) pool: Pool,
    pub(super) blocking: Blocking,
    pub(super) acceptors: Acceptors,
    /// Tasks to wake when the bell rings: receivers of the mesh, and senders that wait for room.
    pub(super) bell_waiters: RefCell<Vec<Waker>>,
    /// Tasks that wait for a [`super::oneshot`].
    pub(super) waits: RefCell<Wakers>,
    /// All tasks, so that they can be told to stop.
    pub(super) tasks: RefCell<Wakers>,
    /// Tasks started and not yet ended.
    pub(super) live_tasks: Cell<usize>,
    /// Polls of all tasks so far; the driver tells by it whether anything else was runnable.
    pub(super) polls: Cell<u64>,
    pub(super) stopping: Cell<bool>,
    /// Runnable tasks, where the executor is our own.
    pub(super) queues: Queues,
}

impl Local {
    pub(super) fn new(port: Arc<Port>, ring: Rc<Ring>, pool: Pool, blocking: Blocking) -> Rc<Self> {
        Rc::new(Self {
            port,
            ring,
            pool,
            blocking,
            acceptors: Acceptors::default(),
            bell_waiters: RefCell::default(),
            waits: RefCell::default(),
            tasks: RefCell::default(),
            live_tasks: Cell::new(0),
            polls: Cell::new(0),
            stopping: Cell::new(false),
            queues: Queues::default(),
        })
    }

    /// The calling thread's shard, if it is a shard's thread.
    pub(super) fn find() -> Option<Rc<Self>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// The calling thread's shard. Panics on any other thread: sockets and files belong to shards.
    pub(super) fn current() -> Rc<Self> {
        Self::find().expect("sockets, files and sleeps are used on a shard's own thread")
    }

    /// Calls `then` with the calling thread's shard if it is the one of `port`.
    pub(super) fn with_own<T>(port: &Arc<Port>, then: impl FnOnce(&Self) -> T) -> Option<T> {
        // A waker may be used as late as in the destructors of a thread's other locals.
        let own = CURRENT.try_with(|current| {
            let current = current.borrow();
            current.as_ref().filter(|shard| Arc::ptr_eq(&shard.port, port)).map(|own| then(own))
        });
        own.ok().flatten()
    }

    /// Makes `shard` the calling thread's, or none.
    pub(super) fn set_current(shard: Option<Rc<Self>>) {
        let old = CURRENT.replace(shard);
        drop(old);
    }

    /// Wakes `waker` when the bell rings next.
    pub(super) fn wait_for_bell(&self, waker: &Waker) {
        let mut waiters = self.bell_waiters.borrow_mut();
        if !waiters.iter().any(|known| known.will_wake(waker)) {
            waiters.push(waker.clone());
        }
    }

    /// Wakes the tasks that wait for the bell.
    pub(super) fn wake_bell_waiters(&self) {
        // Wakers only schedule, so none can come back here; the vector keeps its memory.
        let mut waiters = self.bell_waiters.take();
        waiters.drain(..).for_each(Waker::wake);
        let mut place = self.bell_waiters.borrow_mut();
        if place.is_empty() {
            *place = waiters;
        }
    }

    /// Wakes the tasks whose waits other threads fulfilled.
    pub(super) fn wake_fulfilled(&self) {
        while let Some(key) = self.port.fulfilled.pop() {
            self.waits.borrow().wake(key);
        }
    }

    /// Queues the tasks that other threads woke.
    pub(super) fn take_foreign(&self) {
        while let Some((class, task)) = self.port.woken.pop() {
            self.queues.push(class, task);
        }
    }
}

/// Wakers under small reusable keys.
#[derive(Default)]
pub(super) struct Wakers {
    seats: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Wakers {
    /// Keeps a waker; returns its key.
    pub(super) fn insert(&mut self, waker: Waker) -> usize {
        if let Some(key) = self.free.pop() {
            self.seats[key] = Some(waker);
            return key;
        }
        self.seats.push(Some(waker));
        self.seats.len() - 1
    }

    /// Replaces the waker under `key` if the task moved.
    pub(super) fn update(&mut self, key: usize, waker: &Waker) {
        let seat = &mut self.seats[key];
        if !seat.as_ref().is_some_and(|old| old.will_wake(waker)) {
            *seat = Some(waker.clone());
        }
    }

    /// Forgets the waker under `key`.
    pub(super) fn remove(&mut self, key: usize) {
        self.seats[key] = None;
        self.free.push(key);
    }

    /// Wakes the task under `key`; a key given up meanwhile may wake another, which does no harm.
    pub(super) fn wake(&self, key: usize) {
        if let Some(waker) = self.seats.get(key).and_then(Option::as_ref) {
            waker.wake_by_ref();
        }
    }

    /// Wakes every task.
    pub(super) fn wake_all(&self) {
        self.seats.iter().flatten().for_each(Waker::wake_by_ref);
    }
}
