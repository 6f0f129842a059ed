//! Settings as DescribeConfigs reports them: value, where it holds from, and what it would fall
//! back to (KIP-226, KIP-569).
//!
//! Owns the order of synonyms, which is Kafka's: the topic's override, the broker's settings, the
//! defaults. Knows no number of the protocol.

use super::{
    BROKER_DEFINITIONS, BrokerConfig, ConfigError, Overrides, TopicConfig,
    definition::{Definition, Rule, Synonym, ValueType},
    topic::{check, fallback},
    topic_table::TOPIC_DEFINITIONS,
};

/// Where a value holds from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntrySource {
    /// An override of the topic; 1 in the protocol.
    DynamicTopic,
    /// The broker's file, environment or command line; 4 in the protocol.
    StaticBroker,
    /// The default; 5 in the protocol.
    Default,
}

/// One setting, as DescribeConfigs reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// Its value in canonical text; `None` where it has none or is sensitive.
    pub value: Option<String>,
    /// Where the value holds from.
    pub source: EntrySource,
    /// Whether only a restart can change it.
    pub read_only: bool,
    /// Whether the value is hidden.
    pub sensitive: bool,
    /// What holds and what would hold without it, strongest first.
    pub synonyms: Vec<EntrySynonym>,
    /// Its type.
    pub value_type: ValueType,
    /// What it is for.
    pub doc: &'static str,
}

/// One value that a setting could take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntrySynonym {
    /// The setting that gives the value; for a topic it can be the broker's.
    pub name: &'static str,
    /// The value in the unit of that setting.
    pub value: Option<String>,
    /// Where it holds from.
    pub source: EntrySource,
}

impl TopicConfig {
    /// All topic settings, sorted by name, for a topic with `overrides` on `broker`. Fails as
    /// [`TopicConfig::resolve`] does on overrides that are not valid.
    pub fn describe(
        broker: &BrokerConfig,
        overrides: &Overrides,
    ) -> Result<Vec<Entry>, ConfigError> {
        TOPIC_DEFINITIONS.iter().map(|it| topic_entry(broker, overrides, it)).collect()
    }
}

impl BrokerConfig {
    /// All broker settings that are acted on or given, sorted by name. None can be changed
    /// without a restart so far.
    #[must_use]
    pub fn describe(&self) -> Vec<Entry> {
        let mut rows: Vec<&Definition> = BROKER_DEFINITIONS.iter().collect();
        rows.extend(self.settings().values().map(|given| given.definition));
        rows.sort_by_key(|definition| definition.name);
        rows.dedup_by_key(|definition| definition.name);
        rows.into_iter().map(|definition| self.entry(definition)).collect()
    }

    fn entry(&self, definition: &'static Definition) -> Entry {
        let sensitive = definition.rule == Rule::Password;
        let mut synonyms = broker_synonyms(self, group(definition.name));
        if synonyms.is_empty() {
            synonyms = broker_synonyms(self, &[Synonym { name: definition.name, factor: 1 }]);
        }
        let given = self.given_texts().get(definition.name).cloned();
        let source = match given {
            Some(_) => EntrySource::StaticBroker,
            None => EntrySource::Default,
        };
        let value = given.or_else(|| definition.default.map(str::to_owned));
        if sensitive {
            synonyms.iter_mut().for_each(|synonym| synonym.value = None);
        }
        Entry {
            name: definition.name,
            value: value.filter(|_| !sensitive),
            source,
            read_only: true,
            sensitive,
            synonyms,
            value_type: definition.rule.value_type(),
            doc: definition.doc,
        }
    }
}

/// The broker settings that stand for one another with `name` (hours, minutes, milliseconds).
fn group(name: &str) -> &'static [Synonym] {
    TOPIC_DEFINITIONS
        .iter()
        .map(|definition| definition.synonyms)
        .find(|synonyms| synonyms.iter().any(|synonym| synonym.name == name))
        .unwrap_or_default()
}

fn broker_synonyms(broker: &BrokerConfig, names: &[Synonym]) -> Vec<EntrySynonym> {
    let given = names.iter().filter_map(|&Synonym { name, .. }| {
        let value = Some(broker.given_texts().get(name)?.clone());
        Some(EntrySynonym { name, value, source: EntrySource::StaticBroker })
    });
    let defaults = names.iter().filter_map(|&Synonym { name, .. }| {
        let value = Some(super::broker_definition(name)?.default?.to_owned());
        Some(EntrySynonym { name, value, source: EntrySource::Default })
    });
    given.chain(defaults).collect()
}

fn topic_entry(
    broker: &BrokerConfig,
    overrides: &Overrides,
    definition: &'static Definition,
) -> Result<Entry, ConfigError> {
    let name = definition.name;
    let mut synonyms = broker_synonyms(broker, definition.synonyms);
    let value = match overrides.get(name) {
        Some(text) => {
            let value = check(definition, text)?.to_string();
            let source = EntrySource::DynamicTopic;
            synonyms.insert(0, EntrySynonym { name, value: Some(value.clone()), source });
            value
        }
        None => fallback(definition, broker.given_texts())?.to_string(),
    };
    let source = synonyms.first().map_or(EntrySource::Default, |strongest| strongest.source);
    Ok(Entry {
        name,
        value: Some(value),
        source,
        read_only: false,
        sensitive: false,
        synonyms,
        value_type: definition.rule.value_type(),
        doc: definition.doc,
    })
}
