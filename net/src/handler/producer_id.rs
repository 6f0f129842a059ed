//! InitProducerId (key 22): ids for idempotent producers (KIP-98).
//!
//! As Kafka 4 does: without a transactional id every answer is a new producer id at epoch 0, also
//! for one that names the id it has. Such a producer counts its epochs up by itself (KIP-360).

use millrace_engine::meta::{Command, Outcome};

use super::{Broker, Peer, errors::code_of_refusal, filled, topics::submit};
use crate::wire::{
    ErrorCode,
    typed::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse},
};

/// What stands for no producer id, and no epoch.
const NONE: i64 = -1;
const NONE_EPOCH: i16 = -1;

pub(super) async fn init_producer_id(
    broker: &Broker,
    _peer: &Peer,
    _version: i16,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    if request.transactional_id.is_some() {
        // No coordinator will ever come in this version: a retriable error would loop for ever.
        return failed(ErrorCode::TransactionalIdAuthorizationFailed);
    }
    if (request.producer_id == NONE) != (request.producer_epoch == NONE_EPOCH) {
        return failed(ErrorCode::InvalidRequest);
    }
    match next_id(broker).await {
        Ok(id) => granted(id, 0),
        Err(error) => failed(error),
    }
}

/// An id from this shard's block, or from a new block once that is used up.
async fn next_id(broker: &Broker) -> Result<i64, ErrorCode> {
    loop {
        if let Some(id) = broker.producer_ids.take() {
            return Ok(id);
        }
        match submit(broker, Command::ReserveProducerIds).await {
            Ok(Outcome::ProducerIds { first, count }) => broker.producer_ids.refill(first.0, count),
            Ok(_) => return Err(ErrorCode::UnknownServerError),
            Err(refusal) => return Err(code_of_refusal(&refusal)),
        }
    }
}

/// A shard's block of producer ids; what is left of it at the end is never given out again.
#[derive(Default)]
pub struct ProducerIds {
    left: std::cell::RefCell<std::ops::Range<i64>>,
}

impl ProducerIds {
    fn take(&self) -> Option<i64> {
        self.left.borrow_mut().next()
    }

    /// Adds a reserved block. Two requests may each have fetched one: the older is dropped, which
    /// wastes ids and repeats none.
    fn refill(&self, first: i64, count: i32) {
        *self.left.borrow_mut() = first..first.saturating_add(i64::from(count));
    }
}

fn granted(producer_id: i64, producer_epoch: i16) -> InitProducerIdResponse {
    filled!(InitProducerIdResponse { producer_id: producer_id, producer_epoch: producer_epoch })
}

fn failed(error: ErrorCode) -> InitProducerIdResponse {
    filled!(InitProducerIdResponse {
        error_code: error.code(),
        producer_id: NONE,
        producer_epoch: NONE_EPOCH,
    })
}
