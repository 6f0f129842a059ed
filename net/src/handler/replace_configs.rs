//! AlterConfigs (key 33): all settings of a topic at once. Kafka has replaced it (KIP-339), and
//! still serves it, for clients such as kafkajs know nothing else.

use std::collections::BTreeMap;

use millrace_engine::meta::Command;

use super::{
    Broker, Peer,
    configs::{Refused, alter_each, check_resource, invalid, submit_change},
    filled,
};
use crate::wire::typed::alter_configs::{
    AlterConfigsRequest, AlterConfigsResource, AlterConfigsResourceResponse, AlterConfigsResponse,
};

pub(super) async fn alter_configs(
    broker: &Broker,
    _peer: &Peer,
    _version: i16,
    request: AlterConfigsRequest,
) -> AlterConfigsResponse {
    let key = |it: &AlterConfigsResource| (it.resource_type, it.resource_name.clone());
    let replace = async |it: &_| replace(broker, it, request.validate_only).await;
    let altered = alter_each(&request.resources, key, replace).await;
    let responses = altered.map(|altered| {
        filled!(AlterConfigsResourceResponse {
            error_code: altered.error.code(),
            error_message: altered.message,
            resource_type: altered.resource_type,
            resource_name: altered.resource_name,
        })
    });
    filled!(AlterConfigsResponse { responses: responses.collect() })
}

async fn replace(
    broker: &Broker,
    resource: &AlterConfigsResource,
    validate_only: bool,
) -> Result<(), Refused> {
    let names = resource.configs.iter().map(|config| &*config.name);
    check_resource(resource.resource_type, names)?;
    let mut overrides = BTreeMap::new();
    for config in &resource.configs {
        let Some(value) = &config.value else {
            return Err(invalid(&format!("Null value not supported for : {}", &*config.name)));
        };
        overrides.insert(config.name.to_string(), value.to_string());
    }
    let topic = resource.resource_name.to_string();
    submit_change(broker, Command::ReplaceConfig { topic, overrides, validate_only }).await
}
