//! A broker that stands still (SIGSTOP) holds up nobody for ever: neither our own client, whose
//! records fail in time, nor more connections than its backlog has room for.

use std::{
    net::{SocketAddr, TcpStream},
    sync::mpsc,
    time::Duration,
};

use millrace_net::client::{
    config::ProducerConfig,
    producer::{Callback, Producer, ProducerRecord},
};
use millrace_tests::{
    broker::{Broker, Options},
    kernel::{self, Signal},
    wire::Connection,
};

/// Far above every timeout of the producer below: beyond it, a call hangs.
const HANGS: Duration = Duration::from_secs(60);

/// More than the sockets' buffers of both sides take, so that a write waits for the broker.
const VALUE_BYTES: usize = 24 << 20;

/// Below the second after which the kernel asks again where a backlog was full.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

fn stand_still(broker: &Broker) {
    assert!(kernel::signal(broker.pid(), Signal::Stop), "it runs");
}

fn producer(broker: &Broker) -> Producer {
    let mut config = ProducerConfig::new(broker.bootstrap());
    for (name, value) in [
        ("request.timeout.ms", "1000"),
        ("delivery.timeout.ms", "3000"),
        ("max.request.size", "33554432"),
        ("buffer.memory", "134217728"),
    ] {
        config.set(name, value).expect("a setting");
    }
    Producer::connect(config).expect("it answers")
}

#[test]
fn a_write_that_nobody_takes_ends_and_its_records_fail() {
    let broker = Broker::start(Options::default().with_shards(1));
    let mut link = Connection::open(broker.address()).expect("it answers");
    link.create_topic_with("large", 1, &[("max.message.bytes", "33554432")]).expect("made");
    let producer = producer(&broker);
    let record = ProducerRecord { topic: "large", ..ProducerRecord::default() };
    producer
        .send_and_wait(&ProducerRecord { value: Some(b"opens the connection"), ..record })
        .expect("the broker runs");
    stand_still(&broker);
    let value = vec![7; VALUE_BYTES];
    let (told, outcomes) = mpsc::sync_channel(1);
    let callback: Callback = Box::new(move |outcome| {
        let _ = told.send(outcome.is_ok());
    });
    producer
        .send(&ProducerRecord { value: Some(&value), ..record }, Some(callback))
        .expect("it is queued");
    let (flushed, waiting) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        producer.flush();
        let _ = flushed.send(());
    });
    waiting.recv_timeout(HANGS).expect("flush() ends");
    assert_eq!(outcomes.recv(), Ok(false), "what was not acknowledged has failed");
}

/// How many of some connections are made while the broker accepts none.
fn connected(address: SocketAddr) -> usize {
    const ASKED: usize = 8;
    let streams: Vec<_> = (0..ASKED)
        .filter_map(|_| TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).ok())
        .collect();
    assert!(!streams.is_empty(), "the kernel takes one at least");
    streams.len()
}

#[test]
fn the_backlog_is_as_long_as_its_setting_says() {
    let options = Options::default().with_shards(1);
    for (backlog, all) in [("1", false), ("100", true)] {
        let options = options.clone().with("socket.listen.backlog.size", backlog);
        let broker = Broker::start(options);
        stand_still(&broker);
        let connected = connected(broker.address());
        assert_eq!(connected == 8, all, "{connected} with a backlog of {backlog}");
    }
}
