//! The log on this machine's disks: the same code over the ring.

#![expect(clippy::disallowed_methods, reason = "the test times a real disk")]

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    rc::Rc,
    task::{Poll, Waker},
    time::{Duration, Instant},
};

use super::*;
use crate::io::{
    file::RealDisk,
    runtime::{RealEnv, RuntimeOptions, ShardContext, run_shards},
};

type Shard = ShardContext<()>;

/// Runs `main` on one shard over `dir`.
fn on_shard<T: Future<Output = ()> + 'static>(
    dir: &Path,
    main: impl Fn(Shard, Volume<RealEnv>, PathBuf) -> T + Send + Sync + 'static,
) {
    let (dir, main) = (dir.to_owned(), std::sync::Arc::new(main));
    let shards = run_shards(&RuntimeOptions::for_tests(1), move |shard: Shard| {
        let (dir, main) = (dir.clone(), main.clone());
        async move {
            let disk = RealDisk::open(&dir).await.expect("opens");
            let volume = Volume::new(shard.env.clone(), disk, DiskHealth::new(), 8 << 20);
            main(shard, volume, dir.join("topic-0")).await;
        }
    });
    shards.expect("starts").join().expect("ends");
}

async fn open(
    shard: &Shard,
    volume: &Volume<RealEnv>,
    dir: &Path,
    settings: &Settings,
) -> (Log<RealEnv>, RecoveryReport) {
    let (env, pool) = (shard.env.clone(), shard.pool.clone());
    let opening = Log::open(env, volume.clone(), pool, dir.to_owned(), settings.clone());
    opening.await.expect("the log opens")
}

/// Wakes one task at each advance of any of some logs.
#[derive(Clone, Default)]
struct Advances {
    waker: Rc<RefCell<Option<Waker>>>,
}

impl Advances {
    fn listen(&self, log: &Log<RealEnv>) {
        let waker = self.waker.clone();
        log.set_on_advance(Box::new(move |_| {
            if let Some(waker) = waker.borrow_mut().take() {
                waker.wake();
            }
        }));
    }

    async fn until(&self, mut done: impl FnMut() -> bool) {
        poll_fn(|context| {
            *self.waker.borrow_mut() = Some(context.waker().clone());
            if done() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

async fn fill(log: &Log<RealEnv>, advances: &Advances, batches: i64) {
    let (header, bytes) = batch(&[&[9; 10_000]], 1_000, &BatchOptions::default());
    let payload = Slice::copy_of(&bytes[HEADER_BYTES..]).into();
    for _ in 0..batches {
        loop {
            match log.append_parts(&header, &payload, LeaderEpoch(1), 1_000) {
                Ok(_) => break,
                Err(AppendError::Busy) => {
                    let before = log.marks().ack_end();
                    advances.until(|| log.marks().ack_end() > before).await;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    advances.until(|| log.marks().ack_end() == log.marks().log_end()).await;
}

async fn count(log: &Log<RealEnv>) -> i64 {
    let (mut from, end) = (log.marks().log_start(), log.marks().high_watermark());
    let mut batches = 0;
    while from < end {
        let chain = match log.read(from, 1 << 20, end) {
            Read::Ready(chain) => chain,
            Read::Cold(cold) => log.read_cold(cold).await.expect("readable"),
            other => panic!("{from} reads as {other:?}"),
        };
        let mut at = 0;
        while let Some(header) = Header::from_chain(&chain, at) {
            assert_eq!(header.base_offset, from);
            at += header.size_bytes();
            from = header.next_offset();
            batches += 1;
        }
        assert_eq!(at, chain.len(), "whole batches");
    }
    batches
}

#[test]
fn it_appends_rolls_reads_and_restarts() {
    let settings = Settings { segment_bytes: 1 << 20, ..Settings::default() };
    for parent in [std::env::temp_dir(), PathBuf::from("/dev/shm")] {
        let dir = tempfile::tempdir_in(parent).expect("the directory can be written to");
        let life = |clean: bool, before: i64| {
            let settings = settings.clone();
            on_shard(dir.path(), move |shard, volume, path| {
                let settings = settings.clone();
                async move {
                    let (log, report) = open(&shard, &volume, &path, &settings).await;
                    assert_eq!(report.damage, Vec::<String>::new());
                    assert_eq!(end(&log), Offset(before));
                    let advances = Advances::default();
                    advances.listen(&log);
                    fill(&log, &advances, 500).await;
                    assert_eq!(count(&log).await, before + 500);
                    if clean {
                        log.close().await.expect("closed");
                        let (log, report) = open(&shard, &volume, &path, &settings).await;
                        assert_eq!((report.scanned_bytes, report.cut_bytes), (0, 0));
                        assert_eq!(count(&log).await, before + 500);
                    }
                }
            });
        };
        life(false, 0);
        life(true, 500);
        life(false, 1_000);
    }
}

/// Closed loop over some partitions, for a first impression: `cargo test --release -p
/// millrace-engine --lib log::tests::real::closed_loop -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, not a check"]
fn closed_loop() {
    for (partitions, outstanding, value_bytes) in
        [(1, 1, 1_000), (1, 64, 16_000), (12, 256, 16_000), (200, 256, 16_000)]
    {
        let dir = tempfile::tempdir().expect("the directory can be written to");
        on_shard(dir.path(), move |shard, volume, path| async move {
            let advances = Advances::default();
            let mut logs = Vec::new();
            for n in 0..partitions {
                let path = path.with_file_name(format!("topic-{n}"));
                let (log, _) = open(&shard, &volume, &path, &Settings::default()).await;
                advances.listen(&log);
                logs.push(log);
            }
            let run = Load { logs, advances, outstanding, value_bytes };
            run.measure(Duration::from_secs(1)).await;
            let flushes = volume.flushes();
            let (count, latencies, elapsed) = run.measure(Duration::from_secs(3)).await;
            let flushes = volume.flushes() - flushes;
            report(&run, count, latencies, elapsed, flushes);
        });
    }
}

fn report(run: &Load, count: usize, mut latencies: Vec<f64>, elapsed: f64, flushes: u64) {
    latencies.sort_by(f64::total_cmp);
    let at = |percent: usize| latencies[latencies.len() * percent / 1_000];
    let megabytes = [count, run.value_bytes].iter().map(|n| *n as f64).product::<f64>() / 1e6;
    println!(
        "{} partitions, {} outstanding, {} B: {:.0} MB/s, {:.0}/s, {:.0} flushes/s, \
         p50 {:.2} p99 {:.2} p99.9 {:.2} ms",
        run.logs.len(),
        run.outstanding,
        run.value_bytes,
        megabytes / elapsed,
        count as f64 / elapsed,
        flushes as f64 / elapsed,
        at(500),
        at(990),
        at(999),
    );
}

struct Load {
    logs: Vec<Log<RealEnv>>,
    advances: Advances,
    outstanding: usize,
    value_bytes: usize,
}

impl Load {
    async fn measure(&self, length: Duration) -> (usize, Vec<f64>, f64) {
        let value = vec![7; self.value_bytes];
        let (header, bytes) = batch(&[&value], 1_000, &BatchOptions::default());
        let payload = Slice::copy_of(&bytes[HEADER_BYTES..]).into();
        let start = Instant::now();
        let mut waiting: Vec<std::collections::VecDeque<(Offset, Instant)>> = Vec::new();
        waiting.resize_with(self.logs.len(), Default::default);
        let (mut open, mut next, mut latencies) = (0, 0, Vec::new());
        let in_flight = Cell::new(0);
        while start.elapsed() < length || open > 0 {
            while open < self.outstanding && start.elapsed() < length {
                let at = next % self.logs.len();
                next += 1;
                let sent = self.logs[at].append_parts(&header, &payload, LeaderEpoch(0), 1_000);
                let Ok(appended) = sent else { break };
                waiting[at].push_back((appended.last_offset, Instant::now()));
                open += 1;
            }
            in_flight.set(open);
            self.advances
                .until(|| {
                    let before = latencies.len();
                    for (log, queue) in self.logs.iter().zip(&mut waiting) {
                        let ack_end = log.marks().ack_end();
                        while queue.front().is_some_and(|front| front.0 < ack_end) {
                            let (_, sent) = queue.pop_front().expect("just seen");
                            latencies.push(sent.elapsed().as_secs_f64() * 1e3);
                        }
                    }
                    open -= latencies.len() - before;
                    latencies.len() > before
                })
                .await;
        }
        (latencies.len(), latencies, start.elapsed().as_secs_f64())
    }
}
