//! The connections of one client: by node id, opened when needed, and any broker to ask first.
//!
//! Owns what is known of the cluster and the retry rule of calls: the same call again after a
//! doubling wait, until it succeeds, fails for good or its deadline passes.

use std::{
    collections::HashMap,
    thread,
    time::{Duration, Instant},
};

use super::{
    cluster::Cluster,
    config::ClientConfig,
    error::{ClientError, Kind, Result},
    link::Link,
};
use crate::wire::{
    ErrorCode, Request,
    typed::{
        StrBytes,
        metadata::{MetadataRequest, MetadataRequestTopic},
    },
};

/// Kafka's `retry.backoff.max.ms`.
const BACKOFF_MAX_MS: u64 = 1_000;

/// A wait that doubles with each failure, up to a second.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    next_ms: u64,
}

impl Backoff {
    /// Starts at `first_ms`.
    #[must_use]
    pub fn new(first_ms: u64) -> Self {
        Self { next_ms: first_ms.min(BACKOFF_MAX_MS) }
    }

    /// How long to wait now.
    pub fn next_wait(&mut self) -> Duration {
        let wait_ms = self.next_ms;
        self.next_ms = (wait_ms * 2).min(BACKOFF_MAX_MS);
        Duration::from_millis(wait_ms)
    }
}

/// Connections to a cluster, for one thread at a time.
#[derive(Debug)]
pub struct Links {
    config: ClientConfig,
    cluster: Cluster,
    open: HashMap<i32, Link>,
}

impl Links {
    /// Links for `config`; nothing is connected yet.
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        Self { config, cluster: Cluster::unknown(Instant::now()), open: HashMap::new() }
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// What is known of the cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// When a call that starts now has to be done: `default.api.timeout.ms` from here.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.config.default_api_timeout_ms)
    }

    /// One attempt on the broker with `node_id`. A failed link is closed.
    ///
    /// # Errors
    /// Those of [`Link::open`] and [`Link::call`]; `Unreachable` for a node nobody knows.
    pub fn call_node<R, A>(&mut self, node_id: i32, request: &R, deadline: Instant) -> Result<A>
    where
        R: for<'r> Request<Response<'r> = A>,
    {
        let result = self.link(node_id)?.call(request, deadline);
        if result.is_err() {
            self.open.remove(&node_id);
        }
        result
    }

    /// One attempt on any broker, the controller first where it is known.
    ///
    /// # Errors
    /// As [`Links::call_node`].
    pub fn call_any<R, A>(&mut self, request: &R, deadline: Instant) -> Result<A>
    where
        R: for<'r> Request<Response<'r> = A>,
    {
        let node_id = self.any_node(deadline)?;
        let result = self.call_node(node_id, request, deadline);
        if result.is_err() {
            self.cluster.brokers.clear();
        }
        result
    }

    /// Node id of the broker to ask what any can answer.
    ///
    /// # Errors
    /// When none is known and none of the bootstrap servers answers.
    fn any_node(&mut self, deadline: Instant) -> Result<i32> {
        if self.cluster.brokers.is_empty() {
            self.refresh(Some(&[]), false, deadline)?;
        }
        let controller = self.cluster.controller_id;
        if self.cluster.brokers.contains_key(&controller) {
            return Ok(controller);
        }
        self.cluster.brokers.keys().next().copied().ok_or_else(|| {
            ClientError::new(Kind::Unreachable, "the cluster names no broker; is it starting?")
        })
    }

    /// The version in which [`Links::call_any`] would say `R`, for a request whose fields depend
    /// on it.
    ///
    /// # Errors
    /// When no broker is reached, or there is no common version.
    pub fn version_at_any<R: Request>(&mut self, deadline: Instant) -> Result<i16> {
        let node_id = self.any_node(deadline)?;
        self.link(node_id)?.versions().pick(R::KEY, i16::MAX)
    }

    /// Runs `attempt` until it succeeds, fails for good, or `deadline` passes.
    ///
    /// # Errors
    /// The last one of `attempt`.
    pub fn retry<T>(
        &mut self,
        deadline: Instant,
        mut attempt: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let mut backoff = Backoff::new(self.config.retry_backoff_ms);
        loop {
            match attempt(self) {
                Err(error) if error.is_retriable() => {
                    let wait = backoff.next_wait();
                    if Instant::now() + wait >= deadline {
                        return Err(error);
                    }
                    thread::sleep(wait);
                }
                result => return result,
            }
        }
    }

    /// Asks for the cluster and the topics named (`None`: all), and remembers the answer.
    ///
    /// # Errors
    /// When no broker answers. A topic's own failure is in its entry.
    pub fn refresh(
        &mut self,
        topics: Option<&[&str]>,
        create: bool,
        deadline: Instant,
    ) -> Result<()> {
        let request = metadata_request(topics, create);
        let response = self.first_answer(&request, deadline)?;
        let code = ErrorCode::from_i16(response.error_code);
        if !code.is_none() {
            return Err(ClientError::refused(code, None).during("metadata"));
        }
        self.cluster.merge(Cluster::of(response, Instant::now()));
        let brokers = &self.cluster.brokers;
        self.open.retain(|node_id, _| brokers.contains_key(node_id));
        Ok(())
    }

    /// The answer of whichever broker answers first in turn: open links, known ones, bootstrap.
    fn first_answer<R, A>(&mut self, request: &R, deadline: Instant) -> Result<A>
    where
        R: for<'r> Request<Response<'r> = A>,
    {
        let mut last = None;
        let mut known: Vec<i32> = self.open.keys().copied().collect();
        known.extend(self.cluster.brokers.keys().filter(|node| !self.open.contains_key(node)));
        for node_id in known {
            match self.call_node(node_id, request, deadline) {
                Ok(response) => return Ok(response),
                Err(error) => last = Some(error),
            }
        }
        for address in bootstrap(&self.config.bootstrap_servers)? {
            let answer =
                Link::open(address, &self.config).and_then(|mut link| link.call(request, deadline));
            match answer {
                Ok(response) => return Ok(response),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| ClientError::new(Kind::Unreachable, "no broker is known")))
    }

    fn link(&mut self, node_id: i32) -> Result<&mut Link> {
        if !self.open.contains_key(&node_id) {
            let Some(broker) = self.cluster.brokers.get(&node_id) else {
                let message = format!("the cluster has no broker with node id {node_id}");
                return Err(ClientError::new(Kind::Unreachable, message));
            };
            let address = broker.address();
            let link = Link::open(&address, &self.config)
                .map_err(|error| error.during(&format!("advertised by broker {node_id}")))?;
            self.open.insert(node_id, link);
        }
        self.open.get_mut(&node_id).ok_or_else(|| ClientError::new(Kind::Closed, "link is gone"))
    }
}

/// The addresses of `bootstrap.servers`.
///
/// # Errors
/// `Invalid` when one has no port.
pub fn bootstrap(servers: &str) -> Result<Vec<&str>> {
    let addresses: Vec<&str> =
        servers.split(',').map(str::trim).filter(|address| !address.is_empty()).collect();
    for address in &addresses {
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none() {
            let message =
                format!("bootstrap server {address}: give HOST:PORT, as in {address}:9092");
            return Err(ClientError::invalid(message));
        }
    }
    if addresses.is_empty() {
        return Err(ClientError::invalid("no bootstrap server given; give HOST:PORT"));
    }
    Ok(addresses)
}

/// A Metadata request for the topics named (`None`: all).
#[must_use]
pub fn metadata_request(topics: Option<&[&str]>, create: bool) -> MetadataRequest {
    let mut request = MetadataRequest::default();
    request.allow_auto_topic_creation = create;
    request.topics = topics.map(|names| {
        let entry = |name: &&str| {
            let mut topic = MetadataRequestTopic::default();
            topic.name = Some(StrBytes::from(*name));
            topic
        };
        names.iter().map(entry).collect()
    });
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bootstrap_server_needs_a_port() {
        assert_eq!(bootstrap("a:1, [::1]:2,").expect("two"), ["a:1", "[::1]:2"]);
        let error = bootstrap("localhost").expect_err("no port");
        assert!(error.to_string().contains("localhost:9092"), "{error}");
        assert!(bootstrap(" , ").is_err());
    }

    #[test]
    fn waits_double_up_to_a_second() {
        let mut backoff = Backoff::new(100);
        let waits: Vec<u128> = (0..6).map(|_| backoff.next_wait().as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1_000, 1_000]);
    }
}
