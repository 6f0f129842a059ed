//! DescribeConfigs (32) and IncrementalAlterConfigs (44).

use std::collections::{BTreeSet, HashSet};

use millrace_engine::{
    config::{Change, Entry, EntrySource, Operation, TopicConfig, ValueType},
    meta::Command,
};

use super::{Broker, Peer, errors::code_of_refusal, filled, topics::submit};
use crate::limits::DESCRIBED_BYTES_MAX;
use crate::wire::{
    ErrorCode,
    typed::{
        StrBytes,
        describe_configs::{
            DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
            DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
        },
        incremental_alter_configs::{
            AlterConfigsResource, AlterConfigsResourceResponse, AlterableConfig,
            IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
        },
    },
};

/// An error code and a line for the client.
pub(super) type Refused = (ErrorCode, String);

/// Kafka's config resource types.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;

pub(super) async fn describe_configs(
    broker: &Broker,
    _peer: &Peer,
    _version: i16,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let mut results = Vec::new();
    let mut seen = HashSet::new();
    let mut room_bytes = DESCRIBED_BYTES_MAX;
    for resource in &request.resources {
        // Kafka's clients ask for a resource once, and find one answer.
        if seen.insert((resource.resource_type, &*resource.resource_name)) {
            results.push(describe_resource(broker, &request, resource, &mut room_bytes));
        }
    }
    filled!(DescribeConfigsResponse { results: results })
}

/// The settings of one resource, which are taken from the `room_bytes` that the answer may take.
fn describe_resource(
    broker: &Broker,
    request: &DescribeConfigsRequest,
    resource: &DescribeConfigsResource,
    room_bytes: &mut usize,
) -> DescribeConfigsResult {
    let mut result = filled!(DescribeConfigsResult {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
    });
    let described = entries_of(broker, resource).and_then(|entries| {
        let wanted = entries.iter().filter(|entry| is_wanted(resource, entry));
        let configs: Vec<_> = wanted.map(|entry| describe(request, entry)).collect();
        let bytes = configs.iter().map(held_bytes).sum::<usize>();
        let too_much = "The answer would be too long; ask for fewer resources at a time.";
        let left = room_bytes.checked_sub(bytes);
        *room_bytes = left.ok_or((ErrorCode::InvalidRequest, too_much.to_owned()))?;
        Ok(configs)
    });
    match described {
        Ok(configs) => result.configs = configs,
        Err((error, text)) => {
            result.error_code = error.code();
            result.error_message = Some(text.into());
        }
    }
    result
}

/// Memory of one setting in an answer, in bytes, about.
fn held_bytes(config: &DescribeConfigsResourceResult) -> usize {
    let value_bytes = |value: &Option<StrBytes>| value.as_ref().map_or(0, |value| value.len());
    let synonyms = config.synonyms.iter().map(|synonym| {
        size_of::<DescribeConfigsSynonym>() + synonym.name.len() + value_bytes(&synonym.value)
    });
    size_of::<DescribeConfigsResourceResult>()
        + config.name.len()
        + value_bytes(&config.value)
        + value_bytes(&config.documentation)
        + synonyms.sum::<usize>()
}

/// A null list of names asks for all; so does an empty one of Kafka's older clients.
fn is_wanted(resource: &DescribeConfigsResource, entry: &Entry) -> bool {
    let names = resource.configuration_keys.as_deref().unwrap_or_default();
    names.is_empty() || names.iter().any(|name| &**name == entry.name)
}

fn entries_of(
    broker: &Broker,
    resource: &DescribeConfigsResource,
) -> Result<Vec<Entry>, (ErrorCode, String)> {
    let name = &*resource.resource_name;
    let image = broker.image();
    match resource.resource_type {
        TOPIC => match image.topic(name) {
            Some(topic) => TopicConfig::describe(&broker.config, &topic.overrides)
                .map_err(|error| (ErrorCode::InvalidConfig, error.to_string())),
            None => {
                let unknown = ErrorCode::UnknownTopicOrPartition;
                Err((unknown, format!("There is no topic {name}.")))
            }
        },
        // An empty name asks for the cluster-wide dynamic defaults, of which there are none.
        BROKER if name.is_empty() => Ok(Vec::new()),
        BROKER if name == image.node_id().0.to_string() => Ok(broker.config.describe()),
        BROKER => Err((ErrorCode::InvalidRequest, format!("This broker is not {name}."))),
        other => {
            Err((ErrorCode::InvalidRequest, format!("Resource type {other} has no settings.")))
        }
    }
}

fn describe(request: &DescribeConfigsRequest, entry: &Entry) -> DescribeConfigsResourceResult {
    let synonyms = entry.synonyms.iter().filter(|_| request.include_synonyms).map(|synonym| {
        filled!(DescribeConfigsSynonym {
            name: synonym.name.into(),
            value: synonym.value.as_deref().map(Into::into),
            source: source_code(synonym.source),
        })
    });
    filled!(DescribeConfigsResourceResult {
        name: entry.name.into(),
        value: entry.value.as_deref().map(Into::into),
        read_only: entry.read_only,
        config_source: source_code(entry.source),
        is_sensitive: entry.sensitive,
        synonyms: synonyms.collect(),
        config_type: type_code(entry.value_type),
        documentation: request.include_documentation.then(|| entry.doc.into()),
    })
}

pub(super) async fn incremental_alter_configs(
    broker: &Broker,
    _peer: &Peer,
    _version: i16,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let key = |it: &AlterConfigsResource| (it.resource_type, it.resource_name.clone());
    let alter = async |it: &_| alter(broker, it, request.validate_only).await;
    let altered = alter_each(&request.resources, key, alter).await;
    let responses = altered.map(|altered| {
        filled!(AlterConfigsResourceResponse {
            error_code: altered.error.code(),
            error_message: altered.message,
            resource_type: altered.resource_type,
            resource_name: altered.resource_name,
        })
    });
    filled!(IncrementalAlterConfigsResponse { responses: responses.collect() })
}

/// What has become of one resource, for the answer.
pub(super) struct Altered {
    pub(super) resource_type: i8,
    pub(super) resource_name: StrBytes,
    pub(super) error: ErrorCode,
    pub(super) message: Option<StrBytes>,
}

/// Calls `alter` for one of `resources` after the other, which `key` names by type and name, and
/// refuses those that are named more than once. Returns the outcomes in order.
pub(super) async fn alter_each<R>(
    resources: &[R],
    key: impl Fn(&R) -> (i8, StrBytes),
    alter: impl AsyncFn(&R) -> Result<(), Refused>,
) -> impl Iterator<Item = Altered> {
    let mut seen = BTreeSet::new();
    let keys: Vec<_> = resources.iter().map(key).collect();
    let named = keys.iter().map(|(kind, name)| (*kind, &**name));
    let twice: BTreeSet<_> = named.filter(|key| !seen.insert(*key)).collect();
    let mut outcomes = Vec::with_capacity(resources.len());
    for (resource, (kind, name)) in resources.iter().zip(&keys) {
        outcomes.push(if twice.contains(&(*kind, &**name)) {
            Err(invalid("Each resource must appear at most once."))
        } else {
            alter(resource).await
        });
    }
    keys.into_iter().zip(outcomes).map(|((resource_type, resource_name), outcome)| {
        let (error, message) = match outcome {
            Ok(()) => (ErrorCode::None, None),
            Err((error, text)) => (error, Some(text.into())),
        };
        Altered { resource_type, resource_name, error, message }
    })
}

/// The refusals of Kafka's `ConfigAdminManager`, in its order and words, and that of what is not
/// altered here.
pub(super) fn check_resource<'a>(
    resource_type: i8,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), Refused> {
    let mut seen = BTreeSet::new();
    if names.into_iter().any(|name| !seen.insert(name)) {
        return Err(invalid("Error due to duplicate config keys"));
    }
    if resource_type != TOPIC {
        let text = "Only topic settings can be altered in this version; set others at start.";
        return Err(invalid(text));
    }
    Ok(())
}

pub(super) fn invalid(text: &str) -> Refused {
    (ErrorCode::InvalidRequest, text.to_owned())
}

async fn alter(
    broker: &Broker,
    resource: &AlterConfigsResource,
    validate_only: bool,
) -> Result<(), Refused> {
    let names = resource.configs.iter().map(|config| &*config.name);
    check_resource(resource.resource_type, names)?;
    let changes = resource.configs.iter().map(change_of).collect::<Option<Vec<_>>>();
    let Some(changes) = changes else {
        let text = "An operation is none of set, delete, append and subtract, or lacks its value.";
        return Err(invalid(text));
    };
    let topic = resource.resource_name.to_string();
    submit_change(broker, Command::AlterConfig { topic, changes, validate_only }).await
}

/// Submits a change of settings, which has no outcome but that it was made.
pub(super) async fn submit_change(broker: &Broker, command: Command) -> Result<(), Refused> {
    let made = submit(broker, command).await;
    made.map(drop).map_err(|refusal| (code_of_refusal(&refusal), refusal.to_string()))
}

/// `None` for an operation that is none of KIP-339's, or one that lacks its value.
fn change_of(config: &AlterableConfig) -> Option<Change> {
    let value = || config.value.as_ref().map(ToString::to_string);
    let operation = match config.config_operation {
        0 => Operation::Set(value()?),
        1 => Operation::Delete,
        2 => Operation::Append(value()?),
        3 => Operation::Subtract(value()?),
        _ => return None,
    };
    Some(Change { name: config.name.to_string(), operation })
}

/// The numbers of Kafka's config sources.
pub(super) fn source_code(source: EntrySource) -> i8 {
    match source {
        EntrySource::DynamicTopic => 1,
        EntrySource::StaticBroker => 4,
        EntrySource::Default => 5,
    }
}

/// The numbers of Kafka's config types (KIP-569).
fn type_code(value_type: ValueType) -> i8 {
    match value_type {
        ValueType::Boolean => 1,
        ValueType::String => 2,
        ValueType::Int => 3,
        ValueType::Short => 4,
        ValueType::Long => 5,
        ValueType::Double => 6,
        ValueType::List => 7,
        ValueType::Class => 8,
        ValueType::Password => 9,
    }
}
