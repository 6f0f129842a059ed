//! The runtime seam: shards as pinned threads, each with an executor and a ring of its own.
//!
//! The only module that names an executor: our own, and a borrowed one behind the same seam.
//! Owns the life of the shards: all start or none does, and each ends by dropping its tasks,
//! cancelling and draining its ring, and only then its executor. Knows nothing of what they do.

mod bell;
pub(super) mod blocking;
mod bridged;
mod env;
mod executor;
pub(super) mod queues;
mod shard;
mod tasks;

use std::{
    fmt,
    future::Future,
    sync::{Arc, mpsc},
    thread,
};

pub use self::env::RealEnv;
use self::{blocking::Blocking, shard::Setup};
use super::{
    buf::Pool,
    mesh::{self, Mesh, Remote},
    port::Port,
    sys,
};
use crate::{
    error::{Error, Kind, Result},
    limits::{BUFFER_BUDGET_PER_SHARD_BYTES, SHARDS_MAX},
    types::ShardId,
};

/// What runs the tasks of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Executor {
    /// Ours, which sleeps in the shard's ring.
    #[default]
    Own,
    /// glommio's, with our ring as a task of it. May hang on a busy machine.
    Glommio,
}

/// How to run the shards.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// How many shards; at least 1, at most `SHARDS_MAX`.
    pub shards: usize,
    /// Budget of pooled buffers of each shard, in bytes.
    pub buffer_budget_bytes: usize,
    /// Longest spin before sleep in microseconds; used only while it pays, and not at all with
    /// more shards than CPUs. 0 never spins.
    pub spin_us: u32,
    /// Run even with more shards than CPUs, unpinned.
    pub allow_shared_cpus: bool,
    /// Pin each shard to a CPU of its own, where there are enough.
    pub pin: bool,
    /// What runs the tasks.
    pub executor: Executor,
}

impl Default for RuntimeOptions {
    /// One pinned shard per CPU this process may use.
    fn default() -> Self {
        Self {
            shards: sys::allowed_cpus().map_or(1, |cpus| cpus.len()).clamp(1, SHARDS_MAX),
            buffer_budget_bytes: BUFFER_BUDGET_PER_SHARD_BYTES,
            spin_us: 20,
            allow_shared_cpus: false,
            pin: true,
            executor: Executor::Own,
        }
    }
}

impl RuntimeOptions {
    /// Whether this machine has the CPUs for it; the error is one line.
    pub fn check(&self) -> Result<()> {
        placement(self).map(drop)
    }

    /// For tests: `shards` on whatever CPUs there are, never spinning, with small budgets.
    #[must_use]
    pub fn for_tests(shards: usize) -> Self {
        Self {
            shards,
            buffer_budget_bytes: BUFFER_BUDGET_PER_SHARD_BYTES / 4,
            spin_us: 0,
            allow_shared_cpus: true,
            pin: false,
            executor: Executor::Own,
        }
    }

    /// For tests: the same options with each executor.
    #[cfg(test)]
    pub(super) fn on_each_executor(self) -> [Self; 2] {
        [Executor::Own, Executor::Glommio].map(|executor| Self { executor, ..self.clone() })
    }
}

/// What the main task of a shard is given.
#[derive(Debug)]
pub struct ShardContext<M: Send> {
    /// This shard.
    pub id: ShardId,
    /// How many shards there are.
    pub count: usize,
    /// This shard's buffers; receive buffers come out of it too.
    pub pool: Pool,
    /// Messages to and from the other shards and outside threads.
    pub mesh: Mesh<M>,
    /// Time, randomness and tasks.
    pub env: RealEnv,
}

/// The running shards.
pub struct Shards<M: Send> {
    remote: Remote<M>,
    threads: Vec<thread::JoinHandle<Result<()>>>,
    blocking: Blocking,
}

impl<M: Send> fmt::Debug for Shards<M> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Shards({})", self.threads.len())
    }
}

impl<M: Send> Shards<M> {
    /// A handle with which threads that are no shard send messages to shards.
    #[must_use]
    pub fn remote(&self) -> Remote<M> {
        self.remote.clone()
    }

    /// Waits until every shard's main task has returned and its thread has ended.
    pub fn join(self) -> Result<()> {
        let mut first = Ok(());
        for thread in self.threads {
            let result = thread.join().unwrap_or_else(|_| Err(failed("a shard's thread panicked")));
            first = first.and(result);
        }
        self.blocking.finish();
        first
    }
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(Kind::Fatal, message)
}

/// Starts all shards and runs `main` as the main task of each; returns once all are running.
///
/// A shard ends when its main task returns: its other tasks are dropped where they stand. Fails,
/// with no shard left running, when options or machine do not allow it; each error is one line.
pub fn run_shards<M, F, T>(options: &RuntimeOptions, main: F) -> Result<Shards<M>>
where
    M: Send + 'static,
    F: Fn(ShardContext<M>) -> T + Send + Sync + 'static,
    T: Future<Output = ()> + 'static,
{
    let placement = placement(options)?;
    let blocking = Blocking::new();
    let ports = ports(options.shards)?;
    let remote = mesh::weave(&ports);
    let main = Arc::new(main);
    #[expect(clippy::disallowed_methods, reason = "one message per shard")]
    let (ready_sender, ready) = mpsc::channel();
    let mut threads = Vec::new();
    let mut starts = Vec::new();
    for (port, cpu) in ports.into_iter().zip(placement) {
        #[expect(clippy::disallowed_methods, reason = "one message per shard")]
        let (start_sender, start) = mpsc::channel();
        let shared = cpu.is_none();
        let setup = Setup {
            port,
            cpu,
            executor: options.executor,
            spin_us: if shared { 0 } else { options.spin_us },
            buffer_budget_bytes: options.buffer_budget_bytes,
            blocking: blocking.clone(),
            ready: ready_sender.clone(),
            start,
        };
        let (main, remote) = (main.clone(), remote.clone());
        let thread = thread::Builder::new()
            .name(format!("shard-{}", setup.port.shard))
            .spawn(move || shard::run(setup, &remote, &*main))
            .map_err(|error| failed(format!("a shard's thread cannot be started: {error}")))?;
        threads.push(thread);
        starts.push(start_sender);
    }
    drop(ready_sender);
    let all = (0..threads.len()).all(|_| ready.recv().is_ok());
    if all {
        starts.iter().for_each(|start| start.send(()).unwrap_or_default());
    }
    // Dropped unsent, the start signals end the shards that got ready in vain.
    drop(starts);
    let shards = Shards { remote, threads, blocking };
    if all { Ok(shards) } else { Err(shards.join().expect_err("some shard said why")) }
}

fn ports(count: usize) -> Result<Vec<Arc<Port>>> {
    (0..count)
        .map(|shard| Port::new(shard).map(Arc::new))
        .collect::<std::io::Result<_>>()
        .map_err(|error| failed(format!("no eventfd for a shard: {error}; raise `ulimit -n`")))
}

/// The CPU of each shard, or none for a shard that is not pinned.
fn placement(options: &RuntimeOptions) -> Result<Vec<Option<usize>>> {
    let count = options.shards;
    if !(1..=SHARDS_MAX).contains(&count) {
        return Err(failed(format!("{count} shards: choose between 1 and {SHARDS_MAX}")));
    }
    let cpus = sys::allowed_cpus()
        .map_err(|error| failed(format!("the CPUs of this process are unknown: {error}")))?;
    if count > cpus.len() && !options.allow_shared_cpus {
        let have = cpus.len();
        return Err(failed(format!(
            "{count} shards on {have} CPUs: use --shards {have}, or let shards share CPUs with \
             --set millrace.shards.share.cpus=true"
        )));
    }
    if count > cpus.len() || !options.pin {
        return Ok(vec![None; count]);
    }
    Ok(cpus.into_iter().take(count).map(Some).collect())
}

#[cfg(test)]
mod tests;
