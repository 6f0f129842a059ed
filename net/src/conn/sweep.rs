//! The regular look at all connections of a shard: who idles too long, who stalls in mid-frame,
//! who takes no answer.
//!
//! One timer for all of them, so that a receive costs none.

use std::rc::{Rc, Weak};

use millrace_engine::io::Clock;

use super::{Connections, Shared};
use crate::limits;

/// Looks at the connections for as long as the shard lives; at a stop it wakes them all.
pub async fn run(connections: Rc<Connections>) {
    let shard = &connections.broker.shard;
    loop {
        let pause = shard.env().sleep(limits::SWEEP_INTERVAL);
        millrace_engine::shard::signal::race(shard.stopped(), pause).await;
        sweep(&connections);
        if shard.is_stopping() && connections.count() == 0 {
            return;
        }
        if shard.is_stopping() {
            shard.env().sleep(limits::DRAIN_INTERVAL).await;
        }
    }
}

fn sweep(connections: &Connections) {
    let shard = &connections.broker.shard;
    let now_ns = shard.env().monotonic_ns();
    let stopping = shard.is_stopping();
    connections.list.borrow_mut().retain(|connection| connection.strong_count() > 0);
    let living: Vec<_> = connections.list.borrow().iter().filter_map(Weak::upgrade).collect();
    let mut held_bytes = 0;
    for connection in living {
        if stopping {
            connection.nudge.fire();
            continue;
        }
        end_stuck_send(&connection, now_ns);
        let quiet_ns = now_ns.saturating_sub(connection.heard_ns.get());
        look_at(&connection, u128::from(quiet_ns), &mut held_bytes);
    }
}

/// A client that takes no answer would keep the memory of its records from the others for ever.
fn end_stuck_send(connection: &Shared, now_ns: u64) {
    let Some(since_ns) = connection.sending_since_ns.get() else { return };
    let sending_ns = u128::from(now_ns.saturating_sub(since_ns));
    if sending_ns >= connection.broker.settings.idle_timeout.as_nanos() {
        connection.close();
        connection.stream.shutdown();
    }
}

fn look_at(connection: &Shared, quiet_ns: u128, stalled_bytes: &mut usize) {
    if connection.held_bytes.get() == 0 {
        // A waiting fetch or a slow disk is no idle client.
        let idle = quiet_ns >= connection.broker.settings.idle_timeout.as_nanos();
        if idle && connection.open.get() == 0 {
            connection.close();
        }
        return;
    }
    if quiet_ns < limits::STALL_SETTLE.as_nanos() {
        return;
    }
    *stalled_bytes += connection.held_bytes.get();
    let over = *stalled_bytes > limits::STALLED_BYTES_PER_SHARD;
    if over || quiet_ns >= limits::FRAME_DEADLINE.as_nanos() {
        connection.close();
    } else {
        connection.nudge.fire();
    }
}
