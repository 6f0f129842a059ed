//! The one failure of this module: a setting that cannot be used, in one line.

use std::fmt;

use crate::error::{Error, Kind};

/// Why a setting cannot be used: its name and one line that says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    name: String,
    message: String,
}

impl ConfigError {
    /// An error about the setting `name`; `message` is a whole line.
    pub fn new(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), message: message.into() }
    }

    /// Name of the setting at fault.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for ConfigError {}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Self::new(Kind::Invalid, error.message)
    }
}
