//! What travels between cores: a checked header and, beside it, a handle to what is not copied.

use std::sync::Arc;

use super::frame::Frame;
use crate::{
    io::{buf::Chain, net::Accepted},
    meta::Image,
};

/// A connection that some shard accepted and another may serve.
pub struct Arrival {
    /// The socket.
    pub accepted: Accepted,
    /// Index of the listener it came through.
    pub listener: usize,
}

#[expect(clippy::large_enum_variant, reason = "the hot one is the large one; no box")]
/// A message to a shard, from another shard or from the control thread.
pub enum Message {
    /// A header with its payload handle (empty for most).
    Data {
        /// Who sent it.
        from: crate::types::ShardId,
        /// The encoded header.
        frame: Frame,
        /// The payload, shared, never copied on the way.
        payload: Chain,
    },
    /// A new metadata image, from the control thread.
    Image(Arc<Image>),
    /// A connection to serve, from the shard that accepted it.
    Connection(Arrival),
    /// Drain, flush, close and end, from the control thread.
    Stop,
}
