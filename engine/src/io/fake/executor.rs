//! A single-threaded executor whose every choice comes from a seed, with virtual time.
//!
//! A step runs one ready task, completes one disk operation or, when neither is possible, moves
//! time to the next timer. Nothing depends on the machine.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap},
    future::Future,
    pin::Pin,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use super::{disk::FakeDisk, random::Random};
use crate::io::{Clock, Entropy, Env, Spawn};

/// Wall time at which every run starts.
const START_WALL_MS: i64 = 1_700_000_000_000;
/// Steps after which a run that should end is taken to hang.
const STEPS_MAX: usize = 5_000_000;

type Task = Pin<Box<dyn Future<Output = ()>>>;
type Ready = Arc<Mutex<Vec<u64>>>;

struct TaskWaker {
    id: u64,
    ready: Ready,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if !ready.contains(&self.id) {
            ready.push(self.id);
        }
    }
}

pub(super) struct World {
    random: RefCell<Random>,
    now_ns: Cell<u64>,
    next_id: Cell<u64>,
    tasks: RefCell<HashMap<u64, Task>>,
    spawned: RefCell<Vec<(u64, Task)>>,
    ready: Ready,
    timers: RefCell<BTreeMap<(u64, u64), Waker>>,
    pub(super) operations: RefCell<Vec<Box<dyn FnOnce()>>>,
}

impl World {
    fn fresh_id(&self) -> u64 {
        self.next_id.set(self.next_id.get() + 1);
        self.next_id.get()
    }

    fn lock_ready(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(&self, task: Task) {
        let id = self.fresh_id();
        self.spawned.borrow_mut().push((id, task));
        self.lock_ready().push(id);
    }

    /// One thing happens; `false` when nothing can but the passing of time.
    fn step(&self) -> bool {
        self.tasks.borrow_mut().extend(self.spawned.borrow_mut().drain(..));
        self.now_ns.set(self.now_ns.get() + 1_000);
        let (ready, operations) = (self.lock_ready().len(), self.operations.borrow().len());
        if ready + operations == 0 {
            return false;
        }
        let choice = self.random.borrow_mut().below(ready + operations);
        if choice < ready {
            let id = self.lock_ready().swap_remove(choice);
            self.poll(id);
        } else {
            let operation = self.operations.borrow_mut().swap_remove(choice - ready);
            operation();
        }
        true
    }

    fn poll(&self, id: u64) {
        let Some(mut task) = self.tasks.borrow_mut().remove(&id) else { return };
        let waker = Waker::from(Arc::new(TaskWaker { id, ready: self.ready.clone() }));
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            self.tasks.borrow_mut().insert(id, task);
        }
    }

    /// Moves time to the next timer at or before `until_ns` and fires it.
    fn fire_timer(&self, until_ns: u64) -> bool {
        let next = self.timers.borrow().first_key_value().map(|(key, _)| key.0);
        let Some(at) = next else { return false };
        if at > until_ns {
            return false;
        }
        let fired = self.timers.borrow_mut().pop_first();
        self.now_ns.set(self.now_ns.get().max(at));
        if let Some((_, waker)) = fired {
            waker.wake();
        }
        true
    }
}

/// A world in which tasks run: the executor and its disk.
pub struct Sim {
    world: Rc<World>,
    disk: FakeDisk,
}

impl Sim {
    /// A world with an empty disk.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with_disk(seed, |world| FakeDisk::new(world, seed))
    }

    fn with_disk(seed: u64, disk: impl FnOnce(Rc<World>) -> FakeDisk) -> Self {
        let world = Rc::new(World {
            random: RefCell::new(Random::new(seed)),
            now_ns: Cell::new(0),
            next_id: Cell::new(0),
            tasks: RefCell::default(),
            spawned: RefCell::default(),
            ready: Arc::default(),
            timers: RefCell::default(),
            operations: RefCell::default(),
        });
        Self { disk: disk(world.clone()), world }
    }

    /// The environment for the code under test.
    #[must_use]
    pub fn env(&self) -> FakeEnv {
        FakeEnv { world: self.world.clone() }
    }

    /// The disk of this world.
    #[must_use]
    pub fn disk(&self) -> FakeDisk {
        self.disk.clone()
    }

    /// Runs at most `steps` steps; `false` when there was nothing left to do but wait.
    pub fn run(&self, steps: usize) -> bool {
        (0..steps).all(|_| self.world.step())
    }

    /// Runs until nothing can happen but the passing of time.
    ///
    /// Panics after some millions of steps.
    pub fn settle(&self) {
        assert!(!self.run(STEPS_MAX), "the world settles");
    }

    /// Lets virtual time pass, with all that happens meanwhile.
    pub fn advance(&self, duration: Duration) {
        let passed = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = self.world.now_ns.get().saturating_add(passed);
        loop {
            self.settle();
            if !self.world.fire_timer(until_ns) {
                break;
            }
        }
        self.world.now_ns.set(self.world.now_ns.get().max(until_ns));
    }

    /// Runs `future` to its end, with all other tasks, time passing as needed.
    ///
    /// Panics when it can never end.
    pub fn block_on<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        let result = Rc::new(RefCell::new(None));
        let target = result.clone();
        self.world.spawn(Box::pin(async move {
            let value = future.await;
            *target.borrow_mut() = Some(value);
        }));
        for _ in 0..STEPS_MAX {
            if let Some(value) = result.borrow_mut().take() {
                return value;
            }
            if !self.world.step() {
                assert!(self.world.fire_timer(u64::MAX), "the future waits for nothing");
            }
        }
        panic!("the future ends within some millions of steps");
    }

    /// Cuts the power: all tasks are gone, operations in flight happened in part or not at all, and
    /// the disk keeps what it must and perhaps more. Returns the world after the restart.
    #[must_use]
    pub fn crash(self, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let operations = std::mem::take(&mut *self.world.operations.borrow_mut());
        for operation in operations {
            if random.chance(50) {
                operation();
            }
        }
        self.end_tasks();
        let next = Self::with_disk(seed, |world| self.disk.after_crash(world, &mut random));
        next.world.now_ns.set(self.world.now_ns.get() + 1_000_000_000);
        next
    }

    /// Ends the process without a power cut: the operating system finishes what it was given.
    #[must_use]
    pub fn kill(self, seed: u64) -> Self {
        let operations = std::mem::take(&mut *self.world.operations.borrow_mut());
        operations.into_iter().for_each(|operation| operation());
        self.end_tasks();
        let next = Self::with_disk(seed, |world| self.disk.after_kill(world));
        next.world.now_ns.set(self.world.now_ns.get() + 1_000_000_000);
        next
    }

    /// Tasks own handles of each other; they go one by one, with no borrow held.
    fn end_tasks(&self) {
        let spawned = std::mem::take(&mut *self.world.spawned.borrow_mut());
        drop(spawned);
        let tasks = std::mem::take(&mut *self.world.tasks.borrow_mut());
        drop(tasks);
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let operations = std::mem::take(&mut *self.world.operations.borrow_mut());
        drop(operations);
        self.end_tasks();
    }
}

/// The environment of a [`Sim`].
#[derive(Clone)]
pub struct FakeEnv {
    world: Rc<World>,
}

impl Env for FakeEnv {
    type Disk = FakeDisk;
}

impl Clock for FakeEnv {
    fn wall_ms(&self) -> i64 {
        let passed_ms = self.world.now_ns.get() / 1_000_000;
        START_WALL_MS + i64::try_from(passed_ms).unwrap_or(i64::MAX / 2)
    }

    fn monotonic_ns(&self) -> u64 {
        self.world.now_ns.get()
    }

    async fn sleep(&self, duration: Duration) {
        let wait_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let at = self.world.now_ns.get().saturating_add(wait_ns);
        let id = self.world.fresh_id();
        std::future::poll_fn(|context| {
            if self.world.now_ns.get() >= at {
                return Poll::Ready(());
            }
            self.world.timers.borrow_mut().insert((at, id), context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Entropy for FakeEnv {
    fn next_u64(&self) -> u64 {
        self.world.random.borrow_mut().bits()
    }
}

impl Spawn for FakeEnv {
    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.world.spawn(Box::pin(task));
    }

    fn spawn_background(&self, task: impl Future<Output = ()> + 'static) {
        self.world.spawn(Box::pin(task));
    }

    async fn yield_now(&self) {
        let mut yielded = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    async fn run_long<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.yield_now().await;
        work()
    }
}
