//! FindCoordinator (key 10), answered with "not available": groups and transactions have no
//! coordinator in this version. It is offered because librdkafka takes a broker without it for one
//! that knows no LZ4 and would send such batches uncompressed (protocol.md 2.2).

use super::{Broker, Peer, filled};
use crate::wire::{
    ErrorCode,
    typed::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse},
};

const TEXT: &str = "Consumer groups and transactions are not served by this version.";

pub(super) async fn find_coordinator(
    _broker: &Broker,
    _peer: &Peer,
    version: i16,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let error = ErrorCode::CoordinatorNotAvailable.code();
    if version < 4 {
        return filled!(FindCoordinatorResponse {
            error_code: error,
            error_message: Some(TEXT.into()),
            node_id: -1,
            port: -1,
        });
    }
    let coordinators = request.coordinator_keys.into_iter().map(|key| {
        filled!(Coordinator {
            key: key,
            node_id: -1,
            port: -1,
            error_code: error,
            error_message: Some(TEXT.into()),
        })
    });
    filled!(FindCoordinatorResponse { coordinators: coordinators.collect() })
}
