//! What a message body is to the rest of the broker, whoever wrote its codec.

use millrace_engine::io::buf::Chain;

use super::{ApiKey, Cursor, DecodeError, Sink, response_correlation_id};

/// A message body that can be written, a request's or a response's.
pub trait Message {
    /// The API it belongs to.
    const KEY: ApiKey;
    /// Writes the body in `version`.
    fn write<S: Sink>(&self, out: &mut S, version: i16);
}

/// A message body that can be read. What it borrows lives as long as the received frame.
pub trait Decode<'a>: Message + Sized {
    /// Reads the body in `version` from behind its header, and checks it to its end. Bytes behind
    /// the body of a request are ignored, as Kafka ignores them; behind a response they are an
    /// error.
    fn read(cursor: Cursor<'a>, version: i16) -> Result<Self, DecodeError>;
}

/// A body that goes from client to broker.
pub trait Request: Message {
    /// What the broker answers with.
    type Response<'r>: Decode<'r>;

    /// Reads the answer to a request of this kind in `version` from a whole response frame without
    /// its length; returns it with its correlation id.
    fn read_response(
        frame: &Chain,
        version: i16,
    ) -> Result<(i32, Self::Response<'_>), DecodeError> {
        let mut cursor = Cursor::new(frame);
        let correlation_id = response_correlation_id(&mut cursor, Self::KEY, version)?;
        Ok((correlation_id, Decode::read(cursor, version)?))
    }
}
