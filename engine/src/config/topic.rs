//! The settings of one topic, typed.
//!
//! Owns how a topic's overrides, the broker's settings and the defaults are put together, and the
//! checks that span several settings. Knows nothing of how overrides are stored or changed.
//!
//! Invariant: a [`TopicConfig`] that exists is valid.

use std::collections::BTreeMap;

use super::{
    BrokerConfig, ConfigError,
    definition::{Definition, Rule, Value},
    nearest::nearest,
    topic_table::TOPIC_DEFINITIONS,
};

/// Overrides of a topic: setting name to text, as last given.
pub type Overrides = BTreeMap<String, String>;

/// What happens to old segments (`cleanup.policy`); both false keeps everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// Old segments are deleted by age and size.
    pub delete: bool,
    /// The last record of each key is kept.
    pub compact: bool,
}

/// Codec that a topic's batches are stored with (`compression.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionType {
    /// As sent.
    Producer,
    /// Plain.
    Uncompressed,
    /// gzip.
    Gzip,
    /// snappy.
    Snappy,
    /// lz4.
    Lz4,
    /// zstd.
    Zstd,
}

/// Whose clock stamps records (`message.timestamp.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer's.
    CreateTime,
    /// The broker's, at append.
    LogAppendTime,
}

/// The settings of a topic that Millrace acts on. Field names are Kafka's with the unit last.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicConfig {
    /// `cleanup.policy`.
    pub cleanup_policy: CleanupPolicy,
    /// `compression.type`.
    pub compression_type: CompressionType,
    /// `compression.gzip.level`: 1 to 9, or -1 for the library's default.
    pub compression_gzip_level: i32,
    /// `compression.zstd.level`.
    pub compression_zstd_level: i32,
    /// `file.delete.delay.ms`.
    pub file_delete_delay_ms: u64,
    /// `flush.messages`: 1 means that acknowledged is flushed.
    pub flush_messages: u64,
    /// `flush.ms`: `None` is never.
    pub flush_ms: Option<u64>,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u64,
    /// `max.decompressed.message.bytes`.
    pub max_decompressed_message_bytes: usize,
    /// `max.message.bytes`: the largest batch, its 12 leading bytes included.
    pub max_message_bytes: usize,
    /// `message.timestamp.after.max.ms`.
    pub message_timestamp_after_max_ms: i64,
    /// `message.timestamp.before.max.ms`.
    pub message_timestamp_before_max_ms: i64,
    /// `message.timestamp.type`.
    pub message_timestamp_type: TimestampType,
    /// `min.insync.replicas`.
    pub min_insync_replicas: usize,
    /// `retention.bytes`: `None` is no limit.
    pub retention_bytes: Option<u64>,
    /// `retention.ms`: `None` is for ever.
    pub retention_ms: Option<u64>,
    /// `segment.bytes`, at least 1 MiB.
    pub segment_bytes: u64,
    /// `segment.index.bytes`.
    pub segment_index_bytes: u64,
    /// `segment.ms`.
    pub segment_ms: u64,
    /// `unclean.leader.election.enable`.
    pub unclean_leader_election_enable: bool,
}

impl Default for TopicConfig {
    /// What a topic without overrides has on a broker without settings.
    fn default() -> Self {
        Self::from_values(&values(&BTreeMap::new(), &Overrides::new()).expect("defaults are valid"))
    }
}

impl TopicConfig {
    /// The settings of a topic with `overrides` on `broker`. An unknown name, an ill-typed value
    /// or a combination that Kafka refuses is an error that names the setting (protocol section
    /// 4.5: INVALID_CONFIG).
    pub fn resolve(broker: &BrokerConfig, overrides: &Overrides) -> Result<Self, ConfigError> {
        if overrides.is_empty() {
            return Ok((*broker.topic_defaults).clone());
        }
        let values = values(broker.given_texts(), overrides)?;
        check_together(&values)?;
        Ok(Self::from_values(&values))
    }

    /// The settings of a topic without overrides, from the texts of the broker's own settings.
    pub(super) fn defaults(given: &BTreeMap<&'static str, String>) -> Result<Self, ConfigError> {
        let values = values(given, &Overrides::new())?;
        check_together(&values)?;
        Ok(Self::from_values(&values))
    }

    fn from_values(values: &Values) -> Self {
        let policies = values.list("cleanup.policy");
        let has = |policy: &str| policies.iter().any(|word| word == policy);
        Self {
            cleanup_policy: CleanupPolicy { delete: has("delete"), compact: has("compact") },
            compression_type: compression_type(values.text("compression.type")),
            compression_gzip_level: values.int("compression.gzip.level"),
            compression_zstd_level: values.int("compression.zstd.level"),
            file_delete_delay_ms: values.natural("file.delete.delay.ms"),
            flush_messages: values.natural("flush.messages"),
            flush_ms: Some(values.natural("flush.ms")).filter(|ms| *ms < i64::MAX.unsigned_abs()),
            index_interval_bytes: values.natural("index.interval.bytes"),
            max_decompressed_message_bytes: values.size("max.decompressed.message.bytes"),
            max_message_bytes: values.size("max.message.bytes"),
            message_timestamp_after_max_ms: values.integer("message.timestamp.after.max.ms"),
            message_timestamp_before_max_ms: values.integer("message.timestamp.before.max.ms"),
            message_timestamp_type: match values.text("message.timestamp.type") {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            min_insync_replicas: values.size("min.insync.replicas"),
            retention_bytes: u64::try_from(values.integer("retention.bytes")).ok(),
            retention_ms: u64::try_from(values.integer("retention.ms")).ok(),
            segment_bytes: values.natural("segment.bytes"),
            segment_index_bytes: values.natural("segment.index.bytes"),
            segment_ms: values.natural("segment.ms"),
            unclean_leader_election_enable: values.boolean("unclean.leader.election.enable"),
        }
    }
}

fn compression_type(name: &str) -> CompressionType {
    match name {
        "uncompressed" => CompressionType::Uncompressed,
        "gzip" => CompressionType::Gzip,
        "snappy" => CompressionType::Snappy,
        "lz4" => CompressionType::Lz4,
        "zstd" => CompressionType::Zstd,
        _ => CompressionType::Producer,
    }
}

/// The checked value of every topic setting.
pub(super) struct Values(BTreeMap<&'static str, Value>);

impl Values {
    fn get(&self, name: &str) -> &Value {
        self.0.get(name).expect("every topic setting has a value")
    }

    fn integer(&self, name: &str) -> i64 {
        match self.get(name) {
            Value::Integer(value) => *value,
            other => unreachable!("{name} is an integer, not {other:?}"),
        }
    }

    fn int(&self, name: &str) -> i32 {
        i32::try_from(self.integer(name)).expect("the table bounds it to 32 bits")
    }

    fn natural(&self, name: &str) -> u64 {
        u64::try_from(self.integer(name)).expect("the table bounds it to at least 0")
    }

    fn size(&self, name: &str) -> usize {
        usize::try_from(self.integer(name)).expect("the table bounds it to 0 and 31 bits")
    }

    fn boolean(&self, name: &str) -> bool {
        matches!(self.get(name), Value::Boolean(true))
    }

    fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Value::Text(value) => value,
            other => unreachable!("{name} is a text, not {other:?}"),
        }
    }

    fn list(&self, name: &str) -> &[String] {
        match self.get(name) {
            Value::List(values) => values,
            other => unreachable!("{name} is a list, not {other:?}"),
        }
    }
}

/// The definition of the topic setting `name`, or an error that names the nearest known one.
pub fn topic_definition(name: &str) -> Result<&'static Definition, ConfigError> {
    if let Ok(at) = TOPIC_DEFINITIONS.binary_search_by(|known| known.name.cmp(name)) {
        return Ok(&TOPIC_DEFINITIONS[at]);
    }
    let hint = nearest(name, TOPIC_DEFINITIONS.iter().map(|known| known.name))
        .map(|known| format!(" (nearest known: {known})"))
        .unwrap_or_default();
    Err(ConfigError::new(name, format!("Unknown topic config name: {name}{hint}")))
}

/// Checks one topic setting given as text.
pub(super) fn check(definition: &Definition, text: &str) -> Result<Value, ConfigError> {
    definition.rule.check(text).map_err(|reason| {
        let name = definition.name;
        let shown = match definition.rule {
            Rule::Password => "[hidden]",
            _ => text,
        };
        let message = format!("Invalid value {shown} for configuration {name}: {reason}");
        ConfigError::new(name, message)
    })
}

/// Every topic setting's value from overrides, else the broker's settings, else the default.
pub(super) fn values(
    given: &BTreeMap<&'static str, String>,
    overrides: &Overrides,
) -> Result<Values, ConfigError> {
    for name in overrides.keys() {
        topic_definition(name)?;
    }
    let mut all = BTreeMap::new();
    for definition in TOPIC_DEFINITIONS {
        let value = match overrides.get(definition.name) {
            Some(text) => check(definition, text)?,
            None => fallback(definition, given)?,
        };
        all.insert(definition.name, value);
    }
    Ok(Values(all))
}

/// The value of a setting that the topic does not override.
pub(super) fn fallback(
    definition: &Definition,
    given: &BTreeMap<&'static str, String>,
) -> Result<Value, ConfigError> {
    for synonym in definition.synonyms {
        let Some(text) = given.get(synonym.name) else { continue };
        let value =
            text.trim().parse::<i64>().ok().map(|value| scaled(definition, value, synonym.factor));
        let text = value.map_or_else(|| text.clone(), |value| value.to_string());
        return definition.rule.check(&text).map_err(|reason| {
            let name = synonym.name;
            ConfigError::new(
                name,
                format!("Invalid value {text} for configuration {name}: {reason}"),
            )
        });
    }
    let default = definition.default.expect("every topic setting has a default");
    Ok(definition.rule.check(default).expect("the table's defaults obey its rules"))
}

/// A broker's number in the topic's unit. Any negative retention means for ever, in any unit.
fn scaled(definition: &Definition, value: i64, factor: i64) -> i64 {
    let scaled = value.saturating_mul(factor);
    if definition.name == "retention.ms" { scaled.max(-1) } else { scaled }
}

/// Rules over several settings, as Kafka's `LogConfig.validate` has them.
fn check_together(values: &Values) -> Result<(), ConfigError> {
    let least = values.integer("min.compaction.lag.ms");
    let most = values.integer("max.compaction.lag.ms");
    if least > most {
        let message = format!(
            "conflict topic config setting min.compaction.lag.ms ({least}) > \
             max.compaction.lag.ms ({most})"
        );
        return Err(ConfigError::new("min.compaction.lag.ms", message));
    }
    if values.boolean("remote.storage.enable") {
        let message = "Tiered Storage functionality is disabled in the broker. Topic cannot be \
                       configured with remote log storage.";
        return Err(ConfigError::new("remote.storage.enable", message));
    }
    Ok(())
}
