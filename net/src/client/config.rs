//! Settings of the client, under Kafka's own names and with the defaults of its Java client 4.x.
//!
//! Owns names, defaults, parsing and the relations between settings. A setting that is unknown,
//! ill-typed or contradicts another is one line of error before anything is sent.

use millrace_engine::batch::Codec;

use super::{
    error::{ClientError, Result},
    partitioner::Strategy,
};

/// What every kind of client needs to reach a cluster.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// `bootstrap.servers`: `host:port`, several separated by commas.
    pub bootstrap_servers: String,
    /// `client.id`: shown in the broker's logs and metrics.
    pub client_id: String,
    /// `request.timeout.ms`: how long an answer may take.
    pub request_timeout_ms: u64,
    /// `retry.backoff.ms`: the first wait before a retry; it doubles up to one second.
    pub retry_backoff_ms: u64,
    /// `metadata.max.age.ms`: leaders and partitions are asked for again after this time.
    pub metadata_max_age_ms: u64,
    /// `socket.connection.setup.timeout.ms`: how long a connection may take.
    pub connection_setup_timeout_ms: u64,
    /// `default.api.timeout.ms`: how long an admin or metadata call may take, retries included.
    pub default_api_timeout_ms: u64,
}

impl ClientConfig {
    /// Defaults for the cluster behind `bootstrap_servers`.
    #[must_use]
    pub fn new(bootstrap_servers: impl Into<String>) -> Self {
        Self {
            bootstrap_servers: bootstrap_servers.into(),
            client_id: "millrace".to_owned(),
            request_timeout_ms: 30_000,
            retry_backoff_ms: 100,
            metadata_max_age_ms: 300_000,
            connection_setup_timeout_ms: 10_000,
            default_api_timeout_ms: 60_000,
        }
    }

    /// Sets one setting by Kafka's name. `Ok(false)` when the name is not one of these.
    ///
    /// # Errors
    /// `Invalid` when the value is not of the setting's type.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        match name {
            "bootstrap.servers" => value.clone_into(&mut self.bootstrap_servers),
            "client.id" => value.clone_into(&mut self.client_id),
            "request.timeout.ms" => self.request_timeout_ms = number(name, value)?,
            "retry.backoff.ms" => self.retry_backoff_ms = number(name, value)?,
            "metadata.max.age.ms" => self.metadata_max_age_ms = number(name, value)?,
            "socket.connection.setup.timeout.ms" => {
                self.connection_setup_timeout_ms = number(name, value)?;
            }
            "default.api.timeout.ms" => self.default_api_timeout_ms = number(name, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Kafka's `acks`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acks {
    /// `0`: no answer is awaited; a record may be lost unnoticed.
    None,
    /// `1`: the leader alone.
    Leader,
    /// `all` (`-1`): every in-sync replica.
    #[default]
    All,
}

impl Acks {
    /// The number on the wire.
    #[must_use]
    pub fn code(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }

    /// Reads `0`, `1`, `all` or `-1`.
    ///
    /// # Errors
    /// `Invalid` for anything else.
    pub fn parse(value: &str) -> Result<Self> {
        match value {
            "0" => Ok(Self::None),
            "1" => Ok(Self::Leader),
            "all" | "-1" => Ok(Self::All),
            _ => Err(ClientError::invalid(format!("acks={value}: give 0, 1 or all"))),
        }
    }
}

/// Settings of a producer.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// How to reach the cluster.
    pub client: ClientConfig,
    /// `batch.size`: bytes of records after which a batch is sent without waiting for `linger.ms`.
    pub batch_size: usize,
    /// `linger.ms`: how long a batch that is not full waits for more records.
    pub linger_ms: u64,
    /// `buffer.memory`: bytes of unacknowledged records, beyond which `send` blocks.
    pub buffer_memory: usize,
    /// `max.block.ms`: how long `send` blocks for memory or metadata before it fails.
    pub max_block_ms: u64,
    /// `acks`.
    pub acks: Acks,
    /// `retries`: attempts after the first, within `delivery.timeout.ms`.
    pub retries: u32,
    /// `delivery.timeout.ms`: from `send` to success or failure.
    pub delivery_timeout_ms: u64,
    /// `max.in.flight.requests.per.connection`.
    pub max_in_flight: usize,
    /// `enable.idempotence`: no duplicate and no reordering through retries. `None` means: on
    /// unless another setting rules it out, as in Kafka.
    pub enable_idempotence: Option<bool>,
    /// `compression.type`.
    pub compression_type: Codec,
    /// `partitioner.class`.
    pub partitioner: Strategy,
    /// `max.request.size`: the largest record and request, in bytes.
    pub max_request_size: usize,
}

/// In-flight requests beyond which idempotence cannot hold: brokers remember five batches (KIP-98).
pub const IDEMPOTENT_IN_FLIGHT_MAX: usize = millrace_engine::limits::PRODUCER_BATCHES_KEPT;

impl ProducerConfig {
    /// Defaults for the cluster behind `bootstrap_servers`.
    #[must_use]
    pub fn new(bootstrap_servers: impl Into<String>) -> Self {
        Self {
            client: ClientConfig::new(bootstrap_servers),
            batch_size: 16_384,
            linger_ms: 5,
            buffer_memory: 32 << 20,
            max_block_ms: 60_000,
            acks: Acks::All,
            retries: u32::MAX >> 1,
            delivery_timeout_ms: 120_000,
            max_in_flight: 5,
            enable_idempotence: None,
            compression_type: Codec::None,
            partitioner: Strategy::Sticky,
            max_request_size: 1 << 20,
        }
    }

    /// Sets one setting by Kafka's name.
    ///
    /// # Errors
    /// `Invalid` when the name is unknown or the value is not of its type.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "batch.size" => self.batch_size = number(name, value)?,
            "linger.ms" => self.linger_ms = number(name, value)?,
            "buffer.memory" => self.buffer_memory = number(name, value)?,
            "max.block.ms" => self.max_block_ms = number(name, value)?,
            "acks" => self.acks = Acks::parse(value)?,
            "retries" => self.retries = number(name, value)?,
            "delivery.timeout.ms" => self.delivery_timeout_ms = number(name, value)?,
            "max.in.flight.requests.per.connection" => {
                self.max_in_flight = number(name, value)?;
            }
            "enable.idempotence" => self.enable_idempotence = Some(boolean(name, value)?),
            "compression.type" => self.compression_type = codec(value)?,
            "partitioner.class" => self.partitioner = strategy(value)?,
            "max.request.size" => self.max_request_size = number(name, value)?,
            _ => return known(self.client.set(name, value)?, name),
        }
        Ok(())
    }

    /// Whether this producer is idempotent: as asked, else on when `acks`, `retries` and the
    /// in-flight bound allow it.
    #[must_use]
    pub fn idempotent(&self) -> bool {
        self.enable_idempotence.unwrap_or_else(|| self.idempotence_obstacle().is_none())
    }

    fn idempotence_obstacle(&self) -> Option<&'static str> {
        if self.acks != Acks::All {
            return Some("acks=all");
        }
        if self.retries == 0 {
            return Some("retries above 0");
        }
        (self.max_in_flight > IDEMPOTENT_IN_FLIGHT_MAX)
            .then_some("max.in.flight.requests.per.connection of at most 5")
    }

    /// Checks how the settings relate.
    ///
    /// # Errors
    /// `Invalid` with the setting to change.
    pub fn validate(&self) -> Result<()> {
        if self.enable_idempotence == Some(true)
            && let Some(needed) = self.idempotence_obstacle()
        {
            return Err(ClientError::invalid(format!(
                "enable.idempotence=true needs {needed}; change that or turn idempotence off"
            )));
        }
        if self.max_in_flight == 0 {
            return Err(ClientError::invalid(
                "max.in.flight.requests.per.connection=0 sends nothing; give at least 1",
            ));
        }
        if self.delivery_timeout_ms < self.linger_ms + self.client.request_timeout_ms {
            return Err(ClientError::invalid(
                "delivery.timeout.ms must be at least linger.ms + request.timeout.ms; raise it",
            ));
        }
        if self.buffer_memory < self.batch_size {
            return Err(ClientError::invalid(
                "buffer.memory holds no batch of batch.size; raise it or lower batch.size",
            ));
        }
        Ok(())
    }
}

/// Kafka's `auto.offset.reset`: where to go on when the position is not in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffsetReset {
    /// The first record still there.
    Earliest,
    /// The end: only records that come from now on.
    #[default]
    Latest,
    /// Fail the poll.
    None,
}

/// Kafka's `isolation.level`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IsolationLevel {
    /// Every record below the high watermark.
    #[default]
    ReadUncommitted,
    /// Only records of committed transactions, below the last stable offset.
    ReadCommitted,
}

impl IsolationLevel {
    /// The number on the wire.
    #[must_use]
    pub fn code(self) -> i8 {
        match self {
            Self::ReadUncommitted => 0,
            Self::ReadCommitted => 1,
        }
    }
}

/// Settings of a consumer.
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    /// How to reach the cluster.
    pub client: ClientConfig,
    /// `fetch.min.bytes`: a broker answers early once this much is there.
    pub fetch_min_bytes: i32,
    /// `fetch.max.wait.ms`: how long a broker waits for `fetch.min.bytes`.
    pub fetch_max_wait_ms: i32,
    /// `fetch.max.bytes`: most of one answer; a larger first batch still comes whole.
    pub fetch_max_bytes: i32,
    /// `max.partition.fetch.bytes`: most of one partition in an answer, with the same exception.
    pub max_partition_fetch_bytes: i32,
    /// `max.poll.records`: most records of one poll.
    pub max_poll_records: usize,
    /// `auto.offset.reset`.
    pub auto_offset_reset: OffsetReset,
    /// `isolation.level`.
    pub isolation_level: IsolationLevel,
    /// `check.crcs`: verify each batch before its records are returned.
    pub check_crcs: bool,
    /// `allow.auto.create.topics`: whether reading a topic may make it.
    pub allow_auto_create_topics: bool,
}

impl ConsumerConfig {
    /// Defaults for the cluster behind `bootstrap_servers`.
    #[must_use]
    pub fn new(bootstrap_servers: impl Into<String>) -> Self {
        Self {
            client: ClientConfig::new(bootstrap_servers),
            fetch_min_bytes: 1,
            fetch_max_wait_ms: 500,
            fetch_max_bytes: 50 << 20,
            max_partition_fetch_bytes: 1 << 20,
            max_poll_records: 500,
            auto_offset_reset: OffsetReset::Latest,
            isolation_level: IsolationLevel::ReadUncommitted,
            check_crcs: true,
            allow_auto_create_topics: true,
        }
    }

    /// Sets one setting by Kafka's name.
    ///
    /// # Errors
    /// `Invalid` when the name is unknown or the value is not of its type.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "fetch.min.bytes" => self.fetch_min_bytes = number(name, value)?,
            "fetch.max.wait.ms" => self.fetch_max_wait_ms = number(name, value)?,
            "fetch.max.bytes" => self.fetch_max_bytes = number(name, value)?,
            "max.partition.fetch.bytes" => self.max_partition_fetch_bytes = number(name, value)?,
            "max.poll.records" => self.max_poll_records = number(name, value)?,
            "auto.offset.reset" => self.auto_offset_reset = reset(value)?,
            "isolation.level" => self.isolation_level = isolation(value)?,
            "check.crcs" => self.check_crcs = boolean(name, value)?,
            "allow.auto.create.topics" => {
                self.allow_auto_create_topics = boolean(name, value)?;
            }
            _ => return known(self.client.set(name, value)?, name),
        }
        Ok(())
    }
}

fn known(found: bool, name: &str) -> Result<()> {
    if found {
        return Ok(());
    }
    Err(ClientError::invalid(format!("{name} is not a setting of this client; check its spelling")))
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| ClientError::invalid(format!("{name}={value}: give a whole number")))
}

fn boolean(name: &str, value: &str) -> Result<bool> {
    value.parse().map_err(|_| ClientError::invalid(format!("{name}={value}: give true or false")))
}

fn codec(value: &str) -> Result<Codec> {
    Codec::from_name(value).ok_or_else(|| {
        let message = format!("compression.type={value}: give none, gzip, snappy, lz4 or zstd");
        ClientError::invalid(message)
    })
}

fn strategy(value: &str) -> Result<Strategy> {
    // Kafka takes a Java class; its last part is enough here.
    match value.rsplit('.').next().unwrap_or(value) {
        "RoundRobinPartitioner" => Ok(Strategy::RoundRobin),
        "DefaultPartitioner" | "UniformStickyPartitioner" => Ok(Strategy::Sticky),
        _ => Err(ClientError::invalid(format!(
            "partitioner.class={value}: give DefaultPartitioner or RoundRobinPartitioner"
        ))),
    }
}

fn reset(value: &str) -> Result<OffsetReset> {
    match value {
        "earliest" => Ok(OffsetReset::Earliest),
        "latest" => Ok(OffsetReset::Latest),
        "none" => Ok(OffsetReset::None),
        _ => Err(ClientError::invalid(format!(
            "auto.offset.reset={value}: give earliest, latest or none"
        ))),
    }
}

fn isolation(value: &str) -> Result<IsolationLevel> {
    match value {
        "read_uncommitted" => Ok(IsolationLevel::ReadUncommitted),
        "read_committed" => Ok(IsolationLevel::ReadCommitted),
        _ => Err(ClientError::invalid(format!(
            "isolation.level={value}: give read_uncommitted or read_committed"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_kafkas_names_and_refuses_others() {
        let mut config = ProducerConfig::new("a:1");
        config.set("linger.ms", "20").expect("a known setting");
        config.set("client.id", "me").expect("a setting of every client");
        assert_eq!((config.linger_ms, config.client.client_id.as_str()), (20, "me"));
        let error = config.set("lingerms", "20").expect_err("unknown");
        assert!(error.to_string().starts_with("lingerms is not a setting"), "{error}");
        assert!(config.set("linger.ms", "soon").is_err());
    }

    #[test]
    fn idempotence_is_on_unless_something_rules_it_out() {
        let mut config = ProducerConfig::new("a:1");
        assert!(config.idempotent());
        config.acks = Acks::Leader;
        assert!(!config.idempotent());
        config.validate().expect("only asked-for idempotence conflicts");
        config.enable_idempotence = Some(true);
        let error = config.validate().expect_err("acks=1 rules it out");
        assert!(error.to_string().contains("acks=all"), "{error}");
    }

    #[test]
    fn refuses_a_delivery_timeout_that_no_request_fits_in() {
        let mut config = ProducerConfig::new("a:1");
        config.delivery_timeout_ms = 1_000;
        assert!(config.validate().is_err());
    }
}
