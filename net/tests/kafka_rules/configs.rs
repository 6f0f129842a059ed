//! IncrementalAlterConfigs and AlterConfigs: what a request may not say twice, and what is left of
//! the settings that it does not name.

use millrace_net::wire::{
    ErrorCode,
    typed::{
        alter_configs::{self, AlterConfigsRequest},
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
    value(connection, topic, "retention.ms")
}

fn value(connection: &Connection, topic: &str, setting: &str) -> String {
    let mut resource = DescribeConfigsResource::default();
    resource.resource_type = TOPIC;
    resource.resource_name = topic.to_owned().into();
    resource.configuration_keys = Some(vec![setting.to_owned().into()]);
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

/// A topic that is to have these settings alone.
fn only(topic: &str, configs: &[(&str, Option<&str>)]) -> alter_configs::AlterConfigsResource {
    let mut resource = alter_configs::AlterConfigsResource::default();
    resource.resource_type = TOPIC;
    resource.resource_name = topic.to_owned().into();
    let alterable = |(name, value): &(&str, Option<&str>)| {
        let mut config = alter_configs::AlterableConfig::default();
        config.name = (*name).to_owned().into();
        config.value = value.map(|value| value.to_owned().into());
        config
    };
    resource.configs = configs.iter().map(alterable).collect();
    resource
}

fn replace(
    connection: &Connection,
    resources: Vec<alter_configs::AlterConfigsResource>,
    validate_only: bool,
) -> Vec<i16> {
    let mut request = AlterConfigsRequest::default();
    request.resources = resources;
    request.validate_only = validate_only;
    connection.call(2, &request, |response| {
        response.responses.iter().map(|answer| answer.error_code).collect()
    })
}

#[test]
fn settings_that_are_replaced_leave_nothing_of_the_old_ones() {
    let rig = Rig::start();
    let connection = rig.connect();
    let default = value(&connection, "orders", "segment.bytes");
    let both = [("retention.ms", "1000"), ("segment.bytes", "1048576")];
    assert_eq!(alter(&connection, vec![set("orders", &both)])[0].1, 0);
    let new = || only("orders", &[("retention.ms", Some("2000"))]);
    assert_eq!(replace(&connection, vec![new()], true), [0]);
    assert_eq!(value(&connection, "orders", "segment.bytes"), "1048576");
    assert_eq!(replace(&connection, vec![new()], false), [0]);
    assert_eq!(retention_ms(&connection, "orders"), "2000");
    assert_eq!(value(&connection, "orders", "segment.bytes"), default);
}

#[test]
fn a_replacement_that_is_refused_changes_nothing() {
    let rig = Rig::start();
    let connection = rig.connect();
    let before = retention_ms(&connection, "orders");
    let new = || only("orders", &[("retention.ms", Some("2000"))]);
    let invalid = ErrorCode::InvalidRequest.code();
    assert_eq!(replace(&connection, vec![new(), new()], false), [invalid, invalid]);
    let retention = ("retention.ms", Some("2000"));
    for (configs, error) in [
        ([retention, retention], ErrorCode::InvalidRequest),
        ([retention, ("segment.bytes", None)], ErrorCode::InvalidRequest),
        ([retention, ("no.such.setting", Some("1"))], ErrorCode::InvalidConfig),
        ([retention, ("segment.bytes", Some("many"))], ErrorCode::InvalidConfig),
    ] {
        let answered = replace(&connection, vec![only("orders", &configs)], false);
        assert_eq!(answered, [error.code()], "{configs:?}");
    }
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(replace(&connection, vec![only("none", &[])], false), [unknown]);
    let mut broker = new();
    broker.resource_type = 4;
    assert_eq!(replace(&connection, vec![broker], false), [invalid]);
    assert_eq!(retention_ms(&connection, "orders"), before);
}
