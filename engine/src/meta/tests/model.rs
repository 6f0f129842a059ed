//! Random commands against a plain model, with records, snapshots and restarts on the way.

use std::{collections::BTreeMap, sync::Arc};

use super::super::*;
use crate::{
    config::{BrokerConfig, Change, Operation, Overrides, TopicConfig},
    limits,
    types::{NodeId, ProducerId, TopicId},
};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        let at = usize::try_from(self.next() % choices.len() as u64).expect("below a length");
        choices[at].clone()
    }
}

/// What is so, as simply as it can be kept.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    topics: BTreeMap<String, (TopicId, usize, Overrides)>,
    next_producer_id: i64,
}

const NAMES: [&str; 12] = [
    "a",
    "b",
    "a.b",
    "a_b",
    "A",
    "x-1",
    "..",
    "",
    "sp ace",
    "__cluster_metadata",
    "c.d.e",
    "c_d_e",
];
const TEXTS: [(&str, &str); 6] = [
    ("retention.ms", "1000"),
    ("retention.ms", "soon"),
    ("segment.bytes", "1048576"),
    ("segment.bytes", "1"),
    ("cleanup.policy", "compact"),
    ("no.such.setting", "1"),
];
const GOOD_TEXTS: [(&str, &str); 3] =
    [("retention.ms", "1000"), ("segment.bytes", "1048576"), ("cleanup.policy", "compact")];

fn command(random: &mut Random) -> Command {
    let topic = random.pick(&NAMES).to_owned();
    let validate_only = random.next().is_multiple_of(8);
    let text = random.pick(&TEXTS);
    match random.next() % 12 {
        0..=4 => {
            let configs = (random.next().is_multiple_of(2))
                .then(|| (text.0.to_owned(), Some(text.1.to_owned())));
            Command::CreateTopic(NewTopic {
                partitions: random.pick(&[-1, -2, 0, 1, 3, 7, i32::MAX, 10_001]),
                replication_factor: random.pick(&[-1, -1, 1, 1, 1, 0, 2, i16::MAX]),
                configs: configs.into_iter().collect(),
                validate_only,
                ..NewTopic::with_defaults(&topic)
            })
        }
        5 => Command::DeleteTopic(TopicRef::Name(topic)),
        6 | 7 => Command::CreatePartitions {
            topic,
            count: random.pick(&[0, 1, 4, 8, 9, 20_000, -1]),
            assignments: random.pick(&[None, None, Some(vec![vec![NodeId(1)]; 3])]),
            validate_only,
        },
        8 | 9 => Command::AlterConfig {
            topic,
            changes: vec![Change {
                name: text.0.to_owned(),
                operation: random.pick(&[
                    Operation::Set(text.1.to_owned()),
                    Operation::Set(text.1.to_owned()),
                    Operation::Delete,
                ]),
            }],
            validate_only,
        },
        10 => Command::ReplaceConfig {
            topic,
            overrides: [(text.0.to_owned(), text.1.to_owned())].into(),
            validate_only,
        },
        _ => Command::ReserveProducerIds,
    }
}

fn is_good(overrides: &Overrides) -> bool {
    overrides.iter().all(|(name, text)| GOOD_TEXTS.contains(&(name.as_str(), text.as_str())))
}

impl Model {
    /// Does what the command asks, or says by `false` that it cannot be done.
    fn execute(&mut self, command: &Command, id: TopicId) -> bool {
        let before = self.clone();
        let (done, keep) = match command {
            Command::CreateTopic(new) => (self.create(new, id), !new.validate_only),
            Command::DeleteTopic(TopicRef::Name(name)) => {
                (self.topics.remove(name).is_some(), true)
            }
            Command::DeleteTopic(TopicRef::Id(_)) => unreachable!("not made here"),
            Command::CreatePartitions { topic, count, assignments, validate_only } => {
                let Some((_, partitions, _)) = self.topics.get_mut(topic) else { return false };
                let count = usize::try_from(*count).unwrap_or(0);
                let fits = assignments.as_ref().is_none_or(|all| all.len() + *partitions == count);
                let done = count > *partitions && count <= limits::TOPIC_PARTITIONS_MAX && fits;
                *partitions = count;
                (done, !validate_only)
            }
            Command::AlterConfig { topic, changes, validate_only } => {
                let Some((_, _, overrides)) = self.topics.get_mut(topic) else { return false };
                for change in changes {
                    match &change.operation {
                        Operation::Set(text) => {
                            overrides.insert(change.name.clone(), text.clone());
                        }
                        _ => drop(overrides.remove(&change.name)),
                    }
                }
                (is_good(overrides), !validate_only)
            }
            Command::ReplaceConfig { topic, overrides: new, validate_only } => {
                let Some((_, _, overrides)) = self.topics.get_mut(topic) else { return false };
                overrides.clone_from(new);
                (is_good(new), !validate_only)
            }
            Command::ReserveProducerIds => {
                self.next_producer_id += 1000;
                (true, true)
            }
        };
        if !done || !keep {
            *self = before;
        }
        done
    }

    fn create(&mut self, new: &NewTopic, id: TopicId) -> bool {
        let folded = new.name.replace('.', "_");
        let collides = self.topics.keys().any(|name| name.replace('.', "_") == folded);
        let bad = ["..", "", "sp ace", "__cluster_metadata"].contains(&new.name.as_str());
        let count = if new.partitions == -1 { 1 } else { new.partitions };
        let count = usize::try_from(count).unwrap_or(0);
        let overrides: Overrides = new
            .configs
            .iter()
            .filter_map(|(name, text)| Some((name.clone(), text.clone()?)))
            .collect();
        let done = !collides
            && !bad
            && (1..=limits::TOPIC_PARTITIONS_MAX).contains(&count)
            && [-1, 1].contains(&new.replication_factor)
            && is_good(&overrides);
        if done {
            self.topics.insert(new.name.clone(), (id, count, overrides));
        }
        done
    }

    fn of(image: &Image) -> Self {
        let topic = |topic: &Arc<Topic>| {
            let Topic { id, partitions, overrides, .. } = &**topic;
            (topic.name.to_string(), (*id, partitions.len(), overrides.clone()))
        };
        Self {
            topics: image.topics().map(topic).collect(),
            next_producer_id: image.next_producer_id(),
        }
    }
}

fn check(image: &Image, broker: &BrokerConfig) {
    let mut partitions = 0;
    for topic in image.topics() {
        assert!(Arc::ptr_eq(topic, image.topic_by_id(topic.id).expect("by id too")));
        assert_eq!(*topic.config, TopicConfig::resolve(broker, &topic.overrides).expect("valid"));
        partitions += topic.partitions.len();
        for state in &topic.partitions {
            assert_eq!(*state, PartitionState::new_on(image.node_id()));
        }
    }
    assert_eq!(image.partition_count(), partitions);
}

fn fresh(broker: &Arc<BrokerConfig>) -> State {
    let mut state = State::new(broker.clone());
    let identity = Record::Identity { cluster_id: "c".to_owned(), node_id: NodeId(1) };
    state.apply(&identity).expect("applied");
    state
}

#[test]
fn random_commands_do_what_the_model_does() {
    let broker = Arc::new(BrokerConfig::default());
    let mut refused = 0;
    for seed in 1..=40_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut state = fresh(&broker);
        let mut replayed = state.clone();
        let mut model = Model::default();
        for step in 0..300_u64 {
            let command = command(&mut random);
            let mut id = [1; 16];
            id[..8].copy_from_slice(&step.to_le_bytes());
            let before = state.image().clone();
            let result = state.execute(&command, TopicId(id));
            let expected = model.execute(&command, TopicId(id));
            assert_eq!(result.is_ok(), expected, "{command:?}: {result:?}");
            assert_eq!(Model::of(state.image()), model, "{command:?}");
            let Ok((records, outcome)) = result else {
                refused += 1;
                assert_eq!(state.image().version(), before.version());
                continue;
            };
            for record in &records {
                let mut bytes = Vec::new();
                record.encode(&mut bytes);
                assert_eq!(Record::decode(&bytes).as_ref(), Ok(record));
                replayed.apply(record).expect("a record that was planned");
            }
            assert_eq!(Model::of(replayed.image()), model);
            assert_eq!(replayed.image().version(), state.image().version());
            if let Outcome::ProducerIds { first, count } = outcome {
                assert_eq!(first, ProducerId(before.next_producer_id()));
                assert_eq!(i64::from(count), 1000);
            }
        }
        check(state.image(), &broker);
        let mut loaded = State::new(broker.clone());
        let version = state.image().version();
        loaded.load(&state.snapshot(), version).expect("a snapshot loads");
        assert_eq!(Model::of(loaded.image()), model);
        assert_eq!(loaded.image().version(), version);
        check(loaded.image(), &broker);
    }
    assert!(refused > 1000, "the commands try what cannot be done");
}

#[test]
fn records_that_contradict_the_image_are_corruption() {
    let broker = Arc::new(BrokerConfig::default());
    let mut state = fresh(&broker);
    let id = TopicId([3; 16]);
    let create = Command::CreateTopic(NewTopic::with_defaults("t"));
    let (records, _) = state.execute(&create, id).expect("made");
    state.apply(&Record::ProducerIdsReserved(5000)).expect("applied");
    let none = TopicId([4; 16]);
    let epoch = |epoch| PartitionState {
        leader_epoch: crate::types::LeaderEpoch(epoch),
        ..PartitionState::new_on(NodeId(1))
    };
    let change = |partition, state| Record::PartitionChanged { id, partition, state };
    state.apply(&change(0, epoch(3))).expect("applied");
    let version = state.image().version();
    for record in [
        records[0].clone(),
        Record::TopicRemoved(none),
        Record::PartitionsAdded { id: none, partitions: Vec::new() },
        Record::ConfigChanged { id: none, overrides: Overrides::new() },
        Record::ProducerIdsReserved(4999),
        change(1, epoch(4)),
        change(0, epoch(2)),
    ] {
        let error = state.apply(&record).expect_err("contradicts");
        assert_eq!(error.kind(), crate::error::Kind::Corrupt, "{record:?}");
    }
    assert_eq!(state.image().version(), version);
    let leader = state.image().topic("t").and_then(|topic| topic.partitions.first().cloned());
    assert_eq!(leader, Some(epoch(3)));
}
