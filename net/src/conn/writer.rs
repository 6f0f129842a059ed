//! Answers in request order: the writing half of a connection.

use std::rc::Rc;

use millrace_engine::{
    io::{Clock, buf::Chain},
    shard::signal::race,
};

use super::{Shared, Transform, Work};
use crate::handler;

/// Takes the connection's work in order, waits for each answer and sends it.
pub(super) async fn run(shared: Rc<Shared>) {
    while let Some(work) = next(&shared).await {
        let answered = answer(&shared, work).await;
        shared.open.set(shared.open.get() - 1);
        let sent = match answered {
            Some(Some(answer)) => send(&shared, answer).await,
            // Acks 0: nothing is sent, and nothing went wrong.
            Some(None) => true,
            None => false,
        };
        shared.done.fire();
        if !sent {
            break;
        }
    }
    shared.close();
    shared.stream.shutdown();
}

/// The next work; `None` when the reader is gone and all is done.
async fn next(shared: &Rc<Shared>) -> Option<Work> {
    loop {
        if let Some(work) = shared.queue.borrow_mut().pop_front() {
            return Some(work);
        }
        if shared.closing.get() {
            return None;
        }
        shared.came.rearm();
        shared.came.wait().await;
    }
}

/// The answer of one request: `None` closes the connection, `Some(None)` sends nothing.
async fn answer(shared: &Rc<Shared>, work: Work) -> Option<Option<Chain>> {
    match work {
        Work::Produce(started) => started.finish(&shared.broker).await,
        Work::Run(kind, frame) => {
            let run = handler::run(&shared.broker, &shared.peer, &frame);
            // A client that left waits for no fetch.
            let ran = if kind == handler::Kind::Fetch {
                race(run, shared.closed.wait()).await?
            } else {
                run.await
            };
            ran.map(Some)
        }
    }
}

async fn send(shared: &Rc<Shared>, answer: Chain) -> bool {
    let bytes = shared.transform.borrow_mut().sending(answer);
    shared.sending_since_ns.set(Some(shared.broker.shard.env().monotonic_ns()));
    let sent = shared.stream.send(&bytes).await;
    shared.sending_since_ns.set(None);
    sent.is_ok()
}
