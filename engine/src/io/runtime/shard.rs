//! The life of one shard's thread.

use std::{
    future::Future,
    rc::Rc,
    sync::{Arc, mpsc},
};

use super::{
    Blocking, Executor, RealEnv, Remote, ShardContext, bell::Bell, bridged, executor, failed,
};
use crate::{
    error::Result,
    io::{buf::Pool, local::Local, port::Port, sys, uring::Ring},
    limits::SHARDS_MAX,
    types::ShardId,
};

const _: () = assert!(SHARDS_MAX <= u16::MAX as usize);

/// All that a shard's thread needs to set itself up.
pub(super) struct Setup {
    pub(super) port: Arc<Port>,
    pub(super) cpu: Option<usize>,
    pub(super) executor: Executor,
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
    if let Some(cpu) = setup.cpu {
        sys::pin_to(cpu).map_err(|error| explain(&format!("no use of CPU {cpu}"), &error))?;
    }
    // The ring first: where io_uring is forbidden it says so, while the executor would panic.
    let ring = Ring::new(pool.clone()).map_err(|error| explain("no io_uring", &error))?;
    setup.cpu.into_iter().for_each(|cpu| ring.keep_workers_on(cpu));
    let borrowed = match setup.executor {
        Executor::Own => None,
        Executor::Glommio => {
            let made = bridged::executor(setup.cpu);
            let bell =
                setup.port.bell.try_clone().map_err(|error| explain("no eventfd", &error))?;
            Some((made.map_err(|error| explain("no executor", &error))?, bell))
        }
    };
    setup.ready.send(()).map_err(|error| explain("the start was given up", &error))?;
    drop(setup.ready);
    if setup.start.recv().is_err() {
        // Another shard could not be set up and says why.
        return Ok(());
    }
    let local = Local::new(setup.port, ring, pool, setup.blocking);
    Local::set_current(Some(local.clone()));
    match borrowed {
        None => executor::live(&local, setup.spin_us, remote, main),
        Some((borrowed, bell)) => borrowed.run(async {
            bridged::live(&local, Bell::new(bell), setup.spin_us, remote, main).await;
        }),
    }
    Local::set_current(None);
    Ok(())
}

/// What the main task of the shard `local` is given.
pub(super) fn context<M: Send>(
    local: &Rc<Local>,
    remote: &Remote<M>,
    env: &RealEnv,
) -> ShardContext<M> {
    let shard = local.port.shard;
    ShardContext {
        id: ShardId(u16::try_from(shard).expect("SHARDS_MAX fits")),
        count: remote.shards(),
        pool: local.pool.clone(),
        mesh: remote.end(shard),
        env: env.clone(),
    }
}
