//! Accepting: shard 0 takes every connection and deals them out in turn.

use std::{cell::Cell, rc::Rc, time::Duration};

use millrace_engine::{
    io::{Env, net::Listener},
    shard::{Shard, message::Arrival, signal::race},
    types::ShardId,
};

/// Pause after a failed accept: descriptors or memory are short, and come back with connections
/// that end. The backlog keeps clients waiting meanwhile.
const PAUSE: Duration = Duration::from_millis(50);

/// Whose turn it is, shared by the listeners of a broker.
pub(super) type Turn = Rc<Cell<u16>>;

/// Accepts on one listener until the shard stops.
pub(super) async fn run<E: Env>(shard: Shard<E>, listener: Listener, index: usize, turn: Turn) {
    while let Some(accepted) = race(listener.accept(), shard.stopped()).await {
        match accepted {
            Ok(accepted) => {
                let to = turn.get() % shard.count();
                turn.set(turn.get().wrapping_add(1));
                shard.give_connection(ShardId(to), Arrival { accepted, listener: index });
            }
            Err(_) => shard.env().sleep(PAUSE).await,
        }
    }
}
