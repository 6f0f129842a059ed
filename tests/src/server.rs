//! Ours or Apache Kafka, under the same story.
//!
//! Owns what a suite may do to either. A suite that passes against Kafka is known to ask nothing
//! that Kafka does not keep: `MILLRACE_TEST_AGAINST=kafka` runs it so.

use std::net::SocketAddr;

use crate::{
    broker::{self, Broker},
    kafka::{self, Kafka},
    kernel::Signal,
};

/// A running broker of either make.
#[derive(Debug)]
pub enum Server {
    /// This repository's.
    Millrace(Broker),
    /// Apache Kafka.
    Kafka(Kafka),
}

/// Whether the suites are to run against Apache Kafka.
#[must_use]
pub fn against_kafka() -> bool {
    std::env::var_os("MILLRACE_TEST_AGAINST").is_some_and(|value| value == "kafka")
}

impl Server {
    /// Starts the broker that the environment asks for, which tells clients to use this port
    /// instead of its own, if one is given.
    #[must_use]
    pub fn start(advertised_port: Option<u16>) -> Self {
        if against_kafka() {
            let options = kafka::Options { advertised_port, ..kafka::Options::default() };
            return Self::Kafka(Kafka::start(options).expect("Apache Kafka starts"));
        }
        Self::Millrace(Broker::start(broker::Options {
            advertised_port,
            ..broker::Options::default()
        }))
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Millrace(broker) => broker.address(),
            Self::Kafka(kafka) => kafka.address(),
        }
    }

    /// What a client is given as bootstrap server.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.address().to_string()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        match self {
            Self::Millrace(broker) => broker.pid(),
            Self::Kafka(kafka) => kafka.pid(),
        }
    }

    /// Ends it at once, and waits until it is gone.
    pub fn kill(&mut self) {
        match self {
            Self::Millrace(broker) => broker.kill(),
            Self::Kafka(kafka) => kafka.kill(),
        }
    }

    /// Asks it to stop, and waits until it has.
    pub fn stop(&mut self) {
        match self {
            Self::Millrace(broker) => {
                let (status, _) = broker.stop(Signal::Terminate);
                assert!(status.success(), "a clean stop: {status}");
            }
            Self::Kafka(kafka) => kafka.stop(),
        }
    }

    /// Starts it again on the same directory and port, after it ended.
    pub fn restart(&mut self) {
        match self {
            Self::Millrace(broker) => broker.restart(),
            Self::Kafka(kafka) => kafka.restart().expect("Apache Kafka restarts"),
        }
    }

    /// All that it wrote.
    #[must_use]
    pub fn log(&self) -> String {
        match self {
            Self::Millrace(broker) => broker.log(),
            Self::Kafka(kafka) => kafka.log(),
        }
    }
}
