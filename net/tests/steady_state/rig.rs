//! A broker in this process with one connection to each of its shards.

use std::{net::SocketAddr, path::Path};

use millrace_engine::{
    config::{BrokerConfig, Sources},
    io::runtime::RuntimeOptions,
};
use millrace_net::{
    broker::{self, Running},
    client::{
        admin::{Admin, NewTopic},
        config::ClientConfig,
    },
};

use crate::{
    counters::{self, Taken},
    frames::{self, TOPIC},
    socket::Socket,
};

/// Small, so that the memory of a log's tail goes round within a short warm-up.
const BUFFER_BUDGET_BYTES: usize = 16 << 20;

/// Partitions of the topic: enough for every shard to own one.
const PARTITIONS: i32 = 4;

/// Requests by which a connection's shard is found out.
const PROBES: usize = 8;

/// Shards of a broker, and which of them owns the partition that shard 0 is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// How many shards there are.
    pub shards: usize,
    /// The owner of the partition.
    pub owner: usize,
}

/// One shard, two with the partition on the one that is asked, two with it on the other.
pub const LAYOUTS: [Layout; 3] = [
    Layout { shards: 1, owner: 0 },
    Layout { shards: 2, owner: 0 },
    Layout { shards: 2, owner: 1 },
];

/// A running broker with its topic.
pub struct Rig {
    running: Running,
    shards: usize,
    /// One to each shard, by which its counts are brought up to date.
    probes: Vec<Connection>,
}

impl Rig {
    /// Starts a broker of `shards` shards over `dir`, which may hold an earlier one's data.
    pub fn start(dir: &Path, shards: usize) -> Self {
        counters::start();
        let set =
            [format!("log.dirs={}", dir.display()), "listeners=PLAINTEXT://127.0.0.1:0".to_owned()];
        let sources = Sources { set: set.to_vec(), ..Sources::default() };
        let config = BrokerConfig::load(&sources).expect("valid settings");
        let mut options = RuntimeOptions::for_tests(shards);
        options.buffer_budget_bytes = BUFFER_BUDGET_BYTES;
        let running = broker::start(config, options).expect("the broker starts");
        create_topic(running.addresses()[0]);
        let mut rig = Self { running, shards, probes: Vec::new() };
        rig.probes = (0..shards).map(|shard| rig.connect(shard)).collect();
        rig
    }

    /// Stops the broker; all is flushed.
    pub fn stop(self) {
        drop(self.probes);
        self.running.stopper()();
        self.running.wait().expect("a clean stop");
    }

    /// A connection that `shard` serves.
    pub fn connect(&self, shard: usize) -> Connection {
        let address = self.running.addresses()[0];
        (0..2 * self.shards)
            .map(|_| Connection::open(address))
            .find(|connection| connection.find_shard(self.shards) == shard)
            .expect("connections are dealt out to all shards in turn")
    }

    /// What each shard takes while `work` is done.
    pub fn measure(&self, work: impl FnOnce()) -> Vec<Taken> {
        let before = self.look();
        work();
        self.look().iter().zip(before).map(|(after, before)| *after - before).collect()
    }

    /// The counts of all shards, brought up to date by a small request to each.
    fn look(&self) -> Vec<Taken> {
        let probe = frames::api_versions();
        self.probes.iter().for_each(|connection| drop(connection.call(&probe)));
        (0..self.shards).map(counters::taken).collect()
    }

    /// A partition that `owner` owns, found by who copies what is produced to it.
    pub fn partition_of(&self, owner: usize) -> i32 {
        let batch = frames::batch(16);
        let owned = |partition: &i32| {
            let frame = frames::produce(*partition, &batch);
            let taken = self.measure(|| drop(self.probes[0].call(&frame)));
            taken[owner].copied_bytes >= batch.len() as u64
        };
        (0..PARTITIONS).find(owned).expect("partitions are dealt out to all shards")
    }
}

fn create_topic(address: SocketAddr) {
    let mut admin = Admin::connect(ClientConfig::new(address.to_string())).expect("it answers");
    let topic = NewTopic { partitions: PARTITIONS, ..NewTopic::new(TOPIC) };
    if let Err(error) = admin.create_topic(&topic, false) {
        assert!(error.to_string().contains("exists"), "{error}");
    }
}

/// A connection that sends frames as they are.
pub struct Connection {
    socket: Socket,
}

impl Connection {
    fn open(address: SocketAddr) -> Self {
        Self { socket: Socket::open(address) }
    }

    /// Sends bytes: a frame, some of them, or a part of one.
    pub fn send(&self, bytes: &[u8]) {
        self.socket.send(bytes).expect("the broker reads");
    }

    /// The next answer, without its length.
    pub fn receive(&self) -> Vec<u8> {
        self.socket.receive()
    }

    /// Sends a frame and waits for its answer.
    pub fn call(&self, frame: &[u8]) -> Vec<u8> {
        self.send(frame);
        self.receive()
    }

    /// The shard whose copied bytes grow most when this connection is used.
    fn find_shard(&self, shards: usize) -> usize {
        let before: Vec<_> = (0..shards).map(counters::taken).collect();
        (0..PROBES).for_each(|_| drop(self.call(&frames::api_versions())));
        let grown = |shard: &usize| (counters::taken(*shard) - before[*shard]).copied_bytes;
        (0..shards).max_by_key(grown).expect("there is a shard")
    }
}
