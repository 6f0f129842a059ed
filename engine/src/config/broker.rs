//! The settings of this broker, typed, each with the place it came from.
//!
//! Owns the order of the layers and the checks that span several settings. Knows nothing of files:
//! the caller hands in texts.
//!
//! Invariant: a [`BrokerConfig`] that exists is valid. Failure is one line with the origin.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use super::{
    ConfigError, TopicConfig,
    definition::{Rule, Usage, Value},
    listener::{self, Listener},
    source::{self, Origin, Settings, Sources, broker_definition},
};
use crate::types::NodeId;

/// The settings of this broker that Millrace acts on. Field names are Kafka's, the unit last.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// `node.id`, else `broker.id`; `None` leaves it to the data directory, or 1 for a new one.
    pub node_id: Option<NodeId>,
    /// `broker.rack`.
    pub broker_rack: Option<String>,
    /// `listeners` with `advertised.listeners`; at least one.
    pub listeners: Vec<Listener>,
    /// `log.dirs`, else `log.dir`; at least one, none twice.
    pub log_dirs: Vec<PathBuf>,
    /// `num.partitions`.
    pub num_partitions: i32,
    /// `default.replication.factor`.
    pub default_replication_factor: i16,
    /// `auto.create.topics.enable`.
    pub auto_create_topics_enable: bool,
    /// `delete.topic.enable`.
    pub delete_topic_enable: bool,
    /// `log.retention.check.interval.ms`.
    pub log_retention_check_interval_ms: u64,
    /// `socket.request.max.bytes`.
    pub socket_request_max_bytes: usize,
    /// `socket.listen.backlog.size`.
    pub socket_listen_backlog_size: i32,
    /// `connections.max.idle.ms`: `None` is never.
    pub connections_max_idle_ms: Option<u64>,
    /// `max.connections`.
    pub max_connections: usize,
    /// `fetch.max.bytes`.
    pub fetch_max_bytes: usize,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: u64,
    /// `millrace.shards`: `None` takes every CPU of the process.
    pub shards: Option<usize>,
    /// `millrace.shards.share.cpus`.
    pub shards_share_cpus: bool,
    /// `millrace.buffer.bytes`, of each shard.
    pub buffer_bytes: usize,
    /// `millrace.spin.us`.
    pub spin_us: u64,
    /// The settings of a topic without overrides.
    pub topic_defaults: Arc<TopicConfig>,
    settings: Settings,
    texts: BTreeMap<&'static str, String>,
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self::load(&Sources::default()).expect("the tables' defaults are valid together")
    }
}

/// One row of `millrace config explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The setting.
    pub name: &'static str,
    /// Its value as text, `[hidden]` for a password; `None` where it has none.
    pub value: Option<String>,
    /// Where the value came from.
    pub origin: Origin,
    /// Whether Millrace acts on it.
    pub usage: Usage,
    /// What it is for.
    pub doc: &'static str,
}

impl BrokerConfig {
    /// Reads all layers of `sources` over the defaults. The error is one line with its origin.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let settings = source::read(sources)?;
        refuse_dangerous(&settings)?;
        let texts: BTreeMap<_, _> =
            settings.iter().map(|(name, given)| (*name, given.value.to_string())).collect();
        let topic_defaults = TopicConfig::defaults(&texts).map_err(|error| {
            let origin = settings.get(error.name()).map_or(Origin::Default, |it| it.origin.clone());
            ConfigError::new(error.name(), format!("{origin}: {error}"))
        })?;
        let reader = Reader(&settings);
        Ok(Self {
            node_id: node_id(&reader)?,
            broker_rack: reader.text("broker.rack").filter(|rack| !rack.is_empty()),
            listeners: listeners(&reader)?,
            log_dirs: log_dirs(&reader)?,
            num_partitions: reader.number("num.partitions"),
            default_replication_factor: reader.number("default.replication.factor"),
            auto_create_topics_enable: reader.boolean("auto.create.topics.enable"),
            delete_topic_enable: reader.boolean("delete.topic.enable"),
            log_retention_check_interval_ms: reader.number("log.retention.check.interval.ms"),
            socket_request_max_bytes: reader.number("socket.request.max.bytes"),
            socket_listen_backlog_size: reader.number("socket.listen.backlog.size"),
            connections_max_idle_ms: reader.integer("connections.max.idle.ms").try_into().ok(),
            max_connections: reader.number("max.connections"),
            fetch_max_bytes: reader.number("fetch.max.bytes"),
            producer_id_expiration_ms: reader.number("producer.id.expiration.ms"),
            shards: Some(reader.number("millrace.shards")).filter(|shards| *shards > 0),
            shards_share_cpus: reader.boolean("millrace.shards.share.cpus"),
            buffer_bytes: reader.number("millrace.buffer.bytes"),
            spin_us: reader.number("millrace.spin.us"),
            topic_defaults: Arc::new(topic_defaults),
            texts,
            settings,
        })
    }

    /// The settings that were given, as canonical text by name.
    pub(super) fn given_texts(&self) -> &BTreeMap<&'static str, String> {
        &self.texts
    }

    /// The settings that were given, with their origins.
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// One line for each setting that was given and is not acted on; start prints them once.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let ignored = self.settings.values().filter(|it| it.definition.usage == Usage::Accepted);
        ignored
            .map(|it| format!("{}: {} has no effect in Millrace", it.origin, it.definition.name))
            .collect()
    }

    /// Every setting that is acted on or was given, sorted by name, with its value and origin.
    #[must_use]
    pub fn explain(&self) -> Vec<Explained> {
        let mut rows: BTreeMap<&str, Explained> = BTreeMap::new();
        let given = self.settings.values().map(|it| it.definition);
        for definition in super::BROKER_DEFINITIONS.iter().chain(given) {
            let given = self.settings.get(definition.name);
            let text = given.map(|it| it.value.to_string());
            let text = text.or_else(|| definition.default.map(str::to_owned));
            let row = Explained {
                name: definition.name,
                value: match definition.rule {
                    Rule::Password => text.map(|_| "[hidden]".to_owned()),
                    _ => text,
                },
                origin: given.map_or(Origin::Default, |it| it.origin.clone()),
                usage: definition.usage,
                doc: definition.doc,
            };
            rows.insert(definition.name, row);
        }
        rows.into_values().collect()
    }
}

/// Values by name, given or default.
struct Reader<'a>(&'a Settings);

impl Reader<'_> {
    fn value(&self, name: &str) -> Option<Value> {
        if let Some(given) = self.0.get(name) {
            return Some(given.value.clone());
        }
        let definition = broker_definition(name).expect("a setting that is read is in the table");
        let default = definition.default?;
        Some(definition.rule.check(default).expect("the table's defaults obey its rules"))
    }

    fn integer(&self, name: &str) -> i64 {
        match self.value(name) {
            Some(Value::Integer(value)) => value,
            other => unreachable!("{name} is an integer, not {other:?}"),
        }
    }

    fn number<T: TryFrom<i64>>(&self, name: &str) -> T {
        let value = T::try_from(self.integer(name)).ok();
        value.unwrap_or_else(|| unreachable!("the table bounds {name} to its field"))
    }

    fn boolean(&self, name: &str) -> bool {
        self.value(name) == Some(Value::Boolean(true))
    }

    fn text(&self, name: &str) -> Option<String> {
        self.value(name).map(|value| value.to_string())
    }

    fn list(&self, name: &str) -> Vec<String> {
        match self.value(name) {
            Some(Value::List(values)) => values,
            _ => Vec::new(),
        }
    }

    fn is_given(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The error with the origin of the setting that it is about.
    fn placed(&self, error: ConfigError) -> ConfigError {
        match self.0.get(error.name()) {
            Some(given) => ConfigError::new(error.name(), format!("{}: {error}", given.origin)),
            None => error,
        }
    }
}

fn refuse_dangerous(settings: &Settings) -> Result<(), ConfigError> {
    for given in settings.values() {
        let Usage::Refused(reason) = given.definition.usage else { continue };
        if given.value != Value::Text(String::new()) {
            let name = given.definition.name;
            let message = format!("{}: {name}: {reason}; take it out to start", given.origin);
            return Err(ConfigError::new(name, message));
        }
    }
    Ok(())
}

fn node_id(reader: &Reader<'_>) -> Result<Option<NodeId>, ConfigError> {
    let new = reader.is_given("node.id").then(|| reader.number("node.id"));
    let old = Some(reader.number::<i32>("broker.id")).filter(|id| *id >= 0);
    match (new, old) {
        (Some(new), Some(old)) if new != old => {
            let message = format!("broker.id is {old} but node.id is {new}; set node.id alone");
            Err(reader.placed(ConfigError::new("broker.id", message)))
        }
        (new, old) => Ok(new.or(old).map(NodeId)),
    }
}

fn listeners(reader: &Reader<'_>) -> Result<Vec<Listener>, ConfigError> {
    listener::parse(&listener::Texts {
        listeners: &reader.list("listeners"),
        advertised: &reader.list("advertised.listeners"),
        protocols: &reader.text("listener.security.protocol.map").unwrap_or_default(),
        controllers: &reader.list("controller.listener.names"),
    })
    .map_err(|error| reader.placed(error))
}

fn log_dirs(reader: &Reader<'_>) -> Result<Vec<PathBuf>, ConfigError> {
    let name = if reader.is_given("log.dirs") { "log.dirs" } else { "log.dir" };
    let dirs: Vec<PathBuf> = reader.list(name).into_iter().map(PathBuf::from).collect();
    let wrong =
        |reason: String| Err(reader.placed(ConfigError::new(name, format!("{name}: {reason}"))));
    if dirs.is_empty() || dirs.iter().any(|dir| dir.as_os_str().is_empty()) {
        return wrong("name at least one directory, and none empty".to_owned());
    }
    for (at, dir) in dirs.iter().enumerate() {
        if dirs.iter().take(at).any(|earlier| earlier == dir) {
            return wrong(format!("{} is named twice", dir.display()));
        }
    }
    Ok(dirs)
}
