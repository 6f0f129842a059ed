//! What administrative requests are answered: once for each thing asked for.

use millrace_net::wire::{
    ErrorCode,
    typed::{
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
