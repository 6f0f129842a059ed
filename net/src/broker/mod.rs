//! The composition root: from a configuration to running shards, and back to a clean stop.
//!
//! The only place that sees all parts. Owns the order of start (probe, lock, metadata, sockets,
//! shards) and of stop (accept no more, answer what was read, flush, mark clean). Every failure of
//! start is one line that says what to do.

mod accept;
mod route;
mod shard;

use std::{
    net::{SocketAddr, ToSocketAddrs},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
};

use millrace_engine::{
    config::BrokerConfig,
    error::{Error, Kind, Result},
    io::{
        health::DiskHealth,
        mesh::Remote,
        net::Listener,
        probe,
        runtime::{RuntimeOptions, Shards, run_shards},
    },
    meta::{Image, MetaHandle, writer},
    shard::{Recovered, message::Message},
    types::ShardId,
};

use self::route::Route;
use crate::handler::Advertised;

/// What every shard is started from.
struct Plan {
    config: Arc<BrokerConfig>,
    meta: MetaHandle,
    image: Arc<Image>,
    published: Arc<AtomicU64>,
    advertised: Vec<Advertised>,
    /// Taken by shard 0, which accepts.
    listeners: Mutex<Vec<Listener>>,
    /// One for each directory of `log.dirs`, the same for those of one file system: a failed flush
    /// on one shard fails it for all, and for the metadata log.
    health: Vec<DiskHealth>,
    ready: Mutex<mpsc::SyncSender<Result<Ready>>>,
    /// The first thing that kept a shard from a clean stop.
    unclean: Mutex<Option<Error>>,
    /// Messages that shards have sent to each other, of the shards that have ended.
    hops: AtomicU64,
}

/// What a started shard reports.
struct Ready {
    /// How each log directory is written and flushed.
    disks: Vec<String>,
    /// What its recovery cut or found damaged.
    recovered: Recovered,
}

/// A running broker.
pub struct Running {
    plan: Arc<Plan>,
    shards: Shards<Message>,
    meta: MetaHandle,
    addresses: Vec<SocketAddr>,
    summary: String,
}

/// Starts a broker; returns when every shard serves.
///
/// # Errors
/// One line: what, where, what to do. Nothing is left running.
pub fn start(config: BrokerConfig, options: RuntimeOptions) -> Result<Running> {
    let config = Arc::new(config);
    probe::machine(&options)?;
    for directory in &config.log_dirs {
        // The lock taken here is given back: the metadata's writer takes it for good.
        probe::data_dir(directory)?;
    }
    probe::distinct(&config.log_dirs)?;
    let listeners = bind(&config)?;
    let addresses: Vec<_> = listeners.iter().map(Listener::local_address).collect();
    let route = Arc::<Route<Arc<Image>>>::default();
    let published = Arc::<AtomicU64>::default();
    let publish = publisher(route.clone(), published.clone());
    let health = DiskHealth::of_directories(&config.log_dirs)?;
    let (meta, image) = writer::start(config.clone(), &health[0], publish)?;
    published.store(image.version(), Ordering::Release);
    let (ready_sender, ready) = mpsc::sync_channel(options.shards);
    let plan = Arc::new(Plan {
        advertised: advertised(&config, &addresses),
        health,
        config,
        meta: meta.clone(),
        image,
        published,
        listeners: Mutex::new(listeners),
        ready: Mutex::new(ready_sender),
        unclean: Mutex::new(None),
        hops: AtomicU64::new(0),
    });
    let shard_plan = plan.clone();
    let shards = run_shards(&options, move |context| shard::run(context, shard_plan.clone()))
        .inspect_err(|_| meta.stop())?;
    let remote = shards.remote();
    route.open(Box::new(move |image| give_to_all(&remote, &image)));
    let ready = match wait_ready(&ready, options.shards) {
        Ok(ready) => ready,
        Err(error) => {
            stop_shards(&shards.remote());
            let _ = shards.join();
            meta.stop();
            return Err(error);
        }
    };
    if let Some(line) = ready.recovered.summary() {
        eprintln!("millrace: {line}");
    }
    let summary = summarize(&plan, &addresses, options.shards, &ready.disks);
    Ok(Running { plan, shards, meta, addresses, summary })
}

impl Running {
    /// One line: addresses, shards, data directories with the disk path in use, durability mode.
    #[must_use]
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The addresses listened on, in the order of `listeners`.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Asks every shard to stop; [`Running::wait`] returns when they have.
    pub fn stopper(&self) -> impl Fn() + Send + 'static {
        let remote = self.shards.remote();
        move || stop_shards(&remote)
    }

    /// Waits until the broker has stopped; every log is flushed and marked clean then. Returns how
    /// many messages its shards sent to each other.
    ///
    /// # Errors
    /// The first thing that kept a shard or the metadata log from a clean stop.
    pub fn wait(self) -> Result<u64> {
        let outcome = self.shards.join();
        self.meta.stop();
        let unclean = self.plan.unclean.lock().unwrap_or_else(PoisonError::into_inner).take();
        unclean.map_or(outcome, Err)?;
        Ok(self.plan.hops.load(Ordering::Acquire))
    }
}

fn stop_shards(remote: &Remote<Message>) {
    for shard in 0..remote.shards() {
        let shard = ShardId(u16::try_from(shard).expect("shards are bounded"));
        // A shard that has ended needs no stop.
        let _ = remote.send(shard, Message::Stop);
    }
}

/// Gives each new image to every shard.
fn publisher(route: Arc<Route<Arc<Image>>>, published: Arc<AtomicU64>) -> writer::Publish {
    Box::new(move |image| {
        published.store(image.version(), Ordering::Release);
        route.send(image);
    })
}

fn give_to_all(remote: &Remote<Message>, image: &Arc<Image>) {
    for shard in 0..remote.shards() {
        let shard = ShardId(u16::try_from(shard).expect("shards are bounded"));
        // A shard that has ended needs no image.
        let _ = remote.send(shard, Message::Image(image.clone()));
    }
}

fn bind(config: &BrokerConfig) -> Result<Vec<Listener>> {
    let backlog = config.socket_listen_backlog_size;
    let listeners = config.listeners.iter();
    listeners.map(|listener| bind_one(&listener.host, listener.port, backlog)).collect()
}

fn bind_one(host: &str, port: u16, backlog: i32) -> Result<Listener> {
    let bound = if host.is_empty() { "::" } else { host };
    let unknown = |why: String| {
        let text = format!("cannot listen on {host}:{port}: {why}; change `listeners`");
        Error::new(Kind::Invalid, text)
    };
    let mut addresses = (bound, port).to_socket_addrs().map_err(|e| unknown(e.to_string()))?;
    let address = addresses.next().ok_or_else(|| unknown("no such host".into()))?;
    probe::listen(address, backlog)
}

/// What clients are told; a listener on port 0 advertises the port that the system chose.
fn advertised(config: &BrokerConfig, addresses: &[SocketAddr]) -> Vec<Advertised> {
    let rows = config.listeners.iter().zip(addresses);
    rows.map(|(listener, address)| Advertised {
        listener: listener.name.clone(),
        host: listener.advertised_host.clone(),
        port: if listener.advertised_port == 0 { address.port() } else { listener.advertised_port },
    })
    .collect()
}

/// All shards' reports in one.
fn wait_ready(reports: &mpsc::Receiver<Result<Ready>>, shards: usize) -> Result<Ready> {
    let mut all = Ready { disks: Vec::new(), recovered: Recovered::default() };
    for _ in 0..shards {
        let report = reports
            .recv()
            .unwrap_or_else(|_| Err(Error::new(Kind::Fatal, "a shard ended before it was ready")));
        let ready = report?;
        all.disks = ready.disks;
        all.recovered += ready.recovered;
    }
    Ok(all)
}

fn summarize(plan: &Plan, addresses: &[SocketAddr], shards: usize, disks: &[String]) -> String {
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let plural = if shards == 1 { "" } else { "s" };
    let directories = plan.config.log_dirs.iter().zip(disks);
    let directories: Vec<_> =
        directories.map(|(path, disk)| format!("{} ({disk})", path.display())).collect();
    let durability = match plan.config.topic_defaults.flush_messages {
        0 | 1 => "acknowledged means flushed".to_owned(),
        more => format!("relaxed: flushed every {more} messages (log.flush.interval.messages)"),
    };
    format!(
        "ready on {}, {shards} shard{plural}, data in {}, {durability}",
        addresses.join(", "),
        directories.join(", ")
    )
}

impl Plan {
    fn unclean(&self, error: Error) {
        let mut first = self.unclean.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
    }

    fn report(&self, report: Result<Ready>) {
        let sender = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody listens only when start has failed already.
        let _ = sender.send(report);
    }
}
