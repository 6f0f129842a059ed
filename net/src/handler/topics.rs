//! CreateTopics (19), DeleteTopics (20) and CreatePartitions (37).

use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

use millrace_engine::{
    config::TopicConfig,
    io::{Clock, oneshot},
    meta::{Command, NewTopic, Outcome, Refusal, TopicRef},
    shard::signal::race,
    types::{NodeId, TopicId},
};

use super::{Broker, Peer, configs::source_code, errors::code_of_refusal, filled};
use crate::wire::{
    ErrorCode,
    typed::{
        create_partitions::{
            CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic,
            CreatePartitionsTopicResult,
        },
        create_topics::{
            CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest,
            CreateTopicsResponse,
        },
        delete_topics::{
            DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
        },
        topic_id, uuid,
    },
};

/// Has the metadata writer carry out `command`; completes when every shard has applied it. A
/// refusal as well comes only when all have applied what it rests on: who is told that a topic
/// exists finds it.
pub(super) async fn submit(broker: &Broker, command: Command) -> Result<Outcome, Refusal> {
    let (outcome, version) = carry_out(broker, command).await;
    broker.shard.applied_everywhere(version).await;
    outcome
}

/// As [`submit`], but not for longer than the client waits. As in Kafka, what is under way goes on
/// after that and REQUEST_TIMED_OUT is the answer.
async fn submit_within(
    broker: &Broker,
    command: Command,
    deadline: Deadline,
) -> Result<Outcome, Refusal> {
    let (outcome, version) = carry_out(broker, command).await;
    let left = broker.shard.env().sleep(deadline.left(broker));
    match race(broker.shard.applied_everywhere(version), left).await {
        Some(()) => outcome,
        // A refusal is all that there will be.
        None => outcome.and(Err(Refusal::Busy("It is under way, but not done in time.".into()))),
    }
}

/// What became of `command`, and the version of the image that it rests on.
async fn carry_out(broker: &Broker, command: Command) -> (Result<Outcome, Refusal>, u64) {
    let (sender, receiver) = oneshot::channel();
    let published = broker.published.clone();
    // Images are published before their command is answered, so the version read here holds it.
    let done = move |outcome| sender.send((outcome, published.load(Ordering::Acquire)));
    broker.meta.submit(command, Box::new(done));
    let stopping = |_| (Err(Refusal::Stopping("The broker is stopping.".into())), 0);
    receiver.await.unwrap_or_else(stopping)
}

/// When a client stops waiting, on the monotonic clock: `timeout.ms` of its request.
#[derive(Clone, Copy)]
struct Deadline {
    at_ns: u64,
}

impl Deadline {
    fn after(broker: &Broker, timeout_ms: i32) -> Self {
        let timeout_ms = u64::try_from(timeout_ms).unwrap_or(0);
        Self { at_ns: broker.shard.env().monotonic_ns() + timeout_ms * 1_000_000 }
    }

    fn left(self, broker: &Broker) -> Duration {
        Duration::from_nanos(self.at_ns.saturating_sub(broker.shard.env().monotonic_ns()))
    }
}

pub(super) async fn create_topics(
    broker: &Broker,
    _peer: &Peer,
    _version: i16,
    request: CreateTopicsRequest,
) -> CreateTopicsResponse {
    let deadline = Deadline::after(broker, request.timeout_ms);
    let mut seen = BTreeMap::<String, usize>::new();
    for topic in &request.topics {
        *seen.entry(topic.name.to_string()).or_default() += 1;
    }
    let mut topics = Vec::with_capacity(seen.len());
    for topic in &request.topics {
        match seen.remove(&*topic.name) {
            Some(1) => {
                topics.push(create(broker, topic, request.validate_only, deadline).await);
            }
            Some(_) => topics.push(filled!(CreatableTopicResult {
                name: topic.name.clone(),
                error_code: ErrorCode::InvalidRequest.code(),
                error_message: Some("The topic is named twice in this request.".into()),
            })),
            None => {}
        }
    }
    filled!(CreateTopicsResponse { topics: topics })
}

async fn create(
    broker: &Broker,
    topic: &CreatableTopic,
    validate_only: bool,
    deadline: Deadline,
) -> CreatableTopicResult {
    let assignments = topic.assignments.iter().map(|assignment| {
        let nodes = assignment.broker_ids.iter().copied().map(NodeId).collect();
        (assignment.partition_index, nodes)
    });
    let configs = topic
        .configs
        .iter()
        .map(|config| (config.name.to_string(), config.value.as_ref().map(ToString::to_string)));
    let command = Command::CreateTopic(NewTopic {
        name: topic.name.to_string(),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: assignments.collect(),
        configs: configs.collect(),
        validate_only,
    });
    match submit_within(broker, command, deadline).await {
        Ok(Outcome::TopicCreated(made)) => {
            let configs =
                TopicConfig::describe(&broker.config, &made.overrides).unwrap_or_default();
            filled!(CreatableTopicResult {
                name: topic.name.clone(),
                topic_id: uuid(made.id),
                num_partitions: i32::try_from(made.partitions.len()).unwrap_or(i32::MAX),
                replication_factor: 1,
                configs: Some(configs.iter().map(created_config).collect()),
            })
        }
        Ok(_) => created_failure(topic, ErrorCode::UnknownServerError, None),
        Err(refusal) => {
            created_failure(topic, code_of_refusal(&refusal), Some(refusal.to_string()))
        }
    }
}

fn created_config(entry: &millrace_engine::config::Entry) -> CreatableTopicConfigs {
    filled!(CreatableTopicConfigs {
        name: entry.name.into(),
        value: entry.value.as_deref().map(Into::into),
        read_only: entry.read_only,
        config_source: source_code(entry.source),
        is_sensitive: entry.sensitive,
    })
}

fn created_failure(
    topic: &CreatableTopic,
    error: ErrorCode,
    text: Option<String>,
) -> CreatableTopicResult {
    filled!(CreatableTopicResult {
        name: topic.name.clone(),
        error_code: error.code(),
        error_message: text.map(Into::into),
        num_partitions: -1,
        replication_factor: -1,
    })
}

pub(super) async fn delete_topics(
    broker: &Broker,
    _peer: &Peer,
    version: i16,
    request: DeleteTopicsRequest,
) -> DeleteTopicsResponse {
    let deadline = Deadline::after(broker, request.timeout_ms);
    let wanted: Vec<DeleteTopicState> = if version >= 6 {
        request.topics
    } else {
        let names = request.topic_names.into_iter();
        names.map(|name| filled!(DeleteTopicState { name: Some(name) })).collect()
    };
    let mut responses = Vec::with_capacity(wanted.len());
    for topic in wanted {
        responses.push(delete(broker, topic, deadline).await);
    }
    filled!(DeleteTopicsResponse { responses: responses })
}

async fn delete(
    broker: &Broker,
    topic: DeleteTopicState,
    deadline: Deadline,
) -> DeletableTopicResult {
    let by_id = topic_id(topic.topic_id) != TopicId::NONE;
    if topic.name.is_some() == by_id {
        return filled!(DeletableTopicResult {
            name: topic.name,
            topic_id: topic.topic_id,
            error_code: ErrorCode::InvalidRequest.code(),
            error_message: Some("A topic is named either by its name or by its id.".into()),
        });
    }
    let image = broker.image();
    let selector = match &topic.name {
        Some(name) => TopicRef::Name(name.to_string()),
        None => TopicRef::Id(topic_id(topic.topic_id)),
    };
    let known = match &selector {
        TopicRef::Name(name) => image.topic(name),
        TopicRef::Id(id) => image.topic_by_id(*id),
    };
    let mut result = filled!(DeletableTopicResult { topic_id: topic.topic_id });
    result.name = known.map(|known| (&*known.name).into()).or(topic.name);
    if let Some(known) = known {
        result.topic_id = uuid(known.id);
    }
    let command = Command::DeleteTopic(selector);
    if let Err(refusal) = submit_within(broker, command, deadline).await {
        result.error_code = code_of_refusal(&refusal).code();
        result.error_message = Some(refusal.message().into());
    }
    result
}

pub(super) async fn create_partitions(
    broker: &Broker,
    _peer: &Peer,
    _version: i16,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let deadline = Deadline::after(broker, request.timeout_ms);
    let mut results = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        results.push(grow(broker, topic, request.validate_only, deadline).await);
    }
    filled!(CreatePartitionsResponse { results: results })
}

async fn grow(
    broker: &Broker,
    topic: &CreatePartitionsTopic,
    validate_only: bool,
    deadline: Deadline,
) -> CreatePartitionsTopicResult {
    let assignments = topic.assignments.as_ref().map(|all| {
        let nodes = |ids: &[i32]| ids.iter().copied().map(NodeId).collect::<Vec<_>>();
        all.iter().map(|one| nodes(&one.broker_ids)).collect()
    });
    let command = Command::CreatePartitions {
        topic: topic.name.to_string(),
        count: topic.count,
        assignments,
        validate_only,
    };
    let mut result = filled!(CreatePartitionsTopicResult { name: topic.name.clone() });
    if let Err(refusal) = submit_within(broker, command, deadline).await {
        result.error_code = code_of_refusal(&refusal).code();
        result.error_message = Some(refusal.message().into());
    }
    result
}
