//! One seed: a world, some logs, random work, and restarts of every kind.

use std::{path::PathBuf, time::Duration};

use super::{
    super::{Settings, Volume},
    partition::{Partition, open},
};
use crate::{
    io::{
        Clock,
        buf::Pool,
        fake::{FakeEnv, FaultPoint, Random, Sim},
        health::DiskHealth,
    },
    types::Offset,
};

const POOL_BYTES: usize = 4 << 20;
const TAIL_BYTES: usize = 128 << 10;

/// How a life of the process ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    PowerCut,
    Kill,
    CleanStop,
}

/// Runs one seed; panics when something does not hold.
pub(super) fn run(seed: u64) {
    let mut random = Random::new(seed ^ 0x5EED);
    let mut sim = Sim::new(seed);
    let (mut volume, mut pool) = start(&sim);
    let mut partitions: Vec<Partition> = (0..1 + random.below(4))
        .map(|index| {
            let dir = PathBuf::from(format!("/data/topic-{index}"));
            let settings = settings(&mut random);
            let (log, report) = open(&sim, &volume, &pool, &dir, &settings);
            assert_eq!(report, super::super::RecoveryReport::default());
            Partition::new(log, dir, settings, i64::try_from(index).expect("small"))
        })
        .collect();
    for _ in 0..1 + random.below(4) {
        let end = live(&sim, &mut partitions, &mut random);
        let required: Vec<Offset> =
            partitions.iter().map(|partition| required(partition, end)).collect();
        drop((volume, pool));
        sim = match end {
            End::PowerCut | End::CleanStop => sim.crash(random.bits()),
            End::Kill => sim.kill(random.bits()),
        };
        (volume, pool) = start(&sim);
        for (partition, required) in partitions.iter_mut().zip(required) {
            partition.reopen(&sim, &volume, &pool, required);
        }
        if random.chance(30) {
            // A second cut during or right after recovery.
            sim.run(random.below(30));
            let required: Vec<Offset> =
                partitions.iter().map(|partition| partition.log.marks().ack_end()).collect();
            drop((volume, pool));
            sim = sim.crash(random.bits());
            (volume, pool) = start(&sim);
            for (partition, required) in partitions.iter_mut().zip(required) {
                partition.reopen(&sim, &volume, &pool, required);
            }
        }
    }
}

fn start(sim: &Sim) -> (Volume<FakeEnv>, Pool) {
    let volume = Volume::new(sim.env(), sim.disk(), DiskHealth::new(), TAIL_BYTES);
    (volume, Pool::new(POOL_BYTES))
}

fn settings(random: &mut Random) -> Settings {
    Settings {
        segment_bytes: [3_000, 20_000, 100_000, 1 << 20][random.below(4)],
        segment_ms: [5_000, 1 << 40][random.below(2)],
        index_interval_bytes: [0, 300, 4_096][random.below(3)],
        segment_index_bytes: [64, 10 << 20][random.below(2)],
        retention_ms: [3_000, 1 << 40][random.below(2)],
        retention_bytes: [10_000, -1][random.below(2)],
        flush_messages: if random.chance(20) { 5 } else { 1 },
        ..Settings::default()
    }
}

/// What must be there after the restart.
fn required(partition: &Partition, end: End) -> Offset {
    let marks = partition.log.marks();
    let relaxed = partition.settings.flush_messages > 1;
    if relaxed && end != End::Kill {
        marks.durable_end()
    } else {
        partition.acknowledged.get().max(marks.ack_end())
    }
}

/// Random work until the process ends.
fn live(sim: &Sim, partitions: &mut [Partition], random: &mut Random) -> End {
    if random.chance(10) {
        let point = [
            FaultPoint::Write,
            FaultPoint::Zeros,
            FaultPoint::Sync,
            FaultPoint::Flush,
            FaultPoint::ReadFile,
            FaultPoint::Other,
        ][random.below(6)];
        let errno = [libc::EIO, libc::ENOSPC][random.below(2)];
        sim.disk().fail(point, random.below(40), errno);
    }
    for _ in 0..5 + random.below(80) {
        let which = random.below(partitions.len());
        let partition = &mut partitions[which];
        match random.below(100) {
            0..50 => partition.append(random, sim.env().wall_ms()),
            50..55 => partition.repeat(random, sim.env().wall_ms()),
            55..60 => partition.read(sim, random),
            60..63 => partition.look_up(sim, random),
            63..65 => partition.delete(sim, random),
            65..66 => sim.settle(),
            66..67 => partition.note_durable_end(sim),
            67..69 => sim.advance(Duration::from_millis(random.below(20_000) as u64)),
            _ => {
                sim.run(random.below(60));
            }
        }
    }
    // A cut is worth most while writes and flushes overlap.
    for _ in 0..random.below(30) {
        let which = random.below(partitions.len());
        partitions[which].append(random, sim.env().wall_ms());
        sim.run(random.below(8));
    }
    let end = [End::PowerCut, End::PowerCut, End::Kill, End::CleanStop][random.below(4)];
    if end == End::CleanStop {
        for partition in partitions.iter() {
            let log = partition.log.clone();
            let closed = sim.block_on(async move { log.close().await });
            assert!(closed.is_ok() || partition.log.failure().is_some(), "{closed:?}");
        }
    }
    end
}
