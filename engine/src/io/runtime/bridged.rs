//! A shard on glommio's executor, which runs the tasks while our own ring is one task among them.
//!
//! Not the default: it can park with tasks runnable, see `executor`. Kept to compare with, and as
//! proof that another executor can be put behind this seam.

use std::{cell::Cell, future::Future, pin::pin, rc::Rc, task::Context, time::Duration};

use glommio::{Latency, LocalExecutor, LocalExecutorBuilder, Placement, Shares, TaskQueueHandle};

use super::{RealEnv, Remote, ShardContext, bell::Bell, queues::Class, shard};
use crate::io::{
    local::Local,
    oneshot,
    uring::bridge::{self, Host},
};

/// Shares of the task queues: the data path against zeroing, deletion, read-ahead, retention.
const HOT_SHARES: usize = 1000;
const BACKGROUND_SHARES: usize = 50;

/// The executor's preemption timer is as good as off: see `Bridge::go_again`.
const PREEMPT_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The executor's own rings carry the eventfd read and nothing else.
const EXECUTOR_RING_DEPTH: usize = 16;
const EXECUTOR_MEMORY_BYTES: usize = 64 << 10;

/// The shard from the start of its main task to the end of its last operation.
pub(super) async fn live<M, F, T>(
    local: &Rc<Local>,
    bell: Bell,
    spin_us: u32,
    remote: &Remote<M>,
    main: &F,
) where
    M: Send + 'static,
    F: Fn(ShardContext<M>) -> T,
    T: Future<Output = ()> + 'static,
{
    // A queue with latency needs would use the ring by which the executor preempts: same trouble.
    let make_queue = |shares, name| {
        glommio::executor().create_task_queue(Shares::Static(shares), Latency::NotImportant, name)
    };
    let hot = make_queue(HOT_SHARES, "hot");
    let background = make_queue(BACKGROUND_SHARES, "background");
    let stop = Rc::new(Cell::new(false));
    let spin_ns = u64::from(spin_us) * 1000;
    let drive = bridge::drive(local.clone(), Executor { stop: stop.clone() }, spin_ns);
    let driver = glommio::spawn_local_into(drive, hot).expect("the queue was just made");
    let listen = bell.listen(local.clone(), stop.clone());
    let listener = glommio::spawn_local_into(listen, hot).expect("the queue was just made");

    let env = RealEnv::new(local.clone(), Some(Borrowed { hot, background }));
    let main = main(shard::context(local, remote, &env));
    let (ended, end) = oneshot::channel();
    let main = async move {
        main.await;
        ended.send(());
    };
    env.start(main, Class::Hot);
    end.await.expect("the main task runs to its end");

    remote.close(local.port.shard);
    stop_all(local).await;
    stop.set(true);
    local.ring.wake_driver();
    driver.await;
    local.port.wake();
    listener.await;
}

/// Drops every task where it stands; ready when all are gone.
async fn stop_all(local: &Local) {
    local.stopping.set(true);
    while local.live_tasks.get() > 0 {
        local.tasks.borrow().wake_all();
        glommio::executor().yield_task_queue_now().await;
    }
}

/// The executor's queues for our tasks.
#[derive(Clone, Copy)]
pub(super) struct Borrowed {
    hot: TaskQueueHandle,
    background: TaskQueueHandle,
}

impl Borrowed {
    pub(super) fn spawn(&self, class: Class, task: impl Future<Output = ()> + 'static) {
        let queue = match class {
            Class::Hot => self.hot,
            Class::Background => self.background,
        };
        let task = glommio::spawn_local_into(task, queue);
        task.expect("the queues live as long as the executor").detach();
    }

    pub(super) async fn yield_now(&self) {
        let executor = glommio::executor();
        if executor.current_task_queue() == self.background {
            executor.yield_task_queue_now().await;
        } else {
            executor.yield_now().await;
        }
    }
}

/// The executor as the driver sees it.
struct Executor {
    stop: Rc<Cell<bool>>,
}

impl Host for Executor {
    fn let_others_run(&self, cx: &mut Context<'_>) {
        // Its first poll marks the running queue and wakes the task; the rest is not needed.
        let yielded = pin!(glommio::executor().yield_task_queue_now()).poll(cx);
        assert!(yielded.is_pending(), "the queue is only marked by the first poll");
    }

    fn is_stopping(&self) -> bool {
        self.stop.get()
    }
}

pub(super) fn executor(cpu: Option<usize>) -> glommio::Result<LocalExecutor, ()> {
    let placement = cpu.map_or(Placement::Unbound, Placement::Fixed);
    LocalExecutorBuilder::new(placement)
        .preempt_timer(PREEMPT_AFTER)
        .ring_depth(EXECUTOR_RING_DEPTH)
        .io_memory(EXECUTOR_MEMORY_BYTES)
        .make()
}
