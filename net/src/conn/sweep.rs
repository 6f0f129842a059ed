//! The regular look at all connections of a shard: who idles too long, who stalls in mid-frame,
//! who takes no answer, whose answer comes too late.
//!
//! One timer for all of them, so that a receive costs none.

use std::{rc::Rc, time::Duration};

use millrace_engine::io::Clock;

use super::{Connections, Shared};
use crate::limits;

/// Looks at the connections for as long as the shard lives; at a stop it wakes them all.
pub async fn run(connections: Rc<Connections>) {
    let shard = &connections.broker.shard;
    let idle_rounds = rounds_per_idle_sweep(connections.broker.settings.idle_timeout);
    for round in 0_u128.. {
        let pause = shard.env().sleep(limits::SWEEP_INTERVAL);
        millrace_engine::shard::signal::race(shard.stopped(), pause).await;
        // Who holds nothing can only idle too long.
        let all_idle = connections.holds_nothing() && !shard.is_stopping();
        if !all_idle || round.is_multiple_of(idle_rounds) {
            sweep(&connections);
        }
        if shard.is_stopping() && connections.count() == 0 {
            return;
        }
        if shard.is_stopping() {
            shard.env().sleep(limits::DRAIN_INTERVAL).await;
        }
    }
}

/// How many looks apart connections that hold nothing are looked at: each touches them all, and
/// what is touched rarely costs most.
fn rounds_per_idle_sweep(idle_timeout: Duration) -> u128 {
    let pause = (idle_timeout / limits::IDLE_SWEEPS_PER_TIMEOUT)
        .clamp(limits::SWEEP_INTERVAL, limits::IDLE_SWEEP_INTERVAL_MAX);
    pause.as_nanos() / limits::SWEEP_INTERVAL.as_nanos()
}

fn sweep(connections: &Connections) {
    let shard = &connections.broker.shard;
    let now_ns = shard.env().monotonic_ns();
    let stopping = shard.is_stopping();
    for connection in connections.living() {
        if stopping {
            connection.nudge.fire();
            continue;
        }
        end_stuck_send(&connection, now_ns);
        connection.patience.look(now_ns);
        look_at(&connection, now_ns);
    }
    connections.relieve_unsent(now_ns);
}

/// A client that takes no answer would keep the memory of its records from the others for ever.
fn end_stuck_send(connection: &Shared, now_ns: u64) {
    let unsent = &connection.unsent;
    let idle_timeout = connection.broker.settings.idle_timeout;
    if unsent.bytes() > 0 && u128::from(unsent.age_ns(now_ns)) >= idle_timeout.as_nanos() {
        connection.end();
    }
}

fn look_at(connection: &Shared, now_ns: u64) {
    let quiet_ns = u128::from(now_ns.saturating_sub(connection.heard_ns.get()));
    if connection.begun.bytes() == 0 {
        // A waiting fetch or a slow disk is no idle client.
        let idle = quiet_ns >= connection.broker.settings.idle_timeout.as_nanos();
        if idle && connection.open.get() == 0 {
            connection.close();
        }
    } else if quiet_ns >= limits::FRAME_DEADLINE.as_nanos() || connection.is_frame_late(now_ns) {
        connection.close();
    } else if quiet_ns >= limits::STALL_SETTLE.as_nanos() {
        connection.nudge.fire();
    }
}
