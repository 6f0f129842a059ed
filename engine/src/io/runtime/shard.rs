//! The life of one shard's thread.

use std::{
    cell::Cell,
    future::Future,
    pin::pin,
    rc::Rc,
    sync::{Arc, mpsc},
    task::Context,
    time::Duration,
};

use glommio::{Latency, LocalExecutor, LocalExecutorBuilder, Placement, Shares};

use super::{Blocking, RealEnv, Remote, ShardContext, bell::Bell, failed, tasks};
use crate::{
    error::Result,
    io::{
        buf::Pool,
        local::Local,
        port::Port,
        uring::{
            Ring,
            driver::{self, Host},
        },
    },
    limits::SHARDS_MAX,
    types::ShardId,
};

/// Shares of the task queues: the data path against zeroing, deletion, read-ahead, retention.
const HOT_SHARES: usize = 1000;
const BACKGROUND_SHARES: usize = 50;

/// The executor's preemption timer is as good as off: see `Driver::go_again`.
const PREEMPT_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The executor's own rings carry the eventfd read and nothing else.
const EXECUTOR_RING_DEPTH: usize = 16;
const EXECUTOR_MEMORY_BYTES: usize = 64 << 10;

const _: () = assert!(SHARDS_MAX <= u16::MAX as usize);

/// All that a shard's thread needs to set itself up.
pub(super) struct Setup {
    pub(super) port: Arc<Port>,
    pub(super) cpu: Option<usize>,
    pub(super) spin_us: u32,
    pub(super) buffer_budget_bytes: usize,
    pub(super) blocking: Blocking,
    pub(super) ready: mpsc::Sender<()>,
    pub(super) start: mpsc::Receiver<()>,
}

/// Sets the shard up, waits for the others, runs `main` and takes everything down again.
pub(super) fn run<M, F, T>(setup: Setup, remote: &Remote<M>, main: &F) -> Result<()>
where
    M: Send + 'static,
    F: Fn(ShardContext<M>) -> T,
    T: Future<Output = ()> + 'static,
{
    let shard = setup.port.shard;
    let explain = |what: &str, error: &dyn std::fmt::Display| {
        failed(format!("shard {shard}: {what}: {error}"))
    };
    let pool = Pool::new(setup.buffer_budget_bytes);
    // The ring first: where io_uring is forbidden it says so, while the executor would panic.
    let ring = Ring::new(pool.clone()).map_err(|error| explain("no io_uring", &error))?;
    let executor = executor(setup.cpu).map_err(|error| explain("no executor", &error))?;
    let bell = setup.port.bell.try_clone().map_err(|error| explain("no eventfd", &error))?;
    setup.ready.send(()).map_err(|error| explain("the start was given up", &error))?;
    drop(setup.ready);
    if setup.start.recv().is_err() {
        // Another shard could not be set up and says why.
        return Ok(());
    }
    let local = Local::new(setup.port, ring, pool, setup.blocking);
    Local::set_current(Some(local.clone()));
    executor.run(async { live(&local, Bell::new(bell), setup.spin_us, remote, main).await });
    Local::set_current(None);
    Ok(())
}

/// The shard from the start of its main task to the end of its last operation.
async fn live<M, F, T>(local: &Rc<Local>, bell: Bell, spin_us: u32, remote: &Remote<M>, main: &F)
where
    M: Send + 'static,
    F: Fn(ShardContext<M>) -> T,
    T: Future<Output = ()> + 'static,
{
    let shard = local.port.shard;
    // A queue with latency needs would use the ring by which the executor preempts: same trouble.
    let make_queue = |shares, name| {
        glommio::executor().create_task_queue(Shares::Static(shares), Latency::NotImportant, name)
    };
    let hot = make_queue(HOT_SHARES, "hot");
    let background = make_queue(BACKGROUND_SHARES, "background");
    let stop = Rc::new(Cell::new(false));
    let spin_ns = u64::from(spin_us) * 1000;
    let drive = driver::drive(local.clone(), Executor { stop: stop.clone() }, spin_ns);
    let driver = glommio::spawn_local_into(drive, hot).expect("the queue was just made");
    let listen = bell.listen(local.clone(), stop.clone());
    let listener = glommio::spawn_local_into(listen, hot).expect("the queue was just made");

    let env = RealEnv::new(local.clone(), hot, background);
    let context = ShardContext {
        id: ShardId(u16::try_from(shard).expect("SHARDS_MAX fits")),
        count: remote.shards(),
        pool: local.pool.clone(),
        mesh: remote.end(shard),
        env: env.clone(),
    };
    env.start(main(context), env.hot()).await;

    remote.close(shard);
    tasks::stop_all(local).await;
    stop.set(true);
    local.ring.wake_driver();
    driver.await;
    local.port.wake();
    listener.await;
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

fn executor(cpu: Option<usize>) -> glommio::Result<LocalExecutor, ()> {
    let placement = cpu.map_or(Placement::Unbound, Placement::Fixed);
    LocalExecutorBuilder::new(placement)
        .preempt_timer(PREEMPT_AFTER)
        .ring_depth(EXECUTOR_RING_DEPTH)
        .io_memory(EXECUTOR_MEMORY_BYTES)
        .make()
}
