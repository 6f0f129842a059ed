//! What can be wrong with bytes that came in, and with values that are to go out.

use std::fmt;

use super::ApiKey;

/// Why a frame or message cannot be read. The connection it came from is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The frame's length is negative, too small for a header, or above the cap, in bytes.
    FrameLength {
        /// The length that the frame claims.
        claimed: i32,
        /// The longest frame allowed on this connection.
        cap_bytes: usize,
    },
    /// The bytes end inside a field.
    Truncated,
    /// Bytes are left behind the end of the message.
    TrailingBytes(usize),
    /// A length or count is negative, or more than the bytes left could hold, or above Kafka's
    /// own limit.
    Length,
    /// A field that must be there is null.
    Null,
    /// A string is not UTF-8.
    Utf8,
    /// A variable-length integer has more than 32 bits.
    Varint,
    /// No such API key, or one that this broker does not offer.
    UnknownApi(i16),
    /// The API does not have this version here.
    UnsupportedVersion(ApiKey, i16),
    /// A message off the hot path breaks a rule of its schema.
    Schema,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FrameLength { claimed, cap_bytes } => {
                write!(out, "frame of {claimed} bytes; this connection takes up to {cap_bytes}")
            }
            Self::Truncated => out.write_str("message ends inside a field"),
            Self::TrailingBytes(count) => write!(out, "{count} bytes behind the message"),
            Self::Length => out.write_str("length or count that the message cannot hold"),
            Self::Null => out.write_str("null where a value must be"),
            Self::Utf8 => out.write_str("string is not UTF-8"),
            Self::Varint => out.write_str("variable-length integer of more than 32 bits"),
            Self::UnknownApi(key) => write!(out, "API key {key} is not offered"),
            Self::UnsupportedVersion(key, version) => {
                write!(out, "{key:?} version {version} is not offered")
            }
            Self::Schema => out.write_str("message breaks its schema"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Why a message cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The pool's budget is spent; the same call can succeed once buffers come back.
    NoBuffer,
    /// A string, array or frame is longer than the protocol can say.
    TooLong,
    /// The topics claim another number of partitions than the value holds.
    PartitionCount,
    /// A field is set that this version of the message cannot carry.
    NotInVersion,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::NoBuffer => "the buffer budget is spent; retry when buffers come back",
            Self::TooLong => "a string, array or frame is longer than the protocol can say",
            Self::PartitionCount => "topics claim another number of partitions than there are",
            Self::NotInVersion => "a field is set that this version cannot carry",
        })
    }
}

impl std::error::Error for EncodeError {}
