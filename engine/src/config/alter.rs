//! Incremental changes to a topic's overrides (KIP-339).
//!
//! Owns what SET, DELETE, APPEND and SUBTRACT do to the stored texts. Whether the result is valid
//! is for [`super::TopicConfig::resolve`] to say. On a refusal nothing has changed.

use super::{
    BrokerConfig, ConfigError, Overrides,
    definition::{Value, ValueType, split_list},
    topic::{fallback, topic_definition},
};

/// One change to one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The setting.
    pub name: String,
    /// What to do with it.
    pub operation: Operation,
}

/// What to do with a setting; APPEND and SUBTRACT are for lists alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The override becomes this text.
    Set(String),
    /// The override goes; the broker's setting or the default holds again.
    Delete,
    /// The items of this comma separated text join the list, unless there already.
    Append(String),
    /// The items of this comma separated text leave the list.
    Subtract(String),
}

/// The overrides after `changes`. A setting named twice, an unknown one (unless deleted) or a list
/// operation on something else is an error.
pub fn apply(
    broker: &BrokerConfig,
    overrides: &Overrides,
    changes: &[Change],
) -> Result<Overrides, ConfigError> {
    let mut result = overrides.clone();
    for (at, change) in changes.iter().enumerate() {
        let Change { name, operation } = change;
        if changes.iter().take(at).any(|earlier| earlier.name == *name) {
            let message = format!("Error due to duplicate config keys: {name}");
            return Err(ConfigError::new(name.as_str(), message));
        }
        match operation {
            Operation::Set(text) => {
                topic_definition(name)?;
                result.insert(name.clone(), text.clone());
            }
            Operation::Delete => {
                result.remove(name);
            }
            Operation::Append(text) => {
                let mut items = list(broker, &result, name, "APPEND")?;
                for item in split_list(text) {
                    if !items.contains(&item) {
                        items.push(item);
                    }
                }
                result.insert(name.clone(), items.join(","));
            }
            Operation::Subtract(text) => {
                let gone = split_list(text);
                let mut items = list(broker, &result, name, "SUBTRACT")?;
                items.retain(|item| !gone.contains(item));
                result.insert(name.clone(), items.join(","));
            }
        }
    }
    Ok(result)
}

/// The items that the list `name` has now, by override, broker setting or default.
fn list(
    broker: &BrokerConfig,
    overrides: &Overrides,
    name: &str,
    operation: &str,
) -> Result<Vec<String>, ConfigError> {
    let definition = topic_definition(name)?;
    if definition.rule.value_type() != ValueType::List {
        let message = format!("Can't {operation} to key {name} because its type is not LIST.");
        return Err(ConfigError::new(name, message));
    }
    if let Some(text) = overrides.get(name) {
        return Ok(split_list(text));
    }
    match fallback(definition, broker.given_texts())? {
        Value::List(items) => Ok(items),
        other => unreachable!("{name} is a list, not {other:?}"),
    }
}
