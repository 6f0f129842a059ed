//! IncrementalAlterConfigs: what a request may not say twice.

use millrace_net::wire::{
    ErrorCode,
    typed::{
        describe_configs::{DescribeConfigsRequest, DescribeConfigsResource},
        incremental_alter_configs::{
            AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
        },
    },
};

use super::rig::{Connection, Rig};

/// Kafka's resource type of topics.
const TOPIC: i8 = 2;

/// A topic whose settings are set to these.
fn set(topic: &str, configs: &[(&str, &str)]) -> AlterConfigsResource {
    let mut resource = AlterConfigsResource::default();
    resource.resource_type = TOPIC;
    resource.resource_name = topic.to_owned().into();
    let alterable = |(name, value): &(&str, &str)| {
        let mut config = AlterableConfig::default();
        config.name = (*name).to_owned().into();
        config.value = Some((*value).to_owned().into());
        config
    };
    resource.configs = configs.iter().map(alterable).collect();
    resource
}

/// The name and error of each answer, in order.
fn alter(connection: &Connection, resources: Vec<AlterConfigsResource>) -> Vec<(String, i16)> {
    let mut request = IncrementalAlterConfigsRequest::default();
    request.resources = resources;
    connection.call(1, &request, |response| {
        let answers = response.responses.iter();
        answers.map(|answer| (answer.resource_name.to_string(), answer.error_code)).collect()
    })
}

fn retention_ms(connection: &Connection, topic: &str) -> String {
    let mut resource = DescribeConfigsResource::default();
    resource.resource_type = TOPIC;
    resource.resource_name = topic.to_owned().into();
    resource.configuration_keys = Some(vec!["retention.ms".to_owned().into()]);
    let mut request = DescribeConfigsRequest::default();
    request.resources = vec![resource];
    connection.call(4, &request, |response| {
        let value = response.results[0].configs[0].value.as_ref();
        value.expect("it has a value").to_string()
    })
}

#[test]
fn a_resource_or_a_key_named_twice_is_an_invalid_request() {
    let rig = Rig::start();
    rig.create("other", &[]);
    let connection = rig.connect();
    let before = retention_ms(&connection, "orders");
    let invalid = ErrorCode::InvalidRequest.code();
    let twice = vec![
        set("orders", &[("retention.ms", "1000")]),
        set("other", &[("retention.ms", "2000")]),
        set("orders", &[("retention.ms", "3000")]),
    ];
    let named = |name: &str, code| (name.to_owned(), code);
    let expected = [named("orders", invalid), named("other", 0), named("orders", invalid)];
    assert_eq!(alter(&connection, twice), expected);
    assert_eq!(retention_ms(&connection, "orders"), before);
    assert_eq!(retention_ms(&connection, "other"), "2000");
    let keys = vec![set("orders", &[("retention.ms", "1000"), ("retention.ms", "1000")])];
    assert_eq!(alter(&connection, keys), [named("orders", invalid)]);
    assert_eq!(retention_ms(&connection, "orders"), before);
    let once = vec![set("orders", &[("retention.ms", "4000")])];
    assert_eq!(alter(&connection, once), [named("orders", 0)]);
    assert_eq!(retention_ms(&connection, "orders"), "4000");
}
