//! ListOffsets (key 2): positions by name and by time.

use std::collections::BTreeMap;

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
    typed::list_offsets::{
        ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest,
        ListOffsetsResponse, ListOffsetsTopicResponse,
    },
};

/// Older versions have no field for the leader epoch (KIP-320).
const LEADER_EPOCH_SINCE: i16 = 4;

/// What a timestamp asks for: the special ones are negative (KIP-79, 734, 405, 1005, 1023).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Ask(Call),
    /// Nothing is ever tiered here: the answer is the protocol's "none".
    Nothing,
    /// Too new for the request's version, or no known number.
    Unsupported,
}

fn wanted(version: i16, timestamp: i64, read_committed: bool) -> Wanted {
    let since = |first: i16, wanted| if version >= first { wanted } else { Wanted::Unsupported };
    match timestamp {
        -1 if read_committed => Wanted::Ask(Call::LatestStable),
        -1 => Wanted::Ask(Call::Latest),
        -2 => Wanted::Ask(Call::Earliest),
        -3 => since(7, Wanted::Ask(Call::MaxTimestamp)),
        // Without tiers, the earliest local offset is the earliest.
        -4 => since(8, Wanted::Ask(Call::Earliest)),
        -5 => since(9, Wanted::Nothing),
        -6 => since(11, Wanted::Nothing),
        time if time >= 0 => Wanted::Ask(Call::AtTimestamp),
        _ => Wanted::Unsupported,
    }
}

pub(super) async fn list_offsets(
    broker: &Broker,
    _peer: &Peer,
    version: i16,
    request: ListOffsetsRequest,
) -> ListOffsetsResponse {
    let mut asked = BTreeMap::<(String, i32), usize>::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            *asked.entry((topic.name.to_string(), partition.partition_index)).or_default() += 1;
        }
    }
    let read_committed = request.isolation_level == 1;
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let key = (topic.name.to_string(), partition.partition_index);
            partitions.push(if asked.get(&key).is_some_and(|count| *count > 1) {
                answer(partition, ErrorCode::InvalidRequest)
            } else {
                let wanted = wanted(version, partition.timestamp, read_committed);
                let mut found = find(broker, &topic.name, partition, wanted).await;
                if version < LEADER_EPOCH_SINCE {
                    found.leader_epoch = -1;
                }
                found
            });
        }
        topics.push(filled!(ListOffsetsTopicResponse {
            name: topic.name.clone(),
            partitions: partitions,
        }));
    }
    filled!(ListOffsetsResponse { topics: topics })
}

async fn find(
    broker: &Broker,
    topic: &str,
    partition: &ListOffsetsPartition,
    wanted: Wanted,
) -> ListOffsetsPartitionResponse {
    let image = broker.image();
    let index = PartitionIndex(partition.partition_index);
    let known = image.topic(topic).and_then(|topic| Some((topic.id, topic.partition(index)?)));
    let Some((id, state)) = known else {
        return answer(partition, ErrorCode::UnknownTopicOrPartition);
    };
    if let Some(error) = epoch_error(partition.current_leader_epoch, state.leader_epoch) {
        return answer(partition, error);
    }
    let call = match wanted {
        Wanted::Ask(call) => call,
        Wanted::Nothing => return answer(partition, ErrorCode::None),
        Wanted::Unsupported => return answer(partition, ErrorCode::UnsupportedVersion),
    };
    let key = TopicPartition { topic: id, partition: index };
    match broker.shard.call(key, call, partition.timestamp).await {
        Ok(found) => filled!(ListOffsetsPartitionResponse {
            partition_index: partition.partition_index,
            timestamp: found.timestamp_ms,
            offset: found.offset,
            leader_epoch: found.leader_epoch,
        }),
        Err(failure) => answer(partition, code_of_failure(failure)),
    }
}

fn answer(partition: &ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse {
    filled!(ListOffsetsPartitionResponse {
        partition_index: partition.partition_index,
        error_code: error.code(),
        timestamp: -1,
        offset: -1,
        leader_epoch: -1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_timestamps_are_known_from_their_version_on() {
        assert_eq!(wanted(1, -1, false), Wanted::Ask(Call::Latest));
        assert_eq!(wanted(2, -1, true), Wanted::Ask(Call::LatestStable));
        assert_eq!(wanted(6, -3, false), Wanted::Unsupported);
        assert_eq!(wanted(7, -3, false), Wanted::Ask(Call::MaxTimestamp));
        assert_eq!(wanted(8, -4, false), Wanted::Ask(Call::Earliest));
        assert_eq!(wanted(9, -5, false), Wanted::Nothing);
        assert_eq!(wanted(10, -6, false), Wanted::Unsupported);
        assert_eq!(wanted(11, -7, false), Wanted::Unsupported);
        assert_eq!(wanted(1, 0, false), Wanted::Ask(Call::AtTimestamp));
    }
}
