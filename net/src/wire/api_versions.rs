//! ApiVersions, versions 0 to 4: what this broker serves, the first thing every client asks.
//!
//! A version above ours is answered with a version 0 body, UNSUPPORTED_VERSION and a list of key 18
//! alone (KIP-511); the client then asks again with a version from that list.

use std::borrow::Cow;

use super::{
    API_TABLE, Api, ApiKey, Cursor, Decode, DecodeError, Element, ErrorCode, Field, List, Message,
    Request, Sink,
};

const THROTTLE_SINCE: i16 = 1;
const FLEXIBLE_SINCE: i16 = 3;
/// Below, Java clients fail on a supported feature whose lowest level is 0 (KAFKA-17492).
const FEATURE_FROM_ZERO_SINCE: i16 = 4;

/// What a request comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query<'a> {
    /// Answer with [`ApiVersionsResponse::served`] in the request's version.
    Valid(ApiVersionsRequest<'a>),
    /// Answer with [`ApiVersionsResponse::refused`] and INVALID_REQUEST in the request's version:
    /// the client's name or version has characters it must not have.
    InvalidSoftware,
    /// Answer with [`ApiVersionsResponse::unsupported`] in version 0.
    UnsupportedVersion,
}

impl<'a> Query<'a> {
    /// Reads the body of a request of any version, also one that nobody knows yet.
    pub fn read(cursor: Cursor<'a>, version: i16) -> Result<Self, DecodeError> {
        if !ApiKey::ApiVersions.serves(version) {
            return Ok(Self::UnsupportedVersion);
        }
        let request = ApiVersionsRequest::read(cursor, version)?;
        if version >= FLEXIBLE_SINCE && !request.has_valid_software() {
            return Ok(Self::InvalidSoftware);
        }
        Ok(Self::Valid(request))
    }
}

/// An ApiVersions request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiVersionsRequest<'a> {
    /// Name of the client library; empty before version 3.
    pub client_software_name: Cow<'a, str>,
    /// Version of the client library; empty before version 3.
    pub client_software_version: Cow<'a, str>,
}

impl<'a> Decode<'a> for ApiVersionsRequest<'a> {
    fn read(mut cursor: Cursor<'a>, version: i16) -> Result<Self, DecodeError> {
        let mut request = Self::default();
        if version >= FLEXIBLE_SINCE {
            request.client_software_name = cursor.string()?;
            request.client_software_version = cursor.string()?;
        }
        cursor.skip_tags()?;
        Ok(request)
    }
}

impl<'a> ApiVersionsRequest<'a> {
    /// Whether name and version consist of letters, digits, dots and dashes, and neither start nor
    /// end with punctuation (KIP-511).
    #[must_use]
    pub fn has_valid_software(&self) -> bool {
        is_valid_software(&self.client_software_name)
            && is_valid_software(&self.client_software_version)
    }
}

fn is_valid_software(text: &str) -> bool {
    let ends = [text.bytes().next(), text.bytes().next_back()];
    ends.iter().all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
}

impl Message for ApiVersionsRequest<'_> {
    const KEY: ApiKey = ApiKey::ApiVersions;

    fn write<S: Sink>(&self, out: &mut S, version: i16) {
        if version >= FLEXIBLE_SINCE {
            out.string(&self.client_software_name);
            out.string(&self.client_software_version);
        }
        out.tag_count(0);
    }
}

impl Request for ApiVersionsRequest<'_> {
    type Response<'r> = ApiVersionsResponse<'r>;
}

/// An ApiVersions response.
#[derive(Clone, Debug)]
pub struct ApiVersionsResponse<'a> {
    /// What is wrong with the request, or `None`.
    pub error_code: ErrorCode,
    /// The APIs served.
    pub api_keys: List<'a, ApiVersion>,
    /// How long the client was throttled, in milliseconds; version 1 on.
    pub throttle_time_ms: i32,
    /// Features the broker can serve; version 3 on, and those from level 0 only from 4 on.
    pub supported_features: List<'a, Feature<'a>>,
    /// Grows with every change of the finalized features, or -1 when unknown: clients ignore the
    /// features then; version 3 on.
    pub finalized_features_epoch: i64,
    /// Features in force, none at level 0; version 3 on.
    pub finalized_features: List<'a, FinalizedFeature<'a>>,
    /// Of the ZooKeeper migration, always false here; version 3 on.
    pub zk_migration_ready: bool,
}

impl<'a> ApiVersionsResponse<'a> {
    /// An answer that says no more than `error_code`.
    #[must_use]
    pub fn refused(error_code: ErrorCode) -> Self {
        Self {
            error_code,
            api_keys: List::default(),
            throttle_time_ms: 0,
            supported_features: List::default(),
            finalized_features_epoch: -1,
            finalized_features: List::default(),
            zk_migration_ready: false,
        }
    }

    /// All of [`API_TABLE`]; features are the caller's to add.
    #[must_use]
    pub fn served() -> Self {
        Self { api_keys: List::Values(&SERVED), ..Self::refused(ErrorCode::None) }
    }

    /// The answer to a version above ours, to be written in version 0.
    #[must_use]
    pub fn unsupported() -> Self {
        let api_keys = List::Values(const { &[ApiVersion::of(ApiKey::ApiVersions.api())] });
        Self { api_keys, ..Self::refused(ErrorCode::UnsupportedVersion) }
    }

    fn read_tag(
        &mut self,
        tag: u32,
        mut field: Cursor<'a>,
        version: i16,
    ) -> Result<(), DecodeError> {
        match tag {
            0 => self.supported_features = List::read(&mut field, version)?,
            1 => self.finalized_features_epoch = field.i64()?,
            2 => self.finalized_features = List::read(&mut field, version)?,
            3 => self.zk_migration_ready = field.bool()?,
            _ => return Ok(()),
        }
        field.finish()
    }

    fn write_tags<S: Sink>(&self, out: &mut S, version: i16) {
        if version < FLEXIBLE_SINCE {
            return;
        }
        let supported = SupportedFeatures { features: &self.supported_features };
        let count = [
            supported.count(version) > 0,
            self.finalized_features_epoch != -1,
            !self.finalized_features.is_empty(),
            self.zk_migration_ready,
        ];
        out.tag_count(count.into_iter().map(u32::from).sum());
        if supported.count(version) > 0 {
            out.tag(0, &supported, version);
        }
        if self.finalized_features_epoch != -1 {
            out.tag(1, &self.finalized_features_epoch, version);
        }
        if !self.finalized_features.is_empty() {
            out.tag(2, &self.finalized_features, version);
        }
        if self.zk_migration_ready {
            out.tag(3, &true, version);
        }
    }
}

impl<'a> Decode<'a> for ApiVersionsResponse<'a> {
    /// Also reads the version 0 body that brokers answer a version with that they do not know.
    fn read(mut cursor: Cursor<'a>, mut version: i16) -> Result<Self, DecodeError> {
        let mut response = Self::refused(ErrorCode::from_i16(cursor.i16()?));
        if response.error_code == ErrorCode::UnsupportedVersion {
            version = 0;
            cursor.set_flexible(false);
        }
        response.api_keys = List::read(&mut cursor, version)?;
        if version >= THROTTLE_SINCE {
            response.throttle_time_ms = cursor.i32()?;
        }
        cursor.tags(|tag, field| response.read_tag(tag, field, version))?;
        cursor.finish()?;
        Ok(response)
    }
}

impl Message for ApiVersionsResponse<'_> {
    const KEY: ApiKey = ApiKey::ApiVersions;

    fn write<S: Sink>(&self, out: &mut S, version: i16) {
        out.i16(self.error_code.code());
        self.api_keys.write(out, version);
        if version >= THROTTLE_SINCE {
            out.i32(self.throttle_time_ms);
        }
        self.write_tags(out, version);
    }
}

/// [`API_TABLE`] as it goes out.
static SERVED: [ApiVersion; API_TABLE.len()] = {
    let mut served = [ApiVersion { api_key: 0, min_version: 0, max_version: 0 }; API_TABLE.len()];
    let mut row = 0;
    while row < API_TABLE.len() {
        served[row] = ApiVersion::of(API_TABLE[row]);
        row += 1;
    }
    served
};

/// Versions of one API; the key may be one that is unknown here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiVersion {
    /// The API's key.
    pub api_key: i16,
    /// Lowest version.
    pub min_version: i16,
    /// Highest version.
    pub max_version: i16,
}

impl ApiVersion {
    const fn of(api: Api) -> Self {
        Self { api_key: api.key.code(), min_version: api.min, max_version: api.max }
    }
}

impl<'a> Element<'a> for ApiVersion {
    const MIN_BYTES: usize = 6;

    fn read(cursor: &mut Cursor<'a>, _: i16) -> Result<Self, DecodeError> {
        let api =
            Self { api_key: cursor.i16()?, min_version: cursor.i16()?, max_version: cursor.i16()? };
        cursor.skip_tags()?;
        Ok(api)
    }
}

impl Field for ApiVersion {
    fn write<S: Sink>(&self, out: &mut S, _: i16) {
        out.i16(self.api_key);
        out.i16(self.min_version);
        out.i16(self.max_version);
        out.tag_count(0);
    }
}

/// A feature (KIP-584) with the levels a broker can serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature<'a> {
    /// Its name, such as `metadata.version`.
    pub name: Cow<'a, str>,
    /// Lowest level.
    pub min_version: i16,
    /// Highest level.
    pub max_version: i16,
}

impl<'a> Element<'a> for Feature<'a> {
    const MIN_BYTES: usize = 6;

    fn read(cursor: &mut Cursor<'a>, _: i16) -> Result<Self, DecodeError> {
        let feature =
            Self { name: cursor.string()?, min_version: cursor.i16()?, max_version: cursor.i16()? };
        cursor.skip_tags()?;
        Ok(feature)
    }
}

impl Field for Feature<'_> {
    fn write<S: Sink>(&self, out: &mut S, _: i16) {
        out.string(&self.name);
        out.i16(self.min_version);
        out.i16(self.max_version);
        out.tag_count(0);
    }
}

/// The supported features that may be shown in a version.
struct SupportedFeatures<'b, 'a> {
    features: &'b List<'a, Feature<'a>>,
}

impl<'a> SupportedFeatures<'_, 'a> {
    fn shown(&self, version: i16) -> impl Iterator<Item = Feature<'a>> + use<'a> {
        let from_zero = version >= FEATURE_FROM_ZERO_SINCE;
        self.features.iter().filter(move |feature| from_zero || feature.min_version > 0)
    }

    fn count(&self, version: i16) -> usize {
        self.shown(version).count()
    }
}

impl Field for SupportedFeatures<'_, '_> {
    fn write<S: Sink>(&self, out: &mut S, version: i16) {
        out.length(Some(self.count(version)));
        self.shown(version).for_each(|feature| feature.write(out, version));
    }
}

/// A feature in force in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalizedFeature<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Highest level in force; not 0.
    pub max_version_level: i16,
    /// Lowest level in force.
    pub min_version_level: i16,
}

impl<'a> Element<'a> for FinalizedFeature<'a> {
    const MIN_BYTES: usize = 6;

    fn read(cursor: &mut Cursor<'a>, _: i16) -> Result<Self, DecodeError> {
        let feature = Self {
            name: cursor.string()?,
            max_version_level: cursor.i16()?,
            min_version_level: cursor.i16()?,
        };
        cursor.skip_tags()?;
        Ok(feature)
    }
}

impl Field for FinalizedFeature<'_> {
    fn write<S: Sink>(&self, out: &mut S, _: i16) {
        out.string(&self.name);
        out.i16(self.max_version_level);
        out.i16(self.min_version_level);
        out.tag_count(0);
    }
}

#[cfg(test)]
mod tests;
