//! The Kafka wire protocol as values: frames, headers, and one module per API in both directions.
//!
//! Owns every byte rule of the protocol and Kafka's error codes. Sans-I/O: no socket, no clock, no
//! task. Knows neither what a request does nor who may send it. Produce, Fetch and ApiVersions are
//! written by hand and borrow from the received [`Chain`](millrace_engine::io::buf::Chain); the
//! rest comes through [`typed`].
//!
//! Invariant: no input panics, and none makes memory grow with a number it merely claims. A decoded
//! value was walked to its end before the caller sees it, so its iterators cannot fail. Any
//! [`DecodeError`] means that the connection is to be closed, as Kafka does.

pub mod api_versions;
mod cursor;
mod encoder;
mod endpoint;
pub mod entrances;
mod error;
mod error_code;
pub mod fetch;
pub mod frame;
mod grouped;
mod header;
mod list;
mod message;
pub mod produce;
pub mod typed;
mod versions;

pub use cursor::Cursor;
pub use encoder::{Encoder, Sink};
pub use endpoint::{LeaderIdAndEpoch, NodeEndpoint};
pub use error::{DecodeError, EncodeError};
pub use error_code::ErrorCode;
pub use grouped::{Grouped, Item, Items, Topic};
pub use header::{RequestHeader, response_correlation_id};
pub use list::{Element, Field, List};
pub use message::{Decode, Message, Request};
pub use versions::{API_TABLE, Api, ApiKey};

#[cfg(test)]
mod tests;
