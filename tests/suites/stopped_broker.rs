//! A broker that stands still (SIGSTOP) holds up nobody for ever: records of our own client fail in
//! time.

use std::{
    sync::{Arc, mpsc},
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
    let producer = Arc::new(producer(&broker));
    let record = ProducerRecord { topic: "large", ..ProducerRecord::default() };
    producer
        .send_and_wait(&ProducerRecord { value: Some(b"opens the connection"), ..record })
        .expect("the broker runs");
    stand_still(&broker);
    let value = vec![7; VALUE_BYTES];
    let (told, outcomes) = mpsc::channel();
    let callback: Callback = Box::new(move |outcome| {
        let _ = told.send(outcome.is_ok());
    });
    producer
        .send(&ProducerRecord { value: Some(&value), ..record }, Some(callback))
        .expect("it is queued");
    let (flushed, waiting) = mpsc::channel();
    let flushing = producer.clone();
    std::thread::spawn(move || {
        flushing.flush();
        let _ = flushed.send(());
    });
    waiting.recv_timeout(HANGS).expect("flush() ends");
    assert_eq!(outcomes.recv(), Ok(false), "what was not acknowledged has failed");
}
