//! The flags that say which cluster to talk to, the same for every client command.

use clap::Args;
use millrace_net::client::{admin::Admin, config::ClientConfig, error::ClientError};

/// The port that `--zookeeper HOST` is taken to mean: ours, and Kafka's.
const DEFAULT_PORT: u16 = 9092;

/// Which cluster.
#[derive(Clone, Debug, Args)]
pub struct Bootstrap {
    /// Brokers to ask first, HOST:PORT, separated by commas
    #[arg(long, visible_alias = "broker-list", value_name = "HOST:PORT")]
    bootstrap_server: Option<String>,
    /// Retired with Kafka 4, still in many tutorials: its host is taken as the bootstrap server.
    #[arg(long, hide = true, value_name = "HOST[:PORT]", conflicts_with = "bootstrap_server")]
    zookeeper: Option<String>,
}

impl Bootstrap {
    /// The bootstrap servers; says so when `--zookeeper` stood for them.
    pub fn servers(&self) -> String {
        if let Some(zookeeper) = &self.zookeeper {
            let servers = from_zookeeper(zookeeper);
            eprintln!("millrace: there is no ZooKeeper here; using --bootstrap-server {servers}");
            return servers;
        }
        self.bootstrap_server.clone().unwrap_or_else(|| format!("localhost:{DEFAULT_PORT}"))
    }

    /// Client settings for this cluster.
    pub fn config(&self) -> ClientConfig {
        ClientConfig::new(self.servers())
    }

    /// An admin client, connected.
    pub fn admin(&self) -> Result<Admin, ClientError> {
        Admin::connect(self.config())
    }
}

/// The hosts of a ZooKeeper connection string (`host:port,host:port/chroot`) on our port.
fn from_zookeeper(zookeeper: &str) -> String {
    let hosts = zookeeper.split('/').next().unwrap_or(zookeeper);
    let servers: Vec<String> = hosts
        .split(',')
        .map(|host| match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        })
        .map(|name| format!("{name}:{DEFAULT_PORT}"))
        .collect();
    servers.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zookeeper_is_its_host_on_our_port() {
        assert_eq!(from_zookeeper("localhost:2181"), "localhost:9092");
        assert_eq!(from_zookeeper("zk1"), "zk1:9092");
        assert_eq!(from_zookeeper("a:2181,[::1]:2181/kafka"), "a:9092,[::1]:9092");
    }
}
