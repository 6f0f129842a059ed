//! Answers in request order: the writing half of a connection.

use std::rc::Rc;

use millrace_engine::{io::buf::Chain, shard::signal::race};

use super::{Queued, Shared, Transform, Work};
use crate::{handler, limits};

/// Takes the connection's work in order, waits for each answer and sends it.
pub(super) async fn run(shared: Rc<Shared>) {
    while let Some(Queued { work, bytes }) = next(&shared).await {
        let answered = answer(&shared, work).await;
        shared.answered(bytes);
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
    shared.abandon();
    shared.stream.shutdown();
}

/// The next work; `None` when the reader is gone and all is done.
async fn next(shared: &Rc<Shared>) -> Option<Queued> {
    loop {
        if let Some(queued) = shared.queue.borrow_mut().pop_front() {
            return Some(queued);
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
        Work::Produce(started) => started.finish(&shared.broker, &shared.patience).await,
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

/// Sends an answer piece by piece, and lets go of each that the client has taken.
async fn send(shared: &Rc<Shared>, answer: Chain) -> bool {
    let mut left = shared.transform.borrow_mut().sending(answer);
    while !left.is_empty() {
        shared.unsent(left.pinned_bytes());
        let count = left.len().min(limits::SEND_PIECE_BYTES);
        let sent = if count == left.len() {
            shared.stream.send(&left).await
        } else {
            shared.stream.send(&left.sub(0..count)).await
        };
        if sent.is_err() {
            break;
        }
        left = left.sub(count..left.len());
    }
    shared.unsent(0);
    left.is_empty()
}
