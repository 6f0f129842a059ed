//! Which version of a request to speak to a broker.
//!
//! Knows no socket. The bytes are [`crate::wire`]'s business.

use std::collections::HashMap;

use super::error::{ClientError, Kind, Result};
use crate::wire::{
    ApiKey,
    api_versions::{ApiVersionsRequest, ApiVersionsResponse},
};

/// The version ranges that one broker offers, as its ApiVersions answer says.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    ranges: HashMap<i16, (i16, i16)>,
}

impl Versions {
    /// Takes the ranges out of an answer.
    #[must_use]
    pub fn of(response: &ApiVersionsResponse<'_>) -> Self {
        let ranges = response
            .api_keys
            .iter()
            .map(|range| (range.api_key, (range.min_version, range.max_version)))
            .collect();
        Self { ranges }
    }

    /// The highest version of `key` that both sides speak, at most `cap`.
    ///
    /// # Errors
    /// `Protocol` when there is none.
    pub fn pick(&self, key: ApiKey, cap: i16) -> Result<i16> {
        let api = key.api();
        let Some((min, max)) = self.ranges.get(&key.code()).copied() else {
            return Err(ClientError::new(
                Kind::Protocol,
                format!("the broker does not offer {key:?}; it needs another release"),
            ));
        };
        let version = max.min(api.max).min(cap);
        if version < min || !key.serves(version) {
            return Err(ClientError::new(
                Kind::Protocol,
                format!(
                    "the broker speaks {key:?} {min} to {max}, this client {} to {}",
                    api.min,
                    api.max.min(cap),
                ),
            ));
        }
        Ok(version)
    }
}

/// The greeting of a connection: version 3 names the client software (KIP-511).
#[must_use]
pub fn greeting() -> ApiVersionsRequest<'static> {
    ApiVersionsRequest {
        client_software_name: "millrace".into(),
        client_software_version: env!("CARGO_PKG_VERSION").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offering(key: ApiKey, min: i16, max: i16) -> Versions {
        Versions { ranges: HashMap::from([(key.code(), (min, max))]) }
    }

    #[test]
    fn speaks_the_highest_common_version() {
        let versions = offering(ApiKey::Metadata, 0, 200);
        let newest = ApiKey::Metadata.api().max;
        assert_eq!(versions.pick(ApiKey::Metadata, i16::MAX).expect("common"), newest);
        assert_eq!(versions.pick(ApiKey::Metadata, 7).expect("capped"), 7);
        let old = offering(ApiKey::Metadata, 0, 4);
        assert_eq!(old.pick(ApiKey::Metadata, 12).expect("old"), 4);
    }

    #[test]
    fn says_what_both_sides_speak_when_they_cannot_talk() {
        let future = offering(ApiKey::Metadata, 100, 200);
        let error = future.pick(ApiKey::Metadata, 12).expect_err("no overlap");
        assert!(error.to_string().contains("100 to 200"), "{error}");
        let error = Versions::default().pick(ApiKey::Metadata, 12).expect_err("absent");
        assert!(error.to_string().contains("does not offer"), "{error}");
        // Produce below 3 is advertised by brokers and spoken by nobody.
        assert!(offering(ApiKey::Produce, 0, 2).pick(ApiKey::Produce, 12).is_err());
    }
}
