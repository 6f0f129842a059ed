//! The conversation of Millrace: the wire codec, connections, handlers and the native client.
//!
//! Knows nothing of files, flushes or segments.

pub mod broker;
pub mod client;
pub mod conn;
pub mod handler;
pub mod limits;
pub mod wire;
