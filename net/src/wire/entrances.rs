//! Every place where bytes from outside become values, in one list for the tests that attack them.
//!
//! An entrance decodes a whole frame (header and body, without the length) and encodes it again.

use millrace_engine::io::buf::Chain;

use super::{
    ApiKey, Cursor, DecodeError, EncodeError, Encoder, Message, Request, RequestHeader,
    api_versions::{ApiVersionsRequest, ApiVersionsResponse},
    fetch::{FetchRequest, FetchResponse},
    produce::{ProduceRequest, ProduceResponse},
    response_correlation_id,
};

/// What became of a frame.
#[derive(Debug)]
pub enum Outcome {
    /// It was refused.
    Refused(DecodeError),
    /// It was understood, but cannot be written again.
    Unwritable(EncodeError),
    /// It was understood; here it is again, with its length.
    Written(Chain),
}

impl From<DecodeError> for Outcome {
    fn from(error: DecodeError) -> Self {
        Self::Refused(error)
    }
}

impl From<EncodeError> for Outcome {
    fn from(error: EncodeError) -> Self {
        Self::Unwritable(error)
    }
}

/// Reads `frame` as a request of whatever API it names, and writes it again.
pub fn request(encoder: &mut Encoder, frame: &Chain) -> Outcome {
    try_request(encoder, frame).unwrap_or_else(|outcome| outcome)
}

fn try_request(encoder: &mut Encoder, frame: &Chain) -> Result<Outcome, Outcome> {
    let mut cursor = Cursor::new(frame);
    let header = RequestHeader::read(&mut cursor)?;
    let version = header.version;
    if !header.key.serves(version) {
        return Err(DecodeError::UnsupportedVersion(header.key, version).into());
    }
    match header.key {
        ApiKey::Produce => again(encoder, &header, &ProduceRequest::read(cursor, version)?),
        ApiKey::Fetch => again(encoder, &header, &FetchRequest::read(cursor, version)?),
        ApiKey::ApiVersions => again(encoder, &header, &ApiVersionsRequest::read(cursor, version)?),
        _ => Err(DecodeError::Schema.into()),
    }
}

fn again<R: Request>(
    encoder: &mut Encoder,
    header: &RequestHeader<'_>,
    body: &R,
) -> Result<Outcome, Outcome> {
    Ok(Outcome::Written(encoder.request(header, body)?))
}

/// Reads `frame` as a response to `key` in `version`, and writes it again.
pub fn response(encoder: &mut Encoder, key: ApiKey, version: i16, frame: &Chain) -> Outcome {
    try_response(encoder, key, version, frame).unwrap_or_else(|outcome| outcome)
}

fn try_response(
    encoder: &mut Encoder,
    key: ApiKey,
    version: i16,
    frame: &Chain,
) -> Result<Outcome, Outcome> {
    let mut cursor = Cursor::new(frame);
    let id = response_correlation_id(&mut cursor, key, version)?;
    match key {
        ApiKey::Produce => answer(encoder, id, version, &ProduceResponse::read(cursor, version)?),
        ApiKey::Fetch => answer(encoder, id, version, &FetchResponse::read(cursor, version)?),
        ApiKey::ApiVersions => {
            answer(encoder, id, version, &ApiVersionsResponse::read(cursor, version)?)
        }
        _ => Err(DecodeError::Schema.into()),
    }
}

fn answer<M: Message>(
    encoder: &mut Encoder,
    correlation_id: i32,
    version: i16,
    body: &M,
) -> Result<Outcome, Outcome> {
    Ok(Outcome::Written(encoder.response(version, correlation_id, body)?))
}
