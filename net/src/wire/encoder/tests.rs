use millrace_engine::io::buf::{Slice, copied_bytes};

use super::*;
use crate::wire::{
    ErrorCode, Grouped, Topic,
    fetch::{FetchResponse, PartitionData},
    produce::{PartitionProduceResponse, ProduceResponse},
};

fn topic(partitions: usize) -> Topic<'static> {
    Topic { name: "t".into(), topic_id: TopicId([7; 16]), partitions }
}

#[test]
fn payload_is_linked_not_copied() {
    let payload = Slice::copy_of(&[5; 8192]);
    let mut partition = PartitionData::refused(0, ErrorCode::None);
    partition.records = payload.clone().into();
    let (topics, partitions) = ([topic(1)], [partition]);
    let response = FetchResponse {
        topics: Grouped::Values { topics: &topics, partitions: &partitions },
        ..FetchResponse::default()
    };
    let before = copied_bytes();
    let frame = Encoder::new(Pool::new(1 << 20)).response(12, 1, &response).expect("fits");
    assert!(copied_bytes() - before < 100, "headers only");
    assert!(frame.slices().iter().any(|slice| std::ptr::eq(&slice[0], &payload[0])));
}

#[test]
fn frames_share_a_buffer_and_outlive_each_other() {
    let pool = Pool::new(4096);
    let mut encoder = Encoder::new(pool.clone());
    let response = ProduceResponse::default();
    let frames: Vec<Chain> = (0..20)
        .map(|id| encoder.response(3, id, &response).expect("one buffer is enough"))
        .collect();
    for (frame, id) in frames.iter().zip(0_u32..) {
        let mut expected = vec![0, 0, 0, 12];
        expected.extend(id.to_be_bytes());
        expected.extend([0; 8]);
        assert_eq!(frame.to_vec(), expected);
    }
    assert_eq!(pool.in_use_bytes(), 4096);
}

#[test]
fn a_spent_budget_is_an_answer_and_passes() {
    let pool = Pool::new(4096);
    let held = pool.take(1).expect("the budget is one buffer");
    let mut encoder = Encoder::new(pool);
    let response = ProduceResponse::default();
    assert!(matches!(encoder.response(3, 1, &response), Err(EncodeError::NoBuffer)));
    drop(held);
    assert_eq!(encoder.response(3, 2, &response).expect("the buffer is back").len(), 16);
}

/// Clients that leave their answers lying spend the pool; all others were closed for it.
#[test]
fn an_answer_is_made_though_the_pool_is_spent() {
    let pool = Pool::new(4096);
    let held = pool.take(1).expect("the budget is one buffer");
    let mut encoder = Encoder::for_answers(pool.clone());
    let mut answer = || encoder.response(3, 1, &ProduceResponse::default());
    let frames: Vec<Chain> = (0..300).map(|_| answer().expect("it is owed")).collect();
    assert!(frames.iter().all(|frame| frame.len() == 16));
    drop(held);
    let more: Vec<Chain> = (0..300).map(|_| answer().expect("it is owed")).collect();
    assert_eq!(pool.in_use_bytes(), 4096, "the encoder is back in its pool");
    drop((frames, more));
}

#[test]
fn a_frame_longer_than_its_buffer_goes_on_in_the_next() {
    let partitions: Vec<_> =
        (0..1000).map(|index| PartitionProduceResponse::appended(index, 1, -1, 0)).collect();
    let topics = [topic(1000)];
    let response = ProduceResponse {
        topics: Grouped::Values { topics: &topics, partitions: &partitions },
        ..ProduceResponse::default()
    };
    let mut encoder = Encoder::new(Pool::new(1 << 20));
    let first = encoder.response(7, 1, &response).expect("fits").to_vec();
    let second = encoder.response(7, 1, &response).expect("fits").to_vec();
    assert_eq!(first, second);
}

#[test]
fn what_the_protocol_cannot_say_is_an_error() {
    let topics = [topic(2)];
    let partitions = [PartitionProduceResponse::refused(0, ErrorCode::None)];
    let response = ProduceResponse {
        topics: Grouped::Values { topics: &topics, partitions: &partitions },
        ..ProduceResponse::default()
    };
    let mut encoder = Encoder::new(Pool::new(1 << 20));
    let failure = encoder.response(7, 1, &response).expect_err("one partition is missing");
    assert_eq!(failure, EncodeError::PartitionCount);
    let long = [Topic { name: "x".repeat(40_000).into(), ..topic(1) }];
    let response = ProduceResponse {
        topics: Grouped::Values { topics: &long, partitions: &partitions },
        ..ProduceResponse::default()
    };
    let failure = encoder.response(7, 1, &response).expect_err("a name has 16 bits of length");
    assert_eq!(failure, EncodeError::TooLong);
}
