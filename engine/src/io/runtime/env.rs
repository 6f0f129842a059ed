//! The real world of a shard: clocks, randomness, tasks.

use std::{
    cell::RefCell,
    fmt,
    future::{Future, poll_fn},
    rc::Rc,
    task::Poll,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{bridged::Borrowed, executor, queues::Class, tasks};
use crate::io::{Clock, Entropy, Env, Spawn, file::RealDisk, local::Local, sys};

const RANDOM_BYTES: usize = 256;

/// Time, randomness and tasks of the shard it was made on; clones share them.
#[derive(Clone)]
pub struct RealEnv {
    world: Rc<World>,
}

struct World {
    local: Rc<Local>,
    /// The borrowed executor's queues, if it is not our own that runs the tasks.
    borrowed: Option<Borrowed>,
    random: RefCell<Random>,
}

/// Random bytes fetched ahead.
struct Random {
    bytes: [u8; RANDOM_BYTES],
    used: usize,
}

impl fmt::Debug for RealEnv {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RealEnv(shard {})", self.world.local.port.shard)
    }
}

impl RealEnv {
    pub(super) fn new(local: Rc<Local>, borrowed: Option<Borrowed>) -> Self {
        let random = RefCell::new(Random { bytes: [0; RANDOM_BYTES], used: RANDOM_BYTES });
        Self { world: Rc::new(World { local, borrowed, random }) }
    }

    /// Starts `task`, which runs to its end or to the shard's.
    pub(super) fn start(&self, task: impl Future<Output = ()> + 'static, class: Class) {
        let task = tasks::prepare(self.world.local.clone(), task);
        match &self.world.borrowed {
            None => executor::spawn(&self.world.local, class, task),
            Some(borrowed) => borrowed.spawn(class, task),
        }
    }
}

impl Env for RealEnv {
    type Disk = RealDisk;
}

impl Clock for RealEnv {
    fn wall_ms(&self) -> i64 {
        #[expect(clippy::disallowed_methods, reason = "the one real wall clock")]
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        // A clock before 1970 is as wrong as it gets; 0 sorts before every real time.
        now.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic_ns(&self) -> u64 {
        sys::monotonic_ns()
    }

    async fn sleep(&self, duration: Duration) {
        // The result tells only that the time is over.
        let _ = self.world.local.ring.timeout(duration).await;
    }
}

impl Entropy for RealEnv {
    fn next_u64(&self) -> u64 {
        let mut random = self.world.random.borrow_mut();
        if random.used == RANDOM_BYTES {
            sys::fill_random(&mut random.bytes);
            random.used = 0;
        }
        let mut word = [0; 8];
        word.copy_from_slice(&random.bytes[random.used..random.used + 8]);
        random.used += 8;
        u64::from_ne_bytes(word)
    }
}

impl Spawn for RealEnv {
    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.start(task, Class::Hot);
    }

    fn spawn_background(&self, task: impl Future<Output = ()> + 'static) {
        self.start(task, Class::Background);
    }

    async fn yield_now(&self) {
        if let Some(borrowed) = &self.world.borrowed {
            return borrowed.yield_now().await;
        }
        let mut yielded = false;
        poll_fn(|cx| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    async fn run_long<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.world.local.blocking.run_long(work).await
    }
}
