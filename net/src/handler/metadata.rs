//! Metadata (key 3): brokers, topics, and topics made by asking for them.

use std::collections::HashSet;

use millrace_engine::{
    meta::{Command, Image, NewTopic, Topic, check_topic_name},
    types::TopicId,
};

use super::{Broker, Peer, errors::code_of_refusal, filled, topics::submit};
use crate::wire::{
    ErrorCode,
    typed::metadata::{
        MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
        MetadataResponseTopic,
    },
    typed::{topic_id, uuid},
};

/// Operations are not computed while there is no authorizer (KIP-430's "not asked").
const OPERATIONS_UNKNOWN: i32 = i32::MIN;

pub(super) async fn metadata(
    broker: &Broker,
    peer: &Peer,
    version: i16,
    request: MetadataRequest,
) -> MetadataResponse {
    let mut image = broker.image();
    let topics = match wanted(version, &request) {
        None => image.topics().map(|topic| describe(topic)).collect(),
        Some(wanted) => {
            let may_create =
                request.allow_auto_topic_creation && broker.settings.auto_create_topics;
            let mut topics = Vec::with_capacity(wanted.len());
            for topic in wanted {
                topics.push(one_topic(broker, &mut image, topic, may_create).await);
            }
            topics
        }
    };
    filled!(MetadataResponse {
        brokers: vec![this_broker(broker, &image, peer)],
        cluster_id: Some(image.cluster_id().into()),
        controller_id: image.node_id().0,
        topics: topics,
        cluster_authorized_operations: OPERATIONS_UNKNOWN,
    })
}

/// A topic asked for, by name or by id.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Wanted {
    Name(String),
    Id(TopicId),
}

/// Each topic once, however often it is named, as in Kafka: the answer grows with the topics that
/// there are, not with the request. `None` asks for all: a null list, or an empty one in version 0.
fn wanted(version: i16, request: &MetadataRequest) -> Option<Vec<Wanted>> {
    let topics = request.topics.as_ref()?;
    if version == 0 && topics.is_empty() {
        return None;
    }
    let wanted = topics.iter().map(|topic| match &topic.name {
        Some(name) => Wanted::Name(name.to_string()),
        None => Wanted::Id(topic_id(topic.topic_id)),
    });
    let mut seen = HashSet::new();
    Some(wanted.filter(|topic| seen.insert(topic.clone())).collect())
}

fn this_broker(broker: &Broker, image: &Image, peer: &Peer) -> MetadataResponseBroker {
    filled!(MetadataResponseBroker {
        node_id: image.node_id().0,
        host: peer.listener.host.as_str().into(),
        port: i32::from(peer.listener.port),
        rack: broker.config.broker_rack.as_deref().map(Into::into),
    })
}

async fn one_topic(
    broker: &Broker,
    image: &mut std::sync::Arc<Image>,
    wanted: Wanted,
    may_create: bool,
) -> MetadataResponseTopic {
    let name = match wanted {
        Wanted::Id(id) => {
            return match image.topic_by_id(id) {
                Some(topic) => describe(topic),
                None => failed(None, id, ErrorCode::UnknownTopicId),
            };
        }
        Wanted::Name(name) => name,
    };
    if let Some(topic) = image.topic(&name) {
        return describe(topic);
    }
    if check_topic_name(&name).is_err() {
        return failed(Some(name), TopicId::NONE, ErrorCode::InvalidTopicException);
    }
    if !may_create {
        return failed(Some(name), TopicId::NONE, ErrorCode::UnknownTopicOrPartition);
    }
    create(broker, image, name).await
}

/// Makes the topic and answers when its partitions are served, so that no client has to ask twice.
async fn create(
    broker: &Broker,
    image: &mut std::sync::Arc<Image>,
    name: String,
) -> MetadataResponseTopic {
    let command = Command::CreateTopic(NewTopic::with_defaults(&name));
    let outcome = submit(broker, command).await;
    *image = broker.image();
    match (image.topic(&name), outcome) {
        // Another client may have made it meanwhile, which is as good.
        (Some(topic), _) => describe(topic),
        (None, Err(refusal)) => failed(Some(name), TopicId::NONE, code_of_refusal(&refusal)),
        (None, Ok(_)) => failed(Some(name), TopicId::NONE, ErrorCode::LeaderNotAvailable),
    }
}

fn describe(topic: &Topic) -> MetadataResponseTopic {
    let partitions = topic.partitions.iter().enumerate().map(|(index, state)| {
        filled!(MetadataResponsePartition {
            partition_index: i32::try_from(index).unwrap_or(i32::MAX),
            leader_id: state.leader.0,
            leader_epoch: state.leader_epoch.0,
            replica_nodes: state.replicas.iter().map(|node| node.0).collect(),
            isr_nodes: state.isr.iter().map(|node| node.0).collect(),
        })
    });
    filled!(MetadataResponseTopic {
        name: Some((&*topic.name).into()),
        topic_id: uuid(topic.id),
        partitions: partitions.collect(),
        topic_authorized_operations: OPERATIONS_UNKNOWN,
    })
}

fn failed(name: Option<String>, id: TopicId, error: ErrorCode) -> MetadataResponseTopic {
    filled!(MetadataResponseTopic {
        error_code: error.code(),
        // Null is for an unknown id only: versions below 12 cannot carry it.
        name: name.map(Into::into),
        topic_id: uuid(id),
        topic_authorized_operations: OPERATIONS_UNKNOWN,
    })
}
