//! Threads for work that may block or takes long.
//!
//! Two crews for all shards: one for the file system's metadata calls, one for what computes long,
//! so that no file waits behind a batch. Few threads each, started when first needed, on any CPU
//! that the process had before its shards were pinned. Work is begun in the order it came. A call
//! to the file system is finished even if nobody waits for it any more; long work that nobody
//! waits for is not begun. A panic in it ends the process.

use std::{
    mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crossbeam::channel::{self, Receiver, Sender};

use super::tasks::AbortOnPanic;
use crate::{
    io::{oneshot, sys},
    limits::{BLOCKING_THREADS, LONG_WORK_THREADS},
};

type Work = Box<dyn FnOnce() + Send>;

/// A handle on the threads; clones share them. They end with [`Blocking::finish`].
#[derive(Clone)]
pub(in crate::io) struct Blocking {
    files: Crew,
    long: Crew,
}

/// Some threads and the work that waits for them.
#[derive(Clone)]
struct Crew {
    name: &'static str,
    threads_max: usize,
    /// A thread would else inherit the only CPU of the shard that starts it; empty if unknown.
    cpus: Arc<[usize]>,
    /// `None` ends the thread that takes it.
    sender: Sender<Option<Work>>,
    receiver: Receiver<Option<Work>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    /// Work queued or being done; more than there are threads calls for another one.
    pending: AtomicUsize,
}

impl Blocking {
    /// To be called by a thread that is not pinned.
    pub(super) fn new() -> Self {
        let cpus: Arc<[usize]> = sys::allowed_cpus().unwrap_or_default().into();
        Self {
            files: Crew::new("blocking", BLOCKING_THREADS, cpus.clone()),
            long: Crew::new("long-work", LONG_WORK_THREADS, cpus),
        }
    }

    /// Runs `work`, a call to the file system. As many wait as callers wait for answers.
    pub(in crate::io) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (done, answer) = oneshot::channel();
        self.start(Box::new(move || done.send(work())));
        answer.await.expect("work is finished once it is queued")
    }

    /// Runs `work`, a call to the file system, some time, for nobody.
    pub(in crate::io) fn start(&self, work: Work) {
        self.files.start(work);
    }

    /// Runs `work`, which computes long. As many wait as callers wait for answers; that of a caller
    /// who gave up, as all do when their shard ends, is dropped when its turn comes.
    pub(in crate::io) async fn run_long<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (done, answer) = oneshot::channel();
        self.long.start(Box::new(move || {
            if done.is_awaited() {
                done.send(work());
            }
        }));
        answer.await.expect("work that is waited for is done")
    }

    /// Waits for the threads to finish what is queued, and ends them. A handle that outlives this
    /// call keeps nobody waiting.
    pub(super) fn finish(self) {
        self.files.finish();
        self.long.finish();
    }
}

impl Crew {
    fn new(name: &'static str, threads_max: usize, cpus: Arc<[usize]>) -> Self {
        let (sender, receiver) = channel::unbounded();
        Self { name, threads_max, cpus, sender, receiver, shared: Arc::default() }
    }

    fn start(&self, work: Work) {
        let pending = self.shared.pending.fetch_add(1, Ordering::Relaxed) + 1;
        self.sender.send(Some(work)).expect("this handle holds a receiver");
        let mut threads = self.shared.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if pending > threads.len() && threads.len() < self.threads_max {
            let receiver = self.receiver.clone();
            let shared = self.shared.clone();
            let name = format!("{}-{}", self.name, threads.len());
            let cpus = self.cpus.clone();
            let main = move || {
                // Where it cannot move it works all the same, in turn with its shard.
                let _moved = sys::keep_on(&cpus);
                serve(&receiver, &shared);
            };
            match thread::Builder::new().name(name).spawn(main) {
                Ok(thread) => threads.push(thread),
                // With one thread at least, work only waits longer.
                Err(error) => assert!(!threads.is_empty(), "no thread for blocking work: {error}"),
            }
        }
    }

    fn finish(self) {
        let threads = &self.shared.threads;
        let threads = mem::take(&mut *threads.lock().unwrap_or_else(PoisonError::into_inner));
        for _ in &threads {
            self.sender.send(None).expect("this handle holds a receiver");
        }
        for thread in threads {
            thread.join().expect("a panic in blocking work ends the process");
        }
    }
}

fn serve(receiver: &Receiver<Option<Work>>, shared: &Shared) {
    for work in receiver.iter().map_while(|work| work) {
        let guard = AbortOnPanic("blocking work");
        work();
        drop(guard);
        shared.pending.fetch_sub(1, Ordering::Relaxed);
    }
}
