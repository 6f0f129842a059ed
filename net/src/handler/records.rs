//! DeleteRecords (key 21): raising the start of a log, on disk before the answer.

use millrace_engine::{
    shard::calls::Call,
    types::{PartitionIndex, TopicPartition},
};

use super::{Broker, Peer, errors::code_of_failure, filled};
use crate::wire::{
    ErrorCode,
    typed::delete_records::{
        DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsRequest,
        DeleteRecordsResponse, DeleteRecordsTopicResult,
    },
};

pub(super) async fn delete_records(
    broker: &Broker,
    _peer: &Peer,
    _version: i16,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            partitions.push(delete(broker, &topic.name, partition).await);
        }
        topics.push(filled!(DeleteRecordsTopicResult {
            name: topic.name.clone(),
            partitions: partitions,
        }));
    }
    filled!(DeleteRecordsResponse { topics: topics })
}

async fn delete(
    broker: &Broker,
    topic: &str,
    wanted: &DeleteRecordsPartition,
) -> DeleteRecordsPartitionResult {
    let index = PartitionIndex(wanted.partition_index);
    let image = broker.image();
    let known = image.topic(topic).filter(|known| known.partition(index).is_some());
    let outcome = match known {
        None => Err(ErrorCode::UnknownTopicOrPartition),
        // As in Kafka: a compacted log keeps each key's last record, whoever asks.
        Some(known) if !known.config.cleanup_policy.delete => Err(ErrorCode::PolicyViolation),
        Some(known) => {
            let key = TopicPartition { topic: known.id, partition: index };
            let answer = broker.shard.call(key, Call::DeleteRecords, wanted.offset).await;
            answer.map_err(code_of_failure)
        }
    };
    let (low_watermark, error) = match outcome {
        Ok(answer) => (answer.offset, ErrorCode::None),
        Err(error) => (-1, error),
    };
    filled!(DeleteRecordsPartitionResult {
        partition_index: wanted.partition_index,
        low_watermark: low_watermark,
        error_code: error.code(),
    })
}
