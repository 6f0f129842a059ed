#![expect(clippy::disallowed_methods, reason = "the tests time the shards from outside")]

use std::{
    cell::Cell,
    future::poll_fn,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use super::*;
use crate::{
    io::{Clock, Disk, Entropy, Spawn, file::RealDisk, oneshot},
    limits::LONG_WORK_THREADS,
};

/// Runs `main` on one shard of each executor, and returns when both have ended.
fn on_one_shard<T: Future<Output = ()> + 'static>(
    main: impl Fn(ShardContext<u64>) -> T + Send + Sync + 'static,
) {
    on_each_executor(&RuntimeOptions::for_tests(1), main);
}

fn on_each_executor<T: Future<Output = ()> + 'static>(
    options: &RuntimeOptions,
    main: impl Fn(ShardContext<u64>) -> T + Send + Sync + 'static,
) {
    let main = Arc::new(main);
    for options in options.clone().on_each_executor() {
        let main = main.clone();
        let shards = run_shards(&options, move |shard| main(shard));
        shards.expect("starts").join().expect("ends");
    }
}

#[test]
fn sleeps_last_as_long_as_asked() {
    on_one_shard(|shard| async move {
        for asked_ms in [0, 1, 5, 20] {
            let start = Instant::now();
            shard.env.sleep(Duration::from_millis(asked_ms)).await;
            let took = start.elapsed();
            assert!(took >= Duration::from_millis(asked_ms), "{took:?} for {asked_ms} ms");
            assert!(took < Duration::from_millis(asked_ms + 150), "{took:?} for {asked_ms} ms");
        }
    });
}

#[test]
fn a_dropped_sleep_leaves_no_operation_behind() {
    on_one_shard(|shard| async move {
        let mut long = Box::pin(shard.env.sleep(Duration::from_secs(3600)));
        let poll = std::future::poll_fn(|cx| std::task::Poll::Ready(long.as_mut().poll(cx))).await;
        assert!(poll.is_pending());
        drop(long);
        // Ending the shard waits for the last completion: at once, not in an hour.
    });
}

#[test]
fn an_idle_shard_sleeps() {
    let used = Arc::new(AtomicU64::new(0));
    let seen = used.clone();
    on_one_shard(move |shard| {
        let used = used.clone();
        async move {
            shard.env.sleep(Duration::from_millis(50)).await;
            let before = thread_cpu_ns();
            shard.env.sleep(Duration::from_millis(500)).await;
            used.store(thread_cpu_ns() - before, Ordering::Relaxed);
        }
    });
    let used_ns = seen.load(Ordering::Relaxed);
    assert!(used_ns < 5_000_000, "an idle half second took {used_ns} ns of CPU");
}

fn thread_cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("proc is mounted");
    let first = stat.split_whitespace().next().expect("three numbers");
    first.parse().expect("a number")
}

#[test]
fn tasks_run_in_both_queues_and_are_dropped_at_the_end() {
    struct CountDrop(Arc<AtomicUsize>);
    impl Drop for CountDrop {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let seen = drops.clone();
    on_one_shard(move |shard| {
        let drops = drops.clone();
        async move {
            let ran = Rc::new(Cell::new(0));
            for background in [false, true] {
                let (ran, env) = (ran.clone(), shard.env.clone());
                let task = async move {
                    for _ in 0..100 {
                        ran.update(|count| count + 1);
                        env.yield_now().await;
                    }
                };
                if background {
                    shard.env.spawn_background(task);
                } else {
                    shard.env.spawn(task);
                }
                let (held, env) = (CountDrop(drops.clone()), shard.env.clone());
                shard.env.spawn(async move {
                    let _held = held;
                    env.sleep(Duration::from_secs(3600)).await;
                });
            }
            while ran.get() < 200 {
                shard.env.sleep(Duration::from_millis(1)).await;
            }
            assert_ne!(shard.env.next_u64(), shard.env.next_u64());
        }
    });
    assert_eq!(seen.load(Ordering::Relaxed), 2 * 2, "two tasks on each executor");
}

#[test]
fn long_work_leaves_the_shard_running() {
    on_one_shard(|shard| async move {
        let ticks = Rc::new(Cell::new(0));
        let (counted, env) = (ticks.clone(), shard.env.clone());
        shard.env.spawn(async move {
            loop {
                env.sleep(Duration::from_millis(1)).await;
                counted.update(|count| count + 1);
            }
        });
        let answer = shard
            .env
            .run_long(|| {
                std::thread::sleep(Duration::from_millis(100));
                42
            })
            .await;
        assert_eq!(answer, 42);
        assert!(ticks.get() >= 5, "{} ticks in 100 ms", ticks.get());
    });
}

/// Files do not wait behind long work, and long work that nobody waits for is not begun.
#[test]
fn long_work_keeps_no_file_waiting_and_is_dropped_with_its_caller() {
    on_one_shard(|shard| async move {
        let (gate, held) = crossbeam::channel::bounded::<()>(0);
        let (begun, began) = crossbeam::channel::bounded::<()>(LONG_WORK_THREADS);
        let opened = Rc::new(Cell::new(0));
        for _ in 0..LONG_WORK_THREADS {
            let (env, opened) = (shard.env.clone(), opened.clone());
            let (begun, held) = (begun.clone(), held.clone());
            shard.env.spawn(async move {
                env.run_long(move || begun.send(()).is_ok() && held.recv().is_err()).await;
                opened.update(|count| count + 1);
            });
        }
        while began.len() < LONG_WORK_THREADS {
            shard.env.sleep(Duration::from_millis(1)).await;
        }
        let given_up = Arc::new(AtomicUsize::new(0));
        let counted = given_up.clone();
        let behind = move || counted.fetch_add(1, Ordering::Relaxed);
        let mut behind = Box::pin(shard.env.run_long(behind));
        // Queued behind what is held, then given up.
        let polled = poll_fn(|cx| Poll::Ready(behind.as_mut().poll(cx))).await;
        assert!(polled.is_pending(), "it waits for its turn");
        drop(behind);
        let folder = tempfile::tempdir().expect("a folder");
        let disk = RealDisk::open(folder.path()).await.expect("files are served meanwhile");
        disk.create_dir(&folder.path().join("made")).await.expect("files are served meanwhile");
        assert_eq!(opened.get(), 0, "the long work is still held");
        drop(gate);
        shard.env.run_long(|| ()).await;
        while opened.get() < LONG_WORK_THREADS {
            shard.env.sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(given_up.load(Ordering::Relaxed), 0, "nobody waited for it");
    });
}

#[test]
fn a_foreign_thread_fulfils_a_oneshot() {
    on_one_shard(|shard| async move {
        for pause_us in [0, 10, 100, 5000] {
            let (sender, receiver) = oneshot::channel();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(pause_us));
                sender.send(pause_us);
            });
            assert_eq!(receiver.await, Ok(pause_us));
            thread.join().expect("no panic");
        }
        let (sender, receiver) = oneshot::channel::<u64>();
        drop(sender);
        assert_eq!(receiver.await, Err(oneshot::Cancelled));
        let (sender, receiver) = oneshot::channel();
        let env = shard.env.clone();
        shard.env.spawn(async move {
            env.sleep(Duration::from_millis(1)).await;
            sender.send(7);
        });
        assert_eq!(receiver.await, Ok(7));
    });
}

#[test]
fn messages_go_between_shards_and_from_outside_in_order() {
    const ROUNDS: u64 = 200;
    const FLOOD: u64 = 50_000;
    let shards = run_shards(&RuntimeOptions::for_tests(2), |shard: ShardContext<u64>| async move {
        let other = ShardId(1 - shard.id.0);
        if shard.id == ShardId(0) {
            assert_eq!(shard.mesh.recv().await, 77, "the outside starts it");
            for round in 0..ROUNDS {
                shard.mesh.send(other, round).await.expect("the other shard runs");
                assert_eq!(shard.mesh.recv().await, round);
            }
            for number in 0..FLOOD {
                shard.mesh.send(other, number).await.expect("the other shard runs");
            }
            assert_eq!(shard.mesh.recv().await, FLOOD);
        } else {
            for _ in 0..ROUNDS {
                let message = shard.mesh.recv().await;
                shard.mesh.send(other, message).await.expect("the other shard runs");
            }
            for number in 0..FLOOD {
                assert_eq!(shard.mesh.recv().await, number);
            }
            shard.mesh.send(other, FLOOD).await.expect("the other shard runs");
        }
    })
    .expect("starts");
    let remote = shards.remote();
    std::thread::sleep(Duration::from_millis(20));
    remote.send(ShardId(0), 77).expect("shard 0 runs");
    shards.join().expect("ends");
    assert_eq!(remote.send(ShardId(0), 1), Err(1), "an ended shard refuses");
}

#[test]
fn more_shards_than_cpus_pass_a_token_round() {
    const SHARDS: u16 = 8;
    let main = |shard: ShardContext<u64>| async move {
        assert_eq!(shard.count, usize::from(SHARDS));
        let next = ShardId((shard.id.0 + 1) % SHARDS);
        if shard.id.0 == 0 {
            shard.mesh.send(next, 0).await.expect("the next shard runs");
        }
        for _ in 0..20 {
            let token = shard.mesh.recv().await;
            // The first to have seen it often enough may be gone when the last one sends.
            let _ = shard.mesh.send(next, token + 1).await;
        }
    };
    on_each_executor(&RuntimeOptions::for_tests(usize::from(SHARDS)), main);
}

#[test]
fn options_that_cannot_work_are_refused_in_one_line() {
    let many = RuntimeOptions { shards: 200, ..RuntimeOptions::default() };
    for options in [many, RuntimeOptions { shards: 0, ..RuntimeOptions::default() }] {
        let error = run_shards(&options, |_: ShardContext<u64>| async {}).expect_err("refused");
        assert!(!error.to_string().contains('\n'));
    }
}

#[test]
fn a_task_that_panics_ends_the_process() {
    if std::env::var_os("MILLRACE_TEST_PANIC").is_some() {
        on_one_shard(|shard| async move {
            shard.env.spawn(async { panic!("as planned") });
            shard.env.sleep(Duration::from_secs(60)).await;
        });
        return;
    }
    let program = std::env::current_exe().expect("this test's program");
    let output = std::process::Command::new(program)
        .args(["--exact", "io::runtime::tests::a_task_that_panics_ends_the_process"])
        .args(["--nocapture", "--test-threads=1"])
        .env("MILLRACE_TEST_PANIC", "1")
        .output()
        .expect("it can be run");
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("as planned") && text.contains("a task panicked; the process"), "{text}");
}

#[test]
fn background_work_without_end_does_not_delay_the_rest() {
    on_one_shard(|shard| async move {
        for _ in 0..3 {
            let env = shard.env.clone();
            shard.env.spawn_background(async move {
                loop {
                    let end = Instant::now() + Duration::from_micros(50);
                    while Instant::now() < end {}
                    env.yield_now().await;
                }
            });
        }
        let start = Instant::now();
        for _ in 0..50 {
            shard.env.sleep(Duration::from_micros(200)).await;
        }
        let took = start.elapsed();
        assert!(took < Duration::from_millis(500), "50 sleeps of 0.2 ms took {took:?}");
    });
}

#[test]
fn busy_tasks_leave_the_background_its_share() {
    on_one_shard(|shard| async move {
        let done = Rc::new(Cell::new(false));
        let (finished, env) = (done.clone(), shard.env.clone());
        shard.env.spawn_background(async move {
            for _ in 0..20 {
                env.yield_now().await;
            }
            finished.set(true);
        });
        let end = Instant::now() + Duration::from_secs(10);
        while !done.get() {
            shard.env.yield_now().await;
            assert!(Instant::now() < end, "the background starves");
        }
    });
}

#[test]
fn a_spinning_shard_answers_and_still_sleeps_when_idle() {
    let options = RuntimeOptions { pin: true, spin_us: 50, ..RuntimeOptions::for_tests(1) };
    let main = |shard: ShardContext<u64>| async move {
        for _ in 0..300 {
            shard.env.sleep(Duration::from_micros(20)).await;
        }
        shard.env.sleep(Duration::from_millis(20)).await;
        let before = thread_cpu_ns();
        shard.env.sleep(Duration::from_millis(300)).await;
        let used_ns = thread_cpu_ns() - before;
        assert!(used_ns < 5_000_000, "an idle time of 300 ms took {used_ns} ns of CPU");
    };
    on_each_executor(&options, main);
}

#[test]
fn a_foreign_thread_wakes_a_task_by_its_waker() {
    on_one_shard(|shard| async move {
        for pause_us in [0, 10, 100, 5000] {
            for background in [false, true] {
                let woken = Arc::new(AtomicUsize::new(0));
                let flag = woken.clone();
                let task = std::future::poll_fn(move |cx| {
                    if flag.fetch_add(1, Ordering::Relaxed) > 0 {
                        return std::task::Poll::Ready(());
                    }
                    let waker = cx.waker().clone();
                    std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_micros(pause_us));
                        waker.wake();
                    });
                    std::task::Poll::Pending
                });
                if background {
                    shard.env.spawn_background(task);
                } else {
                    shard.env.spawn(task);
                }
                while woken.load(Ordering::Relaxed) < 2 {
                    shard.env.sleep(Duration::from_micros(500)).await;
                }
            }
        }
    });
}

#[test]
fn shards_start_and_stop_again_and_again() {
    for round in 0..100 {
        let main = |shard: ShardContext<u64>| async move {
            let other = ShardId(1 - shard.id.0);
            // The other may have ended already.
            let _ = shard.mesh.send(other, 1).await;
            let env = shard.env.clone();
            shard.env.spawn(async move { env.sleep(Duration::from_secs(3600)).await });
            shard.env.run_long(|| ()).await;
        };
        let options = RuntimeOptions { spin_us: round % 2 * 20, ..RuntimeOptions::for_tests(2) };
        run_shards(&options, main).expect("starts").join().expect("ends");
    }
}

/// Nothing else happens on the shard while the last task is runnable, so that a sleep with work
/// left would show. Seen with a sleeper that was queued before the work.
#[test]
fn no_runnable_background_task_is_slept_over() {
    on_one_shard(|shard| async move {
        for round in 0..3000_u64 {
            let (busy, late) = (shard.env.clone(), shard.env.clone());
            shard.env.spawn_background(async move {
                for _ in 0..round % 40 {
                    busy.yield_now().await;
                }
            });
            let (sender, receiver) = oneshot::channel();
            shard.env.spawn_background(async move {
                late.sleep(Duration::from_micros(round % 20)).await;
                late.yield_now().await;
                sender.send(());
            });
            let start = Instant::now();
            receiver.await.expect("the task sends");
            let took = start.elapsed();
            assert!(took < Duration::from_secs(5), "{took:?} in round {round}");
        }
    });
}

/// They inherited the one CPU of the shard that needed them first.
#[test]
fn threads_for_blocking_work_may_use_every_cpu() {
    let here = sys::allowed_cpus().expect("known");
    let options = RuntimeOptions { pin: true, ..RuntimeOptions::for_tests(1) };
    on_each_executor(&options, move |shard| {
        let here = here.clone();
        async move {
            let long = shard.env.run_long(sys::allowed_cpus).await.expect("known");
            assert_eq!(long, here, "of {here:?}");
        }
    });
}
