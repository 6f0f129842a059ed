//! The state machine against a plain model, and the writer with its store on a real directory.

use std::{path::Path, sync::Arc};

use super::{writer::Publish, *};
use crate::{
    config::{BrokerConfig, Flag, Sources},
    types::{NodeId, ProducerId},
};

pub(super) fn broker(dirs: &[&Path]) -> Arc<BrokerConfig> {
    let dirs: Vec<_> = dirs.iter().map(|dir| dir.to_str().expect("text")).collect();
    broker_with(&[("log.dirs", &dirs.join(","))])
}

pub(super) fn broker_with(settings: &[(&str, &str)]) -> Arc<BrokerConfig> {
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

pub(super) fn create(name: &str, partitions: i32) -> Command {
    Command::CreateTopic(NewTopic { partitions, ..NewTopic::with_defaults(name) })
}

#[test]
fn a_cluster_survives_restarts() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path().join("data");
    let (handle, image) = writer::start(broker(&[&dir]), silent()).expect("starts");
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

    let (handle, again) = writer::start(broker(&[&dir]), silent()).expect("starts again");
    assert_eq!(again.cluster_id(), image.cluster_id());
    assert_eq!(again.topic("b").map(|topic| topic.partitions.len()), Some(4));
    assert!(again.topic("a").is_none());
    assert_eq!((again.version(), again.partition_count()), (7, 4));
    let ids = handle.call(Command::ReserveProducerIds).expect("reserved");
    assert_eq!(ids, Outcome::ProducerIds { first: ProducerId(1000), count: 1000 });
    handle.stop();
}
