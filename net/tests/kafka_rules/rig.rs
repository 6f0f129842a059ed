//! A broker of two shards in this process, and a connection that sends typed requests.

use std::{borrow::Cow, cell::Cell, io::ErrorKind, net::SocketAddr, path::Path, time::Duration};

use millrace_engine::{
    batch::{BatchBuilder, BatchOptions, NewRecord},
    config::{BrokerConfig, Sources},
    io::{
        buf::{Chain, Pool, Slice},
        runtime::RuntimeOptions,
    },
    types::TopicId,
};
use millrace_net::{
    broker::{self, Running},
    client::{
        admin::{Admin, NewTopic},
        config::ClientConfig,
    },
    wire::{
        Encoder, ErrorCode, Grouped, Item, Request, RequestHeader, Topic,
        produce::{PartitionProduceData, ProduceRequest},
    },
};
use tempfile::TempDir;

use crate::socket::Socket;

/// The newest version of Produce and Fetch that names topics by name.
pub const BY_NAME: i16 = 12;

/// A running broker.
pub struct Rig {
    running: Option<Running>,
    settings: Vec<String>,
    dir: TempDir,
}

impl Rig {
    /// A fresh broker with the topic "orders" of four partitions.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// As [`Rig::start`], with further settings.
    pub fn start_with(settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let data = format!("log.dirs={}", dir.path().display());
        let given = settings.iter().map(|&setting| setting.to_owned());
        let settings = [data, "listeners=PLAINTEXT://127.0.0.1:0".to_owned()];
        let settings = settings.into_iter().chain(given).collect();
        let mut rig = Self { running: None, settings, dir };
        rig.run();
        rig.create("orders", &[]);
        rig
    }

    /// Stops the broker, lets `change` at its data directory, and starts it again.
    pub fn restart(&mut self, change: impl FnOnce(&Path)) {
        self.stop();
        change(self.dir.path());
        self.run();
    }

    fn run(&mut self) {
        let set = self.settings.clone();
        let config = BrokerConfig::load(&Sources { set, ..Sources::default() });
        let options = RuntimeOptions::for_tests(2);
        let running = broker::start(config.expect("valid settings"), options).expect("it starts");
        self.running = Some(running);
    }

    fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stopper()();
            running.wait().expect("a clean stop");
        }
    }

    /// Makes a topic of four partitions.
    pub fn create(&self, name: &str, configs: &[(&str, &str)]) {
        let mut admin =
            Admin::connect(ClientConfig::new(self.address().to_string())).expect("it answers");
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let configs = configs.iter().map(owned).collect();
        let topic = NewTopic { partitions: 4, configs, ..NewTopic::new(name) };
        admin.create_topic(&topic, false).expect("made");
    }

    /// A new connection.
    pub fn connect(&self) -> Connection {
        Connection { socket: Socket::open(self.address()), last_id: Cell::new(0) }
    }

    fn address(&self) -> SocketAddr {
        self.running.as_ref().expect("it runs").addresses()[0]
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A connection that sends typed requests.
pub struct Connection {
    socket: Socket,
    last_id: Cell<i32>,
}

impl Connection {
    /// Sends a request and does not wait.
    pub fn send<R: Request>(&self, version: i16, request: &R) {
        assert!(self.try_send(version, request), "the broker reads");
    }

    /// Sends a request; `false` when the broker has ended the connection.
    pub fn try_send<R: Request>(&self, version: i16, request: &R) -> bool {
        let correlation_id = self.last_id.get() + 1;
        self.last_id.set(correlation_id);
        let client_id = Some(Cow::Borrowed("rules"));
        let header = RequestHeader { key: R::KEY, version, correlation_id, client_id };
        let frame = Encoder::new(Pool::new(128 << 20)).request(&header, request).expect("fits");
        self.socket.send(&frame.to_vec()).is_ok()
    }

    /// Whether the broker ends the connection within `time`, unless it answers first.
    pub fn is_ended(&self, time: Duration) -> bool {
        let stream = &self.socket.stream;
        let usual = stream.read_timeout().expect("a TCP socket");
        stream.set_read_timeout(Some(time)).expect("a TCP socket");
        let read = stream.peek(&mut [0; 1]);
        stream.set_read_timeout(usual).expect("a TCP socket");
        match read {
            Ok(count) => count == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }

    /// Waits for the answer to the request sent last and takes it apart.
    pub fn receive<R: Request, T>(
        &self,
        version: i16,
        take: impl FnOnce(R::Response<'_>) -> T,
    ) -> T {
        let answer = Chain::from(Slice::copy_of(&self.socket.receive()));
        let (id, response) = R::read_response(&answer, version).expect("a valid answer");
        assert_eq!(id, self.last_id.get(), "the answer is to the last request");
        take(response)
    }

    /// Sends a request and takes its answer apart.
    pub fn call<R: Request, T>(
        &self,
        version: i16,
        request: &R,
        take: impl FnOnce(R::Response<'_>) -> T,
    ) -> T {
        self.send(version, request);
        self.receive::<R, T>(version, take)
    }

    /// Appends a batch of one record of "orders" and returns what is answered.
    pub fn produce(&self, partition: i32, bytes: usize, timeout_ms: i32) -> (ErrorCode, i64) {
        let topic = Topic { name: "orders".into(), topic_id: TopicId::NONE, partitions: 1 };
        self.produce_to(BY_NAME, topic, partition, bytes, timeout_ms)
    }

    /// As [`Connection::produce`], to the topic as it is named.
    pub fn produce_to(
        &self,
        version: i16,
        topic: Topic<'_>,
        partition: i32,
        bytes: usize,
        timeout_ms: i32,
    ) -> (ErrorCode, i64) {
        let records = Chain::from(Slice::copy_of(&batch(bytes)));
        let partitions = [PartitionProduceData { index: partition, records }];
        let topics = [topic];
        let topics = Grouped::Values { topics: &topics, partitions: &partitions };
        let request = ProduceRequest { acks: -1, timeout_ms, topics, ..ProduceRequest::default() };
        self.call(version, &request, |response| match response.topics.iter().nth(1) {
            Some(Item::Partition(answer)) => (answer.error_code, answer.base_offset),
            _ => panic!("one topic and one partition: {response:?}"),
        })
    }
}

/// A batch of one record with a value of so many bytes.
pub fn batch(bytes: usize) -> Vec<u8> {
    batch_of(&vec![7; bytes])
}

/// A batch of one record with that value.
pub fn batch_of(value: &[u8]) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    let record = NewRecord { timestamp_ms: 1, value: Some(value), ..NewRecord::default() };
    builder.push(&record).expect("a small record");
    let mut made = Vec::new();
    builder.finish(&BatchOptions::default(), &mut made).expect("a plain batch");
    made
}
