//! The conversation of Millrace: the wire codec, connections, handlers and the native client.
//!
//! Knows nothing of files, flushes or segments.

pub mod client;
pub mod wire;
