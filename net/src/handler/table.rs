//! The handler table.

use std::{future::Future, pin::Pin, rc::Rc};

use millrace_engine::io::buf::Chain;

use super::{
    Broker, Peer, cluster, configs, coordinator, epochs, fetch, metadata, offsets, producer_id,
    records, replace_configs, topics, versions,
};
use crate::limits;
use crate::wire::{ApiKey, Cursor, Decode, Message, RequestHeader, typed::REQUEST_BODY_CAP_BYTES};

/// How a request takes its turn in its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Appended as it arrives; may wait for the disk while later requests start.
    Produce,
    /// May wait for records while later requests start.
    Fetch,
    /// Answered before the next request starts.
    Plain,
}

impl Kind {
    /// The longest request of this kind, in bytes behind its length. A Produce is bounded only by
    /// what any frame of its connection is.
    #[must_use]
    pub fn frame_cap_bytes(self) -> usize {
        match self {
            Self::Produce => usize::MAX,
            Self::Fetch => limits::FETCH_REQUEST_CAP_BYTES,
            Self::Plain => limits::PLAIN_REQUEST_CAP_BYTES,
        }
    }
}

// Whatever of such a request could be read fits.
const _: () = assert!(
    limits::PLAIN_REQUEST_CAP_BYTES == REQUEST_BODY_CAP_BYTES + limits::REQUEST_HEADER_BYTES_MAX
);

/// The right a request needs. Nothing checks it while there is no authorizer: every client of a
/// PLAINTEXT listener has every right, as in Kafka without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Anyone may ask, before authentication as well.
    Anyone,
    /// Describe or alter the cluster.
    Cluster,
    /// Describe, create, delete or alter topics, each by its own resource.
    Topic,
    /// Read records.
    Read,
    /// Write records.
    Write,
}

/// One request on its way to its handler.
pub struct Call<'a> {
    pub(super) broker: &'a Rc<Broker>,
    pub(super) peer: &'a Peer,
    pub(super) header: RequestHeader<'a>,
    pub(super) body: Cursor<'a>,
}

/// The answer, or `None` to close the connection.
pub(super) type Answer<'a> = Pin<Box<dyn Future<Output = Option<Chain>> + 'a>>;

/// One API.
pub struct Row {
    /// Which API.
    pub api_key: ApiKey,
    /// How it takes its turn.
    pub kind: Kind,
    /// What it needs.
    pub permission: Permission,
    /// Memory that a request takes until it is answered, in units of its own length, about. It
    /// Memory that a request takes while it waits for its turn, its records or its answer, in units
    /// of its own length, about. It counts in what the connections of a shard may hold together. A
    /// Produce says itself what it keeps.
    pub memory_factor: usize,
    /// The function; unused for Produce, which starts in the reader.
    pub run: for<'a> fn(Call<'a>) -> Answer<'a>,
}

/// Decodes a request, runs its handler, encodes the answer.
async fn typed_call<'a, Q, R, F>(
    call: Call<'a>,
    handler: impl FnOnce(&'a Broker, &'a Peer, i16, Q) -> F,
) -> Option<Chain>
where
    Q: Decode<'a>,
    R: Message,
    F: Future<Output = R>,
{
    let (version, correlation_id) = (call.header.version, call.header.correlation_id);
    let request = Q::read(call.body, version).ok()?;
    let response = handler(call.broker, call.peer, version, request).await;
    call.broker.encoder.borrow_mut().response(version, correlation_id, &response).ok()
}

macro_rules! typed_row {
    ($key:ident, $permission:ident, $handler:path) => {
        Row {
            api_key: ApiKey::$key,
            kind: Kind::Plain,
            permission: Permission::$permission,
            memory_factor: 1,
            run: |call| Box::pin(typed_call(call, $handler)),
        }
    };
}

/// Every API that is served.
pub const HANDLERS: &[Row] = &[
    Row {
        api_key: ApiKey::Produce,
        kind: Kind::Produce,
        permission: Permission::Write,
        memory_factor: 0,
        run: |_| Box::pin(async { None }),
    },
    Row {
        api_key: ApiKey::Fetch,
        kind: Kind::Fetch,
        permission: Permission::Read,
        memory_factor: limits::FETCH_MEMORY_FACTOR,
        run: |call| Box::pin(fetch::fetch(call)),
    },
    Row {
        api_key: ApiKey::ApiVersions,
        kind: Kind::Plain,
        permission: Permission::Anyone,
        memory_factor: 1,
        run: |call| Box::pin(versions::api_versions(call)),
    },
    typed_row!(ListOffsets, Topic, offsets::list_offsets),
    typed_row!(Metadata, Topic, metadata::metadata),
    typed_row!(FindCoordinator, Anyone, coordinator::find_coordinator),
    typed_row!(CreateTopics, Topic, topics::create_topics),
    typed_row!(DeleteTopics, Topic, topics::delete_topics),
    typed_row!(DeleteRecords, Topic, records::delete_records),
    typed_row!(InitProducerId, Write, producer_id::init_producer_id),
    typed_row!(OffsetForLeaderEpoch, Topic, epochs::offset_for_leader_epoch),
    typed_row!(DescribeConfigs, Topic, configs::describe_configs),
    typed_row!(AlterConfigs, Topic, replace_configs::alter_configs),
    typed_row!(CreatePartitions, Topic, topics::create_partitions),
    typed_row!(IncrementalAlterConfigs, Topic, configs::incremental_alter_configs),
    typed_row!(DescribeCluster, Cluster, cluster::describe_cluster),
];
