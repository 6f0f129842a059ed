//! What administrative requests are answered: once for each thing asked for, and in time.

use std::time::{Duration, Instant};

use millrace_net::wire::{
    ErrorCode,
    typed::{
        create_partitions::{CreatePartitionsRequest, CreatePartitionsTopic},
        create_topics::{CreatableTopic, CreateTopicsRequest},
        describe_configs::{DescribeConfigsRequest, DescribeConfigsResource},
        metadata::{MetadataRequest, MetadataRequestTopic},
    },
};

use crate::rig::{Connection, Rig};

/// Kafka's type of topics among the resources with settings.
const TOPIC: i8 = 2;

/// Error codes and numbers of partitions of topics, each asked for by its name.
fn partitions(link: &Connection, names: &[&str]) -> Vec<(i16, usize)> {
    let topic = |name: &&str| {
        let mut topic = MetadataRequestTopic::default();
        topic.name = Some((*name).into());
        topic
    };
    let mut request = MetadataRequest::default();
    request.topics = Some(names.iter().map(topic).collect());
    request.allow_auto_topic_creation = false;
    link.call(9, &request, |response| {
        let topics = response.topics.iter();
        topics.map(|topic| (topic.error_code, topic.partitions.len())).collect()
    })
}

/// 65,536 times the name of a topic of 1,000 partitions were 13 GB of answer.
#[test]
fn a_topic_named_often_is_described_once() {
    let rig = Rig::start();
    let link = rig.connect();
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    let names = ["orders", "nowhere", "orders", "nowhere"].repeat(1000);
    assert_eq!(partitions(&link, &names), [(0, 4), (unknown, 0)]);

    let resource = |name: &&str| {
        let mut resource = DescribeConfigsResource::default();
        resource.resource_type = TOPIC;
        resource.resource_name = (*name).into();
        resource
    };
    let mut request = DescribeConfigsRequest::default();
    request.resources = names.iter().map(resource).collect();
    let described = link.call(4, &request, |response| {
        let results = response.results.iter();
        results.map(|result| (result.error_code, result.configs.is_empty())).collect::<Vec<_>>()
    });
    assert_eq!(described, [(0, false), (unknown, true)]);
}

/// `timeout.ms` was not looked at: a client that asked for two seconds was kept for as long as the
/// slowest disk took.
#[test]
fn who_waits_no_longer_is_told_so_and_the_work_goes_on() {
    const MANY: i32 = 200;
    let rig = Rig::start();
    let link = rig.connect();
    let timed_out = ErrorCode::RequestTimedOut.code();
    let mut topic = CreatableTopic::default();
    topic.name = "many".into();
    topic.num_partitions = MANY;
    topic.replication_factor = 1;
    let mut create = CreateTopicsRequest::default();
    create.topics = vec![topic];
    create.timeout_ms = 0;
    assert_eq!(link.call(7, &create, |answer| answer.topics[0].error_code), timed_out);
    await_partitions(&link, 200);

    let mut topic = CreatePartitionsTopic::default();
    topic.name = "many".into();
    topic.assignments = None;
    topic.count = 2 * MANY;
    let mut grow = CreatePartitionsRequest::default();
    grow.topics = vec![topic.clone()];
    grow.timeout_ms = 0;
    assert_eq!(link.call(3, &grow, |answer| answer.results[0].error_code), timed_out);
    await_partitions(&link, 400);

    topic.count = 2 * MANY + 1;
    grow.topics = vec![topic];
    grow.timeout_ms = 30_000;
    assert_eq!(link.call(3, &grow, |answer| answer.results[0].error_code), 0);
    assert_eq!(partitions(&link, &["many"]), [(0, 401)]);
}

fn await_partitions(link: &Connection, count: usize) {
    let begun = Instant::now();
    loop {
        let found = partitions(link, &["many"]);
        if found == [(0, count)] {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "there are {found:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
