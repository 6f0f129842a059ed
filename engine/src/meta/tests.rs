//! Each refusal in Kafka's words, and the whole of it on a real directory.

#![expect(clippy::disallowed_methods, reason = "the test times a plain loop")]

mod model;

use std::{path::Path, sync::Arc, time::Instant};

use super::{writer::Publish, *};
use crate::{
    config::{BrokerConfig, Change, Flag, Operation, Sources},
    io::health::DiskHealth,
    types::{NodeId, ProducerId, TopicId},
};

fn broker(dirs: &[&Path]) -> Arc<BrokerConfig> {
    let dirs: Vec<_> = dirs.iter().map(|dir| dir.to_str().expect("text")).collect();
    broker_with(&[("log.dirs", &dirs.join(","))])
}

fn broker_with(settings: &[(&str, &str)]) -> Arc<BrokerConfig> {
    let flag = |(name, value): &(&str, &str)| Flag {
        flag: format!("--{name}"),
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    let flags = settings.iter().map(flag).collect();
    Arc::new(BrokerConfig::load(&Sources { flags, ..Sources::default() }).expect("valid"))
}

fn silent() -> Publish {
    Box::new(|_| {})
}

fn create(name: &str, partitions: i32) -> Command {
    Command::CreateTopic(NewTopic { partitions, ..NewTopic::with_defaults(name) })
}

#[test]
fn a_cluster_survives_restarts() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path().join("data");
    let (handle, image) =
        writer::start(broker(&[&dir]), &DiskHealth::new(), silent()).expect("starts");
    assert_eq!((image.version(), image.node_id(), image.topic_count()), (2, NodeId(1), 0));
    assert_eq!(image.cluster_id().len(), 22);
    handle.call(create("a", 3)).expect("made");
    handle.call(create("b", -1)).expect("made");
    let growth = Command::CreatePartitions {
        topic: "b".to_owned(),
        count: 4,
        assignments: Some(vec![vec![NodeId(1)]; 3]),
        validate_only: false,
    };
    handle.call(growth).expect("grown");
    handle.call(Command::DeleteTopic(TopicRef::Name("a".to_owned()))).expect("gone");
    let ids = handle.call(Command::ReserveProducerIds).expect("reserved");
    assert_eq!(ids, Outcome::ProducerIds { first: ProducerId(0), count: 1000 });
    handle.stop();
    handle.stop();
    assert!(matches!(handle.call(create("c", 1)), Err(Refusal::Stopping(_))));

    let (handle, again) =
        writer::start(broker(&[&dir]), &DiskHealth::new(), silent()).expect("starts again");
    assert_eq!(again.cluster_id(), image.cluster_id());
    assert_eq!(again.topic("b").map(|topic| topic.partitions.len()), Some(4));
    assert!(again.topic("a").is_none());
    assert_eq!((again.version(), again.partition_count()), (7, 4));
    let ids = handle.call(Command::ReserveProducerIds).expect("reserved");
    assert_eq!(ids, Outcome::ProducerIds { first: ProducerId(1000), count: 1000 });
    handle.stop();
}

/// A node with id 1, a topic `old` of 3 partitions and one named `a_b`.
fn some_state(settings: &[(&str, &str)]) -> State {
    let mut state = State::new(broker_with(settings));
    let identity = Record::Identity { cluster_id: "c".to_owned(), node_id: NodeId(1) };
    state.apply(&identity).expect("applied");
    state.execute(&create("old", 3), TopicId([1; 16])).expect("made");
    state.execute(&create("a_b", 1), TopicId([2; 16])).expect("made");
    state
}

fn refusal(command: &Command) -> Refusal {
    let mut state = some_state(&[]);
    let version = state.image().version();
    let refusal = state.execute(command, TopicId([9; 16])).expect_err("refused");
    assert_eq!(state.image().version(), version);
    refusal
}

#[test]
fn topics_that_cannot_be_made_are_refused_in_kafkas_words() {
    let new = |change: fn(&mut NewTopic)| {
        let mut topic = NewTopic::with_defaults("new");
        change(&mut topic);
        refusal(&Command::CreateTopic(topic))
    };
    let text = str::to_owned;
    assert_eq!(
        new(|it| it.name = "a b".to_owned()),
        Refusal::InvalidTopic(text(
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII \
             alphanumerics, '.', '_' and '-'"
        ))
    );
    assert_eq!(
        new(|it| it.name = "a.b".to_owned()),
        Refusal::InvalidTopic(text("Topic 'a.b' collides with existing topic: a_b"))
    );
    assert_eq!(
        new(|it| it.name = "old".to_owned()),
        Refusal::TopicExists(text("Topic 'old' already exists."))
    );
    assert!(matches!(
        new(|it| it.name = "__cluster_metadata".to_owned()),
        Refusal::InvalidRequest(_)
    ));
    for count in [0, -2, i32::MIN] {
        let topic = NewTopic { partitions: count, ..NewTopic::with_defaults("new") };
        assert_eq!(
            refusal(&Command::CreateTopic(topic)),
            Refusal::InvalidPartitions(text(
                "Number of partitions was set to an invalid non-positive value."
            ))
        );
    }
    assert!(matches!(new(|it| it.partitions = 10_001), Refusal::InvalidPartitions(_)));
    assert!(matches!(new(|it| it.replication_factor = 0), Refusal::InvalidReplicationFactor(_)));
    assert_eq!(
        new(|it| it.replication_factor = 3),
        Refusal::InvalidReplicationFactor(text(
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 \
             cannot be reached because only 1 broker(s) are registered."
        ))
    );
    assert_eq!(
        new(|it| drop(it.configs.insert("retention.msec".to_owned(), Some("1".to_owned())))),
        Refusal::InvalidConfig(text(
            "Unknown topic config name: retention.msec (nearest known: retention.ms)"
        ))
    );
    assert_eq!(
        new(|it| drop(it.configs.insert("retention.ms".to_owned(), None))),
        Refusal::InvalidConfig(text("Null value not supported for topic configs: retention.ms"))
    );
    let long = "1:1,".repeat(10_000) + "1:1";
    let configs = [("leader.replication.throttled.replicas".to_owned(), Some(long))].into();
    let topic = NewTopic { configs, ..NewTopic::with_defaults("new") };
    let refusal = refusal(&Command::CreateTopic(topic));
    assert!(refusal.message().ends_with("is longer than 32768 bytes."), "{refusal}");
}

#[test]
fn assignments_name_this_node_alone() {
    let assign = |assignments: &[(i32, &[i32])]| {
        let assignments = assignments
            .iter()
            .map(|(partition, nodes)| (*partition, nodes.iter().copied().map(NodeId).collect()))
            .collect();
        let topic = NewTopic { assignments, ..NewTopic::with_defaults("new") };
        let mut state = some_state(&[]);
        state.execute(&Command::CreateTopic(topic), TopicId([9; 16])).map(|(_, outcome)| outcome)
    };
    let Ok(Outcome::TopicCreated(topic)) = assign(&[(1, &[1]), (0, &[1])]) else {
        panic!("both partitions are on this node");
    };
    assert_eq!(topic.partitions, vec![PartitionState::new_on(NodeId(1)); 2]);
    for wrong in [
        &[(0, &[2][..])][..],
        &[(0, &[])],
        &[(0, &[1, 1])],
        &[(0, &[1, 2])],
        &[(1, &[1])],
        &[(0, &[1]), (0, &[1])],
        &[(-1, &[1])],
    ] {
        let refusal = assign(wrong).expect_err("refused");
        assert!(matches!(refusal, Refusal::InvalidReplicaAssignment(_)), "{wrong:?}: {refusal}");
    }
    let mut both = NewTopic::with_defaults("new");
    both.assignments = vec![(0, vec![NodeId(1)])];
    both.partitions = 1;
    assert!(matches!(refusal(&Command::CreateTopic(both)), Refusal::InvalidRequest(_)));
    let grow = |count, added| {
        refusal(&Command::CreatePartitions {
            topic: "old".to_owned(),
            count,
            assignments: Some(vec![vec![NodeId(1)]; added]),
            validate_only: false,
        })
    };
    assert!(matches!(grow(5, 1), Refusal::InvalidReplicaAssignment(_)));
    assert_eq!(grow(3, 0).message(), "Topic already has 3 partition(s).");
    assert_eq!(
        grow(2, 0).message(),
        "The topic old currently has 3 partition(s); 2 would not be an increase."
    );
}

#[test]
fn absent_topics_and_forbidden_deletion() {
    let name = || "none".to_owned();
    for command in [
        Command::DeleteTopic(TopicRef::Name(name())),
        Command::AlterConfig { topic: name(), changes: Vec::new(), validate_only: false },
        Command::ReplaceConfig { topic: name(), overrides: [].into(), validate_only: false },
    ] {
        assert!(matches!(refusal(&command), Refusal::UnknownTopic(_)));
    }
    let by_id = Command::DeleteTopic(TopicRef::Id(TopicId([7; 16])));
    assert!(matches!(refusal(&by_id), Refusal::UnknownTopicId(_)));
    let mut state = some_state(&[("delete.topic.enable", "false")]);
    let delete = Command::DeleteTopic(TopicRef::Id(TopicId([1; 16])));
    let refusal = state.execute(&delete, TopicId([9; 16])).expect_err("disabled");
    assert!(matches!(refusal, Refusal::TopicDeletionDisabled(_)));
}

#[test]
fn validation_answers_what_would_be_and_changes_nothing() {
    let mut state = some_state(&[("num.partitions", "5")]);
    let version = state.image().version();
    let topic = NewTopic { validate_only: true, ..NewTopic::with_defaults("new") };
    let (records, outcome) =
        state.execute(&Command::CreateTopic(topic), TopicId([9; 16])).expect("valid");
    let Outcome::TopicCreated(topic) = outcome else { panic!("{outcome:?}") };
    assert_eq!((topic.partitions.len(), records.len()), (5, 0));
    let change =
        Change { name: "retention.ms".to_owned(), operation: Operation::Set("7".to_owned()) };
    let alter = |validate_only| Command::AlterConfig {
        topic: "old".to_owned(),
        changes: vec![change.clone()],
        validate_only,
    };
    let (_, outcome) = state.execute(&alter(true), TopicId([9; 16])).expect("valid");
    let Outcome::ConfigAltered(topic) = outcome else { panic!("{outcome:?}") };
    assert_eq!(topic.config.retention_ms, Some(7));
    assert_eq!(state.image().version(), version);
    assert!(state.image().topic("new").is_none());
    state.execute(&alter(false), TopicId([9; 16])).expect("valid");
    assert_eq!(state.image().version(), version + 1);
    // Asked for again, it is so already: no record.
    state.execute(&alter(false), TopicId([9; 16])).expect("valid");
    assert_eq!(state.image().version(), version + 1);
}

/// Ten thousand topics: an old image stays as it was, and a new one costs far less than a copy.
#[test]
fn images_of_many_topics_are_cheap() {
    let mut state = some_state(&[]);
    let mut id = [5; 16];
    for number in 0..10_000_u32 {
        id[..4].copy_from_slice(&number.to_be_bytes());
        state.execute(&create(&format!("topic-{number}"), 1), TopicId(id)).expect("made");
    }
    let before = state.image().clone();
    let start = Instant::now();
    let rounds = 1000_u32;
    for round in 0..rounds {
        id[..4].copy_from_slice(&(20_000 + round).to_be_bytes());
        state.execute(&create(&format!("more-{round}"), 1), TopicId(id)).expect("made");
        drop(state.image().clone());
    }
    let each = start.elapsed() / rounds;
    println!("one topic among 10,000 and an image of it: {each:?}");
    assert!(each.as_millis() < 5, "{each:?} is a copy of everything");
    assert_eq!((before.topic_count(), state.image().topic_count()), (10_002, 11_002));
    assert!(before.topic("more-0").is_none());
}
