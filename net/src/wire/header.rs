//! Request and response headers.
//!
//! Request header v1, or v2 (with tagged fields) where the API version is flexible; the client id
//! stays a classic string in both. Response header v0, or v1 with flexible versions, except for
//! ApiVersions, whose response header is always v0 so that a client can read the answer to a
//! version that the broker does not know.

use std::borrow::Cow;

use super::{ApiKey, Cursor, DecodeError, Sink};

/// The header of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// The API.
    pub key: ApiKey,
    /// The version of request and response.
    pub version: i16,
    /// Comes back in the response.
    pub correlation_id: i32,
    /// The client's `client.id`.
    pub client_id: Option<Cow<'a, str>>,
}

impl<'a> RequestHeader<'a> {
    /// Reads a header and leaves the cursor at the body, set to the encoding of its version.
    ///
    /// Refuses APIs and versions that are not served. ApiVersions passes with any version: see
    /// [`super::api_versions::Query`].
    pub fn read(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let raw_key = cursor.i16()?;
        let version = cursor.i16()?;
        let correlation_id = cursor.i32()?;
        let key = ApiKey::from_i16(raw_key).ok_or(DecodeError::UnknownApi(raw_key))?;
        if !key.serves(version) && key != ApiKey::ApiVersions {
            return Err(DecodeError::UnsupportedVersion(key, version));
        }
        cursor.set_flexible(false);
        let client_id = cursor.nullable_string()?;
        cursor.set_flexible(key.is_flexible(version));
        cursor.skip_tags()?;
        Ok(Self { key, version, correlation_id, client_id })
    }

    pub(super) fn write<S: Sink>(&self, out: &mut S) {
        out.set_flexible(false);
        out.i16(self.key.code());
        out.i16(self.version);
        out.i32(self.correlation_id);
        out.nullable_string(self.client_id.as_deref());
        out.set_flexible(self.key.is_flexible(self.version));
        out.tag_count(0);
    }
}

/// Reads the header of a response to `key` in `version`: returns the correlation id and leaves the
/// cursor at the body, set to the encoding of its version.
pub fn response_correlation_id(
    cursor: &mut Cursor<'_>,
    key: ApiKey,
    version: i16,
) -> Result<i32, DecodeError> {
    let correlation_id = cursor.i32()?;
    cursor.set_flexible(key.has_flexible_response_header(version));
    cursor.skip_tags()?;
    cursor.set_flexible(key.is_flexible(version));
    Ok(correlation_id)
}

#[cfg(test)]
mod tests;
