//! Threads for work that may block: metadata calls of the file system, unlinks, opens.
//!
//! Few threads for all shards, started when first needed, not pinned. Work is run in the order it
//! came and finished even if nobody waits for it any more. A panic in it ends the process.

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
use crate::{io::oneshot, limits::BLOCKING_THREADS};

type Work = Box<dyn FnOnce() + Send>;

/// A handle on the threads; clones share them. They end with [`Blocking::finish`].
#[derive(Clone)]
pub(in crate::io) struct Blocking {
    /// `None` ends the thread that takes it.
    sender: Sender<Option<Work>>,
    receiver: Receiver<Option<Work>>,
    crew: Arc<Crew>,
}

#[derive(Default)]
struct Crew {
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    /// Work queued or being done; more than there are threads calls for another one.
    pending: AtomicUsize,
}

impl Blocking {
    pub(super) fn new() -> Self {
        let (sender, receiver) = channel::unbounded();
        Self { sender, receiver, crew: Arc::default() }
    }

    /// Runs `work` on one of the threads. As many wait as callers wait for answers.
    pub(in crate::io) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (done, answer) = oneshot::channel();
        self.start(Box::new(move || done.send(work())));
        answer.await.expect("work is finished once it is queued")
    }

    /// Runs `work` some time, for nobody.
    pub(in crate::io) fn start(&self, work: Work) {
        let pending = self.crew.pending.fetch_add(1, Ordering::Relaxed) + 1;
        self.sender.send(Some(work)).expect("this handle holds a receiver");
        let mut threads = self.crew.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if pending > threads.len() && threads.len() < BLOCKING_THREADS {
            let receiver = self.receiver.clone();
            let crew = self.crew.clone();
            let name = format!("blocking-{}", threads.len());
            match thread::Builder::new().name(name).spawn(move || serve(&receiver, &crew)) {
                Ok(thread) => threads.push(thread),
                // With one thread at least, work only waits longer.
                Err(error) => assert!(!threads.is_empty(), "no thread for blocking work: {error}"),
            }
        }
    }

    /// Waits for the threads to finish what is queued, and ends them. A handle that outlives this
    /// call keeps nobody waiting.
    pub(super) fn finish(self) {
        let threads = &self.crew.threads;
        let threads = mem::take(&mut *threads.lock().unwrap_or_else(PoisonError::into_inner));
        for _ in &threads {
            self.sender.send(None).expect("this handle holds a receiver");
        }
        for thread in threads {
            thread.join().expect("a panic in blocking work ends the process");
        }
    }
}

fn serve(receiver: &Receiver<Option<Work>>, crew: &Crew) {
    for work in receiver.iter().map_while(|work| work) {
        let guard = AbortOnPanic("blocking work");
        work();
        drop(guard);
        crew.pending.fetch_sub(1, Ordering::Relaxed);
    }
}
