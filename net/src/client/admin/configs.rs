//! Reading and changing settings of topics and brokers.

use super::{Admin, missing, settled};
use crate::{
    client::{error::Result, links::Links},
    wire::typed::{
        StrBytes,
        describe_configs::{
            DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
            DescribeConfigsSynonym,
        },
        incremental_alter_configs::{
            AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
        },
    },
};

/// What a setting belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A topic, by name.
    Topic(String),
    /// A broker, by node id.
    Broker(i32),
}

impl Resource {
    fn kind(&self) -> i8 {
        match self {
            Self::Topic(_) => 2,
            Self::Broker(_) => 4,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Topic(name) => name.clone(),
            Self::Broker(node_id) => node_id.to_string(),
        }
    }
}

/// Where the value of a setting comes from, under Kafka's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// A broker that does not tell.
    Unknown,
    /// Set on this topic.
    DynamicTopicConfig,
    /// Set on this broker at run time.
    DynamicBrokerConfig,
    /// Set on all brokers at run time.
    DynamicDefaultBrokerConfig,
    /// In the broker's properties file.
    StaticBrokerConfig,
    /// Nobody set it.
    DefaultConfig,
    /// Another kind of resource's own.
    Other(i8),
}

impl ConfigSource {
    fn of(code: i8) -> Self {
        match code {
            0 => Self::Unknown,
            1 => Self::DynamicTopicConfig,
            2 => Self::DynamicBrokerConfig,
            3 => Self::DynamicDefaultBrokerConfig,
            4 => Self::StaticBrokerConfig,
            5 => Self::DefaultConfig,
            other => Self::Other(other),
        }
    }

    /// Kafka's name, as its tools print it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::DynamicTopicConfig => "DYNAMIC_TOPIC_CONFIG",
            Self::DynamicBrokerConfig => "DYNAMIC_BROKER_CONFIG",
            Self::DynamicDefaultBrokerConfig => "DYNAMIC_DEFAULT_BROKER_CONFIG",
            Self::StaticBrokerConfig => "STATIC_BROKER_CONFIG",
            Self::DefaultConfig => "DEFAULT_CONFIG",
            Self::Other(_) => "OTHER",
        }
    }
}

/// One level at which a setting may be set, nearest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// Name at that level.
    pub name: String,
    /// Value there.
    pub value: Option<String>,
    /// Which level.
    pub source: ConfigSource,
}

/// One setting as the broker describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value; `None` when it has none or is sensitive.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Whether it cannot be changed.
    pub read_only: bool,
    /// Whether its value is a secret.
    pub sensitive: bool,
    /// All levels, nearest first.
    pub synonyms: Vec<ConfigSynonym>,
    /// The broker's explanation, if asked for.
    pub documentation: Option<String>,
}

/// A change of one setting (KIP-339).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterOp {
    /// Sets it to a value.
    Set(String, String),
    /// Back to the default.
    Delete(String),
    /// Adds to a list.
    Append(String, String),
    /// Takes out of a list.
    Subtract(String, String),
}

impl Admin {
    /// The settings of `resource`, all or those named.
    ///
    /// # Errors
    /// The broker's refusal, as for an unknown topic.
    pub fn describe_configs(
        &mut self,
        resource: &Resource,
        names: Option<&[&str]>,
    ) -> Result<Vec<ConfigEntry>> {
        let mut entry = DescribeConfigsResource::default();
        entry.resource_type = resource.kind();
        entry.resource_name = StrBytes::from(resource.name());
        entry.configuration_keys =
            names.map(|names| names.iter().map(|name| StrBytes::from(*name)).collect());
        let mut request = DescribeConfigsRequest::default();
        request.include_synonyms = true;
        request.resources = vec![entry];
        let node = node_of(resource);
        self.call(|links, deadline| {
            let response = match node {
                Some(node_id) => links.call_node(node_id, &request, deadline)?,
                None => links.call_any(&request, deadline)?,
            };
            let result = response.results.into_iter().next();
            let result = result.ok_or_else(|| missing("the settings"))?;
            let settled = settled(result.error_code, result.error_message.as_deref())?;
            Ok(settled.map(|()| result.configs.into_iter().map(config_entry).collect()))
        })?
    }

    /// Applies changes to the settings of `resource`, all or none.
    ///
    /// # Errors
    /// The broker's refusal: an unknown setting or a value out of range.
    pub fn alter_configs(&mut self, resource: &Resource, changes: &[AlterOp]) -> Result<()> {
        let mut entry = AlterConfigsResource::default();
        entry.resource_type = resource.kind();
        entry.resource_name = StrBytes::from(resource.name());
        entry.configs = changes.iter().map(alterable).collect();
        let mut request = IncrementalAlterConfigsRequest::default();
        request.resources = vec![entry];
        let node = node_of(resource);
        self.call(|links: &mut Links, deadline| {
            let response = match node {
                Some(node_id) => links.call_node(node_id, &request, deadline)?,
                None => links.call_any(&request, deadline)?,
            };
            let result = response.responses.first().ok_or_else(|| missing("the result"))?;
            settled(result.error_code, result.error_message.as_deref())
        })?
    }
}

/// A broker's own settings are asked of that broker; all else of any.
fn node_of(resource: &Resource) -> Option<i32> {
    match resource {
        Resource::Broker(node_id) => Some(*node_id),
        Resource::Topic(_) => None,
    }
}

fn alterable(change: &AlterOp) -> AlterableConfig {
    let (operation, name, value) = match change {
        AlterOp::Set(name, value) => (0, name, Some(value)),
        AlterOp::Delete(name) => (1, name, None),
        AlterOp::Append(name, value) => (2, name, Some(value)),
        AlterOp::Subtract(name, value) => (3, name, Some(value)),
    };
    let mut config = AlterableConfig::default();
    config.name = StrBytes::from(name.as_str());
    config.config_operation = operation;
    config.value = value.map(|value| StrBytes::from(value.as_str()));
    config
}

fn config_entry(answer: DescribeConfigsResourceResult) -> ConfigEntry {
    ConfigEntry {
        name: answer.name.into_string(),
        value: answer.value.map(StrBytes::into_string),
        source: ConfigSource::of(answer.config_source),
        read_only: answer.read_only,
        sensitive: answer.is_sensitive,
        synonyms: answer.synonyms.into_iter().map(synonym).collect(),
        documentation: answer.documentation.map(StrBytes::into_string),
    }
}

fn synonym(answer: DescribeConfigsSynonym) -> ConfigSynonym {
    ConfigSynonym {
        name: answer.name.into_string(),
        value: answer.value.map(StrBytes::into_string),
        source: ConfigSource::of(answer.source),
    }
}
