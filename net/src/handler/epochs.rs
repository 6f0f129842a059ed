//! OffsetForLeaderEpoch (key 23): where an epoch ended (KIP-101, KIP-320).

use millrace_engine::{
    shard::calls::Call,
    types::{PartitionIndex, TopicPartition},
};

use super::{
    Broker, Peer,
    errors::{code_of_failure, epoch_error},
    filled,
};
use crate::wire::{
    ErrorCode,
    typed::offset_for_leader_epoch::{
        EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
        OffsetForLeaderPartition, OffsetForLeaderTopicResult,
    },
};

pub(super) async fn offset_for_leader_epoch(
    broker: &Broker,
    _peer: &Peer,
    _version: i16,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            partitions.push(find(broker, &topic.topic, partition).await);
        }
        topics.push(filled!(OffsetForLeaderTopicResult {
            topic: topic.topic.clone(),
            partitions: partitions,
        }));
    }
    filled!(OffsetForLeaderEpochResponse { topics: topics })
}

async fn find(broker: &Broker, topic: &str, asked: &OffsetForLeaderPartition) -> EpochEndOffset {
    let index = PartitionIndex(asked.partition);
    let image = broker.image();
    let failed = |error: ErrorCode| {
        filled!(EpochEndOffset {
            partition: asked.partition,
            error_code: error.code(),
            leader_epoch: -1,
            end_offset: -1,
        })
    };
    let known = image.topic(topic);
    let Some((known, state)) = known.and_then(|known| Some((known, known.partition(index)?)))
    else {
        return failed(ErrorCode::UnknownTopicOrPartition);
    };
    if let Some(error) = epoch_error(asked.current_leader_epoch, state.leader_epoch) {
        return failed(error);
    }
    let key = TopicPartition { topic: known.id, partition: index };
    match broker.shard.call(key, Call::EpochEnd, i64::from(asked.leader_epoch)).await {
        Ok(found) => filled!(EpochEndOffset {
            partition: asked.partition,
            leader_epoch: found.leader_epoch,
            end_offset: found.offset,
        }),
        Err(failure) => failed(code_of_failure(failure)),
    }
}
