//! Administration of a cluster: topics, their settings, offsets and brokers.
//!
//! Each call is retried until it succeeds, fails for good or `default.api.timeout.ms` passes.
//! Calls for several topics or partitions answer one result each, so that one failure does not
//! hide the others.

mod configs;
mod records;
mod topics;

use std::time::Instant;

use super::{
    cluster::{Broker, Cluster},
    config::ClientConfig,
    error::{ClientError, Result},
    links::Links,
};
use crate::wire::{ErrorCode, typed::describe_cluster::DescribeClusterRequest};

pub use configs::{AlterOp, ConfigEntry, ConfigSource, ConfigSynonym, Resource};
pub(super) use records::list_offset;
pub use records::{ListedOffset, OffsetSpec};
pub use topics::{NewTopic, TopicCreated};

/// An admin client.
#[derive(Debug)]
pub struct Admin {
    links: Links,
}

/// Brokers of the cluster, as DescribeCluster (KIP-700) tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDescription {
    /// `cluster.id`.
    pub cluster_id: String,
    /// Node id of the controller (with KRaft: of any live broker), or -1.
    pub controller_id: i32,
    /// Brokers, by node id.
    pub brokers: Vec<Broker>,
}

impl Admin {
    /// Connects to one bootstrap server and learns the brokers.
    ///
    /// # Errors
    /// At once, without retry, when no bootstrap server answers.
    pub fn connect(config: ClientConfig) -> Result<Self> {
        let mut links = Links::new(config);
        let deadline = links.deadline();
        links.refresh(Some(&[]), false, deadline)?;
        Ok(Self { links })
    }

    /// The cluster with the topics named, or all of them.
    ///
    /// # Errors
    /// When no broker answers. A topic that does not exist has an entry with the error code.
    pub fn metadata(&mut self, topics: Option<&[&str]>) -> Result<Cluster> {
        let deadline = self.links.deadline();
        self.links.retry(deadline, |links| links.refresh(topics, false, deadline))?;
        let mut cluster = self.links.cluster().clone();
        if let Some(names) = topics {
            cluster.topics.retain(|name, _| names.contains(&name.as_str()));
        }
        Ok(cluster)
    }

    /// The brokers of the cluster.
    ///
    /// # Errors
    /// When no broker answers or it refuses.
    pub fn describe_cluster(&mut self) -> Result<ClusterDescription> {
        let mut request = DescribeClusterRequest::default();
        request.endpoint_type = 1;
        self.call(|links, deadline| {
            let response = links.call_any(&request, deadline)?;
            let message = response.error_message.as_deref();
            checked(response.error_code, message)?;
            let brokers = response
                .brokers
                .iter()
                .map(|broker| Broker {
                    node_id: broker.broker_id,
                    host: broker.host.as_str().to_owned(),
                    port: broker.port,
                    rack: broker.rack.as_ref().map(|rack| rack.as_str().to_owned()),
                })
                .collect();
            Ok(ClusterDescription {
                cluster_id: response.cluster_id.as_str().to_owned(),
                controller_id: response.controller_id,
                brokers,
            })
        })
    }

    /// Runs `attempt` under the retry rule, with the deadline of one call.
    fn call<T>(&mut self, mut attempt: impl FnMut(&mut Links, Instant) -> Result<T>) -> Result<T> {
        let deadline = self.links.deadline();
        self.links.retry(deadline, |links| attempt(links, deadline))
    }

    /// What is left for the broker to do its part, for the request's own timeout field.
    fn broker_timeout_ms(&self) -> i32 {
        i32::try_from(self.links.config().request_timeout_ms).unwrap_or(i32::MAX)
    }
}

/// `Ok` for code 0, else the broker's refusal.
fn checked(code: i16, message: Option<&str>) -> Result<()> {
    let code = ErrorCode::from_i16(code);
    if code.is_none() { Ok(()) } else { Err(ClientError::refused(code, message)) }
}

/// The result for one topic, as an admin wants it: what passes by itself fails the call, so that it
/// is tried again, but "unknown topic" is final, unlike for one who waits for it to appear.
fn settled(code: i16, message: Option<&str>) -> Result<Result<()>> {
    match checked(code, message) {
        Err(error) if error.is_retriable() && !error.is_unknown_topic() => Err(error),
        result => Ok(result),
    }
}

fn missing(what: &str) -> ClientError {
    ClientError::new(super::error::Kind::Protocol, format!("the broker's answer leaves out {what}"))
}
