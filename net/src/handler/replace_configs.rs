//! AlterConfigs (key 33): all settings of a topic at once. Kafka has replaced it (KIP-339), and
//! still serves it, for clients such as kafkajs know nothing else.

use std::collections::BTreeMap;

use millrace_engine::meta::Command;

use super::{
    Broker, Peer,
    configs::{Refused, check_resource, invalid, named_twice},
    errors::code_of_refusal,
    filled,
    topics::submit,
};
use crate::wire::{
    ErrorCode,
    typed::alter_configs::{
        AlterConfigsRequest, AlterConfigsResource, AlterConfigsResourceResponse,
        AlterConfigsResponse,
    },
};

pub(super) async fn alter_configs(
    broker: &Broker,
    _peer: &Peer,
    _version: i16,
    request: AlterConfigsRequest,
) -> AlterConfigsResponse {
    let named = request.resources.iter();
    let twice = named_twice(named.map(|it| (it.resource_type, &*it.resource_name)));
    let mut responses = Vec::with_capacity(request.resources.len());
    for resource in &request.resources {
        let outcome = if twice.contains(&(resource.resource_type, &*resource.resource_name)) {
            Err(invalid("Each resource must appear at most once."))
        } else {
            replace(broker, resource, request.validate_only).await
        };
        let (error, text) = outcome.err().unwrap_or((ErrorCode::None, String::new()));
        responses.push(filled!(AlterConfigsResourceResponse {
            error_code: error.code(),
            error_message: (error != ErrorCode::None).then(|| text.into()),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
        }));
    }
    filled!(AlterConfigsResponse { responses: responses })
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
    let command = Command::ReplaceConfig { topic, overrides, validate_only };
    match submit(broker, command).await {
        Ok(_) => Ok(()),
        Err(refusal) => Err((code_of_refusal(&refusal), refusal.to_string())),
    }
}
