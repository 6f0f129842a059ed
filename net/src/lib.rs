//! The conversation of Millrace: wire codec, connections, handlers, and the native client.

pub mod client;
