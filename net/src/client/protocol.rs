//! Request and response bytes: which version to speak, and encoding around the generated messages.
//!
//! Owns version negotiation and framing. Knows no socket. Bytes of a broker are not trusted: every
//! count is checked against what is there, and a bad answer is an error, never a panic.

use std::collections::HashMap;

use kafka_wire::{
    ApiVersionsRequest, ApiVersionsResponse, KafkaMessage, KafkaRequest, OutboundFrameLimits,
    RequestResponsePair, encode_request, response_header_version_for,
};
use kafka_wire_core::{ApiVersion, Bytes, BytesMut, DecodeLimits, Decoder, KafkaDecode, StrBytes};
use millrace_engine::limits::FRAME_CAP_BYTES;

use super::error::{ClientError, Kind, Result};

/// The version ranges that one broker offers, as its ApiVersions answer says.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    ranges: HashMap<i16, (i16, i16)>,
}

impl Versions {
    /// Takes the ranges out of an answer.
    #[must_use]
    pub fn of(response: &ApiVersionsResponse) -> Self {
        let ranges = response
            .api_keys
            .iter()
            .map(|range| (range.api_key, (range.min_version, range.max_version)))
            .collect();
        Self { ranges }
    }

    /// The highest version of `R` that both sides speak, at most `cap`.
    ///
    /// # Errors
    /// `Protocol` when there is none.
    pub fn pick<R: KafkaRequest>(&self, cap: i16) -> Result<ApiVersion> {
        let ours = R::SUPPORTED_VERSIONS;
        let range = self.ranges.get(&R::API_KEY.value()).copied();
        let Some((theirs_min, theirs_max)) = range else {
            return Err(ClientError::new(
                Kind::Protocol,
                format!("the broker does not offer {}; it needs another release", R::NAME),
            ));
        };
        let version = theirs_max.min(ours.max().value()).min(cap);
        if version < theirs_min || version < ours.min().value() {
            return Err(ClientError::new(
                Kind::Protocol,
                format!(
                    "the broker speaks {} {theirs_min} to {theirs_max}, this client {} to {}",
                    R::NAME,
                    ours.min().value(),
                    ours.max().value().min(cap),
                ),
            ));
        }
        Ok(ApiVersion::new(version))
    }
}

/// The greeting of a connection: version 3 names the client software (KIP-511).
#[must_use]
pub fn greeting() -> ApiVersionsRequest {
    let mut request = ApiVersionsRequest::default();
    request.client_software_name = StrBytes::from("millrace");
    request.client_software_version = StrBytes::from(env!("CARGO_PKG_VERSION"));
    request
}

/// Adds the frame of `request` to `buffer`: length, header, body.
///
/// # Errors
/// `Invalid` when the request cannot be said in this version or exceeds the frame cap.
pub fn encode<R: KafkaRequest>(
    buffer: &mut BytesMut,
    correlation_id: i32,
    client_id: &StrBytes,
    request: &R,
    version: ApiVersion,
) -> Result<()> {
    let limits = OutboundFrameLimits::new(FRAME_CAP_BYTES);
    encode_request(buffer, correlation_id, Some(client_id.clone()), request, version, limits)
        .map(|_| ())
        .map_err(|error| ClientError::invalid(format!("{}: {error}", R::NAME)))
}

/// The correlation id at the front of a response frame.
///
/// # Errors
/// `Protocol` when the frame is too short for one.
pub fn correlation_id(frame: &[u8]) -> Result<i32> {
    frame
        .first_chunk()
        .map(|bytes| i32::from_be_bytes(*bytes))
        .ok_or_else(|| ClientError::new(Kind::Protocol, "the broker sent an empty answer"))
}

/// The body of a response frame (without its length prefix) to a request `R` of `version`.
///
/// # Errors
/// `Protocol` when the bytes are not such a response.
pub fn decode<R: RequestResponsePair>(frame: Bytes, version: ApiVersion) -> Result<R::Response> {
    let header = response_header_version_for::<R>(version)
        .map_err(|error| ClientError::new(Kind::Protocol, error.to_string()))?;
    decode_body::<R::Response>(frame, header, version).map_err(|error| {
        let name = <R::Response as KafkaMessage>::NAME;
        ClientError::new(Kind::Protocol, format!("the broker's {name} makes no sense: {error}"))
    })
}

fn decode_body<M: KafkaMessage>(
    frame: Bytes,
    header_version: i16,
    version: ApiVersion,
) -> std::result::Result<M, kafka_wire_core::DecodeError> {
    let mut limits = DecodeLimits::default();
    limits.max_bytes_bytes = FRAME_CAP_BYTES;
    let mut decoder = Decoder::new(frame, limits)?;
    kafka_wire::ResponseHeader::decode(&mut decoder, ApiVersion::new(header_version))?;
    let message = M::decode(&mut decoder, version)?;
    decoder.finish()?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use kafka_wire::MetadataRequest;

    use super::*;

    fn offering(key: i16, min: i16, max: i16) -> Versions {
        Versions { ranges: HashMap::from([(key, (min, max))]) }
    }

    #[test]
    fn speaks_the_highest_common_version() {
        let versions = offering(3, 0, 200);
        let newest = MetadataRequest::SUPPORTED_VERSIONS.max();
        assert_eq!(versions.pick::<MetadataRequest>(i16::MAX).expect("common"), newest);
        assert_eq!(versions.pick::<MetadataRequest>(7).expect("capped").value(), 7);
        assert_eq!(offering(3, 0, 4).pick::<MetadataRequest>(12).expect("old").value(), 4);
    }

    #[test]
    fn says_what_both_sides_speak_when_they_cannot_talk() {
        let error = offering(3, 100, 200).pick::<MetadataRequest>(12).expect_err("no overlap");
        assert!(error.to_string().contains("100 to 200"), "{error}");
        let error = Versions::default().pick::<MetadataRequest>(12).expect_err("absent");
        assert!(error.to_string().contains("does not offer"), "{error}");
    }

    #[test]
    fn a_cut_or_lying_answer_is_an_error() {
        let lying = [0, 0, 0, 1, 0, 0, 0x7f, 0xff, 0xff, 0xff];
        for length in 0..lying.len() {
            let frame = Bytes::copy_from_slice(&lying[..length]);
            assert!(decode::<MetadataRequest>(frame, ApiVersion::new(1)).is_err());
        }
    }
}
