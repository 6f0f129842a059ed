//! The executor of a shard: tasks in rounds, the ring between them, and sleep in the ring itself.
//!
//! Our own, because the borrowed one of `bridged` parks with tasks runnable: it looks at its
//! preemption flag before the first task, gives up the round and goes to sleep, and nobody wakes
//! it (measured: one in a hundred starts of a broker on a busy machine hung). It also waits on a
//! ring that is not ours, which cost about 45 us of CPU per idle wake-up.
//! Invariant: the shard blocks only while no task is runnable, and whoever makes one runnable from
//! another thread rings the port afterwards.

use std::{cell::Cell, future::Future, rc::Rc};

use super::{
    RealEnv, Remote, ShardContext,
    queues::{Class, Task},
    shard,
};
use crate::io::{local::Local, sys, uring::driver::Driver};

/// Starts a task on the calling thread, which is that of `local`.
pub(super) fn spawn(local: &Rc<Local>, class: Class, task: impl Future<Output = ()> + 'static) {
    let port = local.port.clone();
    let schedule = move |task: Task| {
        let mut task = Some(task);
        let queue = |own: &Local| own.queues.push(class, task.take().expect("queued once"));
        if Local::with_own(&port, queue).is_none() {
            // Without a shard there is no task left to be woken, so this is for a running one.
            port.woken.push((class, task.take().expect("queued once")));
            port.ring();
        }
    };
    let (runnable, handle) = async_task::spawn_local(task, schedule);
    handle.detach();
    runnable.schedule();
}

/// The shard from the start of its main task to the end of its last operation.
pub(super) fn live<M, F, T>(local: &Rc<Local>, spin_us: u32, remote: &Remote<M>, main: &F)
where
    M: Send + 'static,
    F: Fn(ShardContext<M>) -> T,
    T: Future<Output = ()> + 'static,
{
    let env = RealEnv::new(local.clone(), None);
    let main = main(shard::context(local, remote, &env));
    let ended = Rc::new(Cell::new(false));
    let end = ended.clone();
    let main = async move {
        main.await;
        end.set(true);
    };
    env.start(main, Class::Hot);

    let mut driver = Driver::new(local.clone(), u64::from(spin_us) * 1000);
    while !ended.get() {
        local.queues.run_round(sys::monotonic_ns);
        if !driver.work(local.queues.is_empty()) && local.queues.is_empty() && !ended.get() {
            driver.rest();
        }
    }
    remote.close(local.port.shard);
    stop_all(local, &mut driver);
    loop {
        let busy = driver.work(false);
        if driver.is_over() {
            break;
        }
        if !busy {
            driver.rest();
        }
    }
}

/// Drops every task where it stands; returns when all are gone.
fn stop_all(local: &Local, driver: &mut Driver) {
    local.stopping.set(true);
    while local.live_tasks.get() > 0 {
        local.tasks.borrow().wake_all();
        local.queues.run_round(sys::monotonic_ns);
        driver.work(false);
    }
    // A task is counted off before its executor forgets it, and may have been woken in between.
    while !local.queues.is_empty() {
        local.queues.run_round(sys::monotonic_ns);
    }
}
