//! Look-ups by time: what a shard's core does itself and what it leaves to other threads.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
};

use super::*;
use crate::{batch::Codec, limits::QUICK_RECORDS_BYTES};

/// A look at records that come to more than the bound once held a core for up to 64 MiB of
/// decompression. On the simulated disk such work is put off once, which shows at the first poll.
#[test]
fn records_over_the_bound_are_looked_at_elsewhere() {
    let small = vec![7; 1_000];
    let large = vec![7; QUICK_RECORDS_BYTES];
    for codec in Codec::ALL {
        for (value, long) in [(&small, false), (&large, true)] {
            let world = World::fresh();
            let (log, _) = world.open(&Settings::default());
            let options = BatchOptions { codec, ..BatchOptions::default() };
            let sent = world.send(&log, &[value], &options).expect("taken");
            world.sim.settle();
            let now_ms = world.sim.env().wall_ms();
            let asked = async {
                let by_time = log.offset_for_timestamp(now_ms - 1, end(&log)).await;
                let newest = log.max_timestamp_offset().await;
                (by_time.expect("readable"), newest.expect("readable"))
            };
            let mut asked = pin!(asked);
            let first = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(first.is_pending(), long, "{codec:?}");
            let (log, up_to) = (log.clone(), end(&log));
            let (by_time, newest) = world.sim.block_on(async move {
                let by_time = log.offset_for_timestamp(now_ms - 1, up_to).await;
                (by_time.expect("readable"), log.max_timestamp_offset().await.expect("readable"))
            });
            assert_eq!(by_time.map(|hit| hit.offset), Some(sent.base_offset), "{codec:?}");
            assert_eq!(newest, by_time, "{codec:?}");
        }
    }
}
