//! Where the value of a setting comes from, and which of several wins.
//!
//! Layers, each over the one before: default, file, `MILLRACE_*` environment, `--set`, a flag of
//! its own. Within a layer the last one wins. Owns the rule between names and environment names;
//! reads neither files nor the environment itself.

use std::{collections::BTreeMap, fmt};

use super::{
    ConfigError,
    accepted_table::ACCEPTED_DEFINITIONS,
    broker_table::BROKER_DEFINITIONS,
    definition::{Definition, Rule, Value},
    nearest::nearest,
    properties,
};

/// What a start is given: all that can set a broker setting, as text.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Name and text of the file of `--config`.
    pub file: Option<(String, String)>,
    /// The process's environment; names that do not start with `MILLRACE_` are passed over.
    pub environment: Vec<(String, String)>,
    /// Values of `--set`, each `name=value`.
    pub set: Vec<String>,
    /// Flags that stand for a setting.
    pub flags: Vec<Flag>,
}

/// A flag of the command line that stands for a setting.
#[derive(Clone, Debug)]
pub struct Flag {
    /// The flag as typed, `--data-dir`.
    pub flag: String,
    /// The setting that it stands for, `log.dirs`.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nothing set it.
    Default,
    /// A line of a file.
    File(String, usize),
    /// A variable of the environment.
    Environment(String),
    /// `--set`.
    Set,
    /// A flag of its own.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => out.write_str("default"),
            Self::File(name, line) => write!(out, "{name}:{line}"),
            Self::Environment(name) => out.write_str(name),
            Self::Set => out.write_str("--set"),
            Self::Flag(flag) => out.write_str(flag),
        }
    }
}

/// A value that was set, checked.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub definition: &'static Definition,
    pub value: Value,
    pub origin: Origin,
}

/// Everything that was set: for each name the one that wins.
pub(super) type Settings = BTreeMap<&'static str, Given>;

/// Variables of `MILLRACE_*` form that are not settings: switches of the test suites.
const NOT_SETTINGS: [&str; 2] = ["MILLRACE_FUZZ_RUNS", "MILLRACE_TEST_"];

/// The definition of the broker setting `name`, or `None` for one that is not known.
#[must_use]
pub fn broker_definition(name: &str) -> Option<&'static Definition> {
    [BROKER_DEFINITIONS, ACCEPTED_DEFINITIONS].into_iter().find_map(|table| {
        let at = table.binary_search_by(|known| known.name.cmp(name)).ok()?;
        table.get(at)
    })
}

/// The environment variable of a setting: its name in upper case with dots as underscores, after
/// `MILLRACE_`, which our own settings already start with (`log.retention.ms` is
/// `MILLRACE_LOG_RETENTION_MS`, `millrace.shards` is `MILLRACE_SHARDS`).
#[must_use]
pub fn environment_name(name: &str) -> String {
    let upper = name.to_ascii_uppercase().replace('.', "_");
    if upper.starts_with("MILLRACE_") { upper } else { format!("MILLRACE_{upper}") }
}

/// Reads all layers. The first that is unknown or ill-typed is an error with its origin.
pub(super) fn read(sources: &Sources) -> Result<Settings, ConfigError> {
    let mut settings = Settings::new();
    let mut put = |name: &str, text: &str, origin: Origin| {
        let given = check(name, text, origin)?;
        settings.insert(given.definition.name, given);
        Ok(())
    };
    if let Some((file, text)) = &sources.file {
        let lines = properties::parse(text)
            .map_err(|(line, reason)| ConfigError::new("", format!("{file}:{line}: {reason}")))?;
        for property in lines {
            put(&property.name, &property.value, Origin::File(file.clone(), property.line))?;
        }
    }
    // Sorted, so that which of two errors is shown does not depend on the system.
    let mut environment: Vec<_> = sources.environment.iter().filter(is_setting).collect();
    environment.sort();
    for (variable, text) in environment {
        put(environment_setting(variable)?, text, Origin::Environment(variable.clone()))?;
    }
    for pair in &sources.set {
        let (name, text) = pair.split_once('=').ok_or_else(|| {
            ConfigError::new(pair.as_str(), format!("--set {pair}: expected name=value"))
        })?;
        put(name.trim(), text, Origin::Set)?;
    }
    for Flag { flag, name, value } in &sources.flags {
        put(name, value, Origin::Flag(flag.clone()))?;
    }
    Ok(settings)
}

fn is_setting(variable: &&(String, String)) -> bool {
    let name = variable.0.as_str();
    name.starts_with("MILLRACE_") && !NOT_SETTINGS.iter().any(|other| name.starts_with(other))
}

fn all_names() -> impl Iterator<Item = &'static str> {
    BROKER_DEFINITIONS.iter().chain(ACCEPTED_DEFINITIONS).map(|definition| definition.name)
}

fn environment_setting(variable: &str) -> Result<&'static str, ConfigError> {
    if let Some(name) = all_names().find(|name| environment_name(name) == variable) {
        return Ok(name);
    }
    let variables: Vec<String> = all_names().map(environment_name).collect();
    let hint = nearest(variable, variables.iter().map(String::as_str))
        .map(|known| format!("; the nearest known one is {known}"))
        .unwrap_or_default();
    Err(ConfigError::new(variable, format!("{variable}: no setting has this variable{hint}")))
}

fn check(name: &str, text: &str, origin: Origin) -> Result<Given, ConfigError> {
    let Some(definition) = broker_definition(name) else {
        let hint = nearest(name, all_names())
            .map(|known| format!("; the nearest known one is {known}"))
            .unwrap_or_default();
        return Err(ConfigError::new(name, format!("{origin}: unknown setting {name}{hint}")));
    };
    let value = definition.rule.check(text).map_err(|reason| {
        let shown = if definition.rule == Rule::Password { "[hidden]" } else { text.trim() };
        ConfigError::new(name, format!("{origin}: {name}={shown}: {reason}"))
    })?;
    Ok(Given { definition, value, origin })
}
