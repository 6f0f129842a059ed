//! The place where TLS goes: what a connection does to bytes on their way in and out.

use millrace_engine::io::buf::{Chain, Slice};

/// Turns received bytes into plain ones and back, for one connection.
pub trait Transform {
    /// Gives the plain bytes in `received` to `plain`, in any number of pieces.
    fn received(&mut self, received: Slice, plain: impl FnMut(Slice));
    /// The bytes to send for a plain answer.
    fn sending(&mut self, plain: Chain) -> Chain;
}

/// Plain text: bytes as they are, without a copy.
pub struct Identity;

impl Transform for Identity {
    fn received(&mut self, received: Slice, mut plain: impl FnMut(Slice)) {
        plain(received);
    }

    fn sending(&mut self, plain: Chain) -> Chain {
        plain
    }
}
