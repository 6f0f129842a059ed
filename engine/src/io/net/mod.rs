//! Sockets of a shard: listening, receiving into lent buffers, sending chains.
//!
//! Owns the descriptors and what was received and not yet read. Knows nothing of frames. Dropping
//! any future, stream or listener at any time leaks neither descriptor nor buffer and disturbs no
//! other connection.

mod listener;
mod stream;

pub(super) use self::listener::Acceptors;
pub use self::{
    listener::{Accepted, Listener, remedy},
    stream::Stream,
};

#[cfg(test)]
mod tests;
