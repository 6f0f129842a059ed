//! Tasks of a shard: counted, so that the driver knows when the shard is idle; seated, so that all
//! can be told to stop; and fatal when they panic, as nothing a shard owns can then be trusted.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    process,
    rc::Rc,
    task::Poll,
    thread,
};

use crate::io::local::Local;

/// Ends the process when dropped by a panic.
pub(super) struct AbortOnPanic(pub(super) &'static str);

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            let name = thread::current().name().unwrap_or("a thread").to_owned();
            eprintln!("{name}: {} panicked; the process ends, as its state is unknown", self.0);
            process::abort();
        }
    }
}

/// A started task's place among the others.
struct Life {
    local: Rc<Local>,
    seat: Option<usize>,
}

impl Drop for Life {
    fn drop(&mut self) {
        self.local.live_tasks.update(|live| live - 1);
        if let Some(seat) = self.seat {
            self.local.tasks.borrow_mut().remove(seat);
        }
    }
}

/// Wraps a task for the executor; it counts as started from now on.
pub(super) fn prepare(
    local: Rc<Local>,
    task: impl Future<Output = ()> + 'static,
) -> impl Future<Output = ()> + 'static {
    local.live_tasks.update(|live| live + 1);
    let mut life = Life { local, seat: None };
    async move {
        let mut task = pin!(task);
        poll_fn(|cx| {
            let local = &life.local;
            local.polls.update(|polls| polls + 1);
            // While anything runs, the driver takes turns with it: it looks for completions, and
            // lets other queues run.
            local.ring.wake_driver();
            if local.stopping.get() {
                return Poll::Ready(());
            }
            if life.seat.is_none() {
                life.seat = Some(local.tasks.borrow_mut().insert(cx.waker().clone()));
            }
            let _guard = AbortOnPanic("a task");
            task.as_mut().poll(cx)
        })
        .await;
    }
}
