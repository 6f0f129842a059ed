//! Accepting: shard 0 takes every connection and deals them out in turn.
//!
//! A failure to accept ends nothing: it is told, clients wait in the backlog, and accepting goes on
//! once there is room.

use std::{cell::Cell, io, rc::Rc};

use millrace_engine::{
    io::{
        Env,
        net::{self, Listener},
    },
    shard::{Shard, message::Arrival, signal::race},
    types::ShardId,
};

use crate::limits;

/// Whose turn it is, shared by the listeners of a broker.
pub(super) type Turn = Rc<Cell<u16>>;

/// Accepts on one listener until the shard stops.
pub(super) async fn run<E: Env>(shard: Shard<E>, listener: Listener, index: usize, turn: Turn) {
    let mut told_ns = None;
    while let Some(accepted) = race(listener.accept(), shard.stopped()).await {
        match accepted {
            Ok(accepted) => {
                let to = turn.get() % shard.count();
                turn.set(turn.get().wrapping_add(1));
                shard.give_connection(ShardId(to), Arrival { accepted, listener: index });
            }
            Err(error) => {
                let now_ns = shard.env().monotonic_ns();
                if is_due(told_ns, now_ns) {
                    told_ns = Some(now_ns);
                    eprintln!("millrace: {}", complaint(&error));
                }
                shard.env().sleep(limits::ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether a failure is told, when the last one was told at `told_ns`.
fn is_due(told_ns: Option<u64>, now_ns: u64) -> bool {
    let quiet_ns = limits::ACCEPT_REPORT_INTERVAL.as_nanos();
    told_ns.is_none_or(|told_ns| u128::from(now_ns.saturating_sub(told_ns)) >= quiet_ns)
}

/// What happened, what it means and what to do, in one line.
fn complaint(error: &io::Error) -> String {
    format!(
        "no connection can be accepted, new clients wait, open ones are served: {error}; {}",
        net::remedy(error)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_once_in_a_while_and_in_one_line() {
        let interval_ns = u64::try_from(limits::ACCEPT_REPORT_INTERVAL.as_nanos()).expect("short");
        assert!(is_due(None, 0) && !is_due(Some(5), 5 + interval_ns - 1));
        assert!(is_due(Some(5), 5 + interval_ns));
        let line = complaint(&io::ErrorKind::OutOfMemory.into());
        assert!(!line.contains('\n') && line.ends_with("; it is tried again"), "{line}");
    }
}
