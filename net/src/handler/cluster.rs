//! DescribeCluster (key 60).

use super::{Broker, Peer, filled};
use crate::wire::{
    ErrorCode,
    typed::describe_cluster::{
        DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
    },
};

/// KIP-919's endpoint type of brokers; the other, controllers, has no listener of its own here.
const BROKERS: i8 = 1;

pub(super) async fn describe_cluster(
    broker: &Broker,
    peer: &Peer,
    _version: i16,
    request: DescribeClusterRequest,
) -> DescribeClusterResponse {
    let image = broker.image();
    if request.endpoint_type != BROKERS {
        return filled!(DescribeClusterResponse {
            error_code: ErrorCode::MismatchedEndpointType.code(),
            error_message: Some("This is a broker listener; ask for endpoint type 1.".into()),
            endpoint_type: BROKERS,
        });
    }
    let this = filled!(DescribeClusterBroker {
        broker_id: image.node_id().0,
        host: peer.listener.host.as_str().into(),
        port: i32::from(peer.listener.port),
        rack: broker.config.broker_rack.as_deref().map(Into::into),
    });
    filled!(DescribeClusterResponse {
        endpoint_type: BROKERS,
        cluster_id: image.cluster_id().into(),
        controller_id: image.node_id().0,
        brokers: vec![this],
        cluster_authorized_operations: i32::MIN,
    })
}
