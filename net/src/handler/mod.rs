//! One row per API: which versions, what it may cost, who may call it, and the function that does
//! it. A row without a permission does not compile.
//!
//! Owns the translation of requests into shard and metadata calls, one file per API. No policy and
//! no state: both live below. A handler never panics on what a client sent.

mod cluster;
mod configs;
mod coordinator;
mod epochs;
pub mod errors;
mod fetch;
mod long_frames;
mod metadata;
mod offsets;
pub mod patience;
pub mod produce;
mod producer_id;
mod records;
mod replace_configs;
mod table;
mod topics;
mod versions;

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use millrace_engine::{
    config::BrokerConfig,
    io::{buf::Chain, runtime::RealEnv},
    meta::{Image, MetaHandle},
    shard::Shard,
};

pub use self::{
    long_frames::LongFrames,
    producer_id::ProducerIds,
    table::{HANDLERS, Kind, Permission, Row},
};
use crate::wire::{ApiKey, Cursor, Encoder, RequestHeader};

/// Fills the named fields of a message and leaves the rest at the protocol's defaults.
macro_rules! filled {
    ($kind:ident { $($field:ident: $value:expr),* $(,)? }) => {{
        #[allow(unused_mut, reason = "a message without a filled field is the default")]
        let mut message = $kind::default();
        $(message.$field = $value;)*
        message
    }};
}
pub(crate) use filled;

/// What clients are told of one listener.
#[derive(Clone, Debug)]
pub struct Advertised {
    /// Kafka's listener name, such as `PLAINTEXT`.
    pub listener: String,
    /// Host that clients are to connect to.
    pub host: String,
    /// Port that clients are to connect to.
    pub port: u16,
}

/// What every handler of a shard works with.
pub struct Broker {
    /// The shard of this thread.
    pub shard: Shard<RealEnv>,
    /// The one writer of metadata.
    pub meta: MetaHandle,
    /// Version of the newest image given to the shards.
    pub published: Arc<AtomicU64>,
    /// The broker's settings.
    pub config: Arc<BrokerConfig>,
    /// Settings that every request asks for, resolved once.
    pub settings: Settings,
    /// Builds every answer of this shard, out of a pool of its own: an answer must not wait for
    /// the memory that it would free.
    pub encoder: RefCell<Encoder>,
    /// Memory of the requests that wait for long work.
    pub long_frames: LongFrames,
    /// This shard's block of producer ids.
    pub producer_ids: ProducerIds,
    /// One entry per listener, by the index that an accepted connection carries.
    pub listeners: Rc<[Advertised]>,
}

/// Settings resolved from the broker's configuration at start.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// `socket.request.max.bytes`.
    pub frame_cap_bytes: usize,
    /// `connections.max.idle.ms`.
    pub idle_timeout: Duration,
    /// `fetch.max.bytes`.
    pub fetch_max_bytes: usize,
    /// `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// This shard's part of `max.connections`.
    pub connections_max: usize,
}

/// Who is asking, and through which listener.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The listener that the client came through.
    pub listener: Advertised,
    /// Whether the client has said who it is, as far as its listener asks. PLAINTEXT asks nobody,
    /// and there is no other listener yet.
    pub authenticated: bool,
}

impl Peer {
    /// The peer of a connection that came through the listener of that index.
    #[must_use]
    pub fn of(broker: &Broker, listener: usize) -> Self {
        Self { listener: broker.listeners[listener].clone(), authenticated: true }
    }
}

impl Broker {
    /// The metadata in force.
    #[must_use]
    pub fn image(&self) -> Arc<Image> {
        self.shard.image()
    }
}

/// The row of an API; `None` for one that is not served.
#[must_use]
pub fn row(key: ApiKey) -> Option<&'static Row> {
    HANDLERS.iter().find(|row| row.api_key == key)
}

/// How requests of an API are run in the order of their connection.
#[must_use]
pub fn kind(key: ApiKey) -> Kind {
    row(key).map_or(Kind::Plain, |row| row.kind)
}

/// Runs a request other than Produce from its whole frame; `None` closes the connection.
pub async fn run(broker: &Rc<Broker>, peer: &Peer, frame: &Chain) -> Option<Chain> {
    let mut body = Cursor::new(frame);
    let header = RequestHeader::read(&mut body).ok()?;
    let row = row(header.key)?;
    (row.run)(table::Call { broker, peer, header, body }).await
}
