//! Which directory is which partition's, over starts: damaged names, deletions cut short.

use std::fs;

use super::{calls::CallAnswer, *};
use crate::{
    config::{BrokerConfig, Sources},
    meta::{Command, NewTopic, Record, State},
    types::NodeId,
};

const ORDERS: TopicId = TopicId([0x5a; 16]);
const NOTES: TopicId = TopicId([0xc3; 16]);

/// An image of these topics of one partition.
fn image(topics: &[(&str, TopicId)]) -> Arc<Image> {
    let broker = BrokerConfig::load(&Sources::default()).expect("the defaults are valid");
    let mut state = State::new(Arc::new(broker));
    let identity = Record::Identity { cluster_id: "c".to_owned(), node_id: NodeId(1) };
    state.apply(&identity).expect("applied");
    for (name, id) in topics {
        let topic = NewTopic { partitions: 1, ..NewTopic::with_defaults(name) };
        state.execute(&Command::CreateTopic(topic), *id).expect("made");
    }
    Arc::new(state.image().clone())
}

/// A start with `topics` on the log directory `path`; what `main` does with it; its end.
fn started<T: Future<Output = ()> + 'static>(
    path: &Path,
    topics: &[(&str, TopicId)],
    main: impl Fn(Shard<RealEnv>) -> T + Send + Sync + 'static,
) {
    let (path, image, main) = (path.to_owned(), image(topics), Arc::new(main));
    let shards = run_shards(&RuntimeOptions::for_tests(1), move |context| {
        let (path, image, main) = (path.clone(), image.clone(), main.clone());
        async move { main(start(context, path, 1, image).await).await }
    });
    shards.expect("starts").join().expect("ends");
}

async fn latest(shard: &Shard<RealEnv>, topic: TopicId) -> Result<CallAnswer, failure::Failure> {
    let partition = TopicPartition { topic, partition: PartitionIndex(0) };
    shard.call(partition, Call::Latest, 0).await
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
    let mut names: Vec<_> = names.flatten().filter(|name| !name.starts_with('.')).collect();
    names.sort_unstable();
    names
}

/// It was taken for another topic's: set aside, and begun anew at offset 0.
#[test]
fn a_damaged_name_fails_its_partition_alone_until_it_is_repaired() {
    let folder = tempfile::tempdir().expect("a directory");
    let topics = [("orders", ORDERS), ("notes", NOTES)];
    started(folder.path(), &topics, async |_| {});
    let file = folder.path().join("orders-0/partition.metadata");
    let good = fs::read(&file).expect("named");
    for at in [3, good.len() / 2, good.len() - 2] {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        fs::write(&file, &bytes).expect("written");
        let (repaired, good) = (file.clone(), good.clone());
        started(folder.path(), &topics, move |shard| {
            let (repaired, good) = (repaired.clone(), good.clone());
            async move {
                assert!(latest(&shard, NOTES).await.is_ok(), "the others are served");
                assert_eq!(latest(&shard, ORDERS).await, Err(failure::Failure::Corrupt));
                fs::write(&repaired, &good).expect("written");
                while latest(&shard, ORDERS).await.is_err() {
                    shard.inner.env.sleep(Duration::from_millis(1)).await;
                }
            }
        });
        assert_eq!(names(folder.path()), ["notes-0", "orders-0"], "byte {at}");
    }
}

/// The directory stayed under its name for ever.
#[test]
fn what_a_deletion_has_left_is_set_aside_and_comes_back_with_its_topic() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path();
    let both = [("orders", ORDERS), ("notes", NOTES)];
    started(path, &both, async |_| {});
    fs::write(path.join("orders-0/kept"), b"records").expect("written");
    fs::create_dir(path.join("foreign-1")).expect("made");
    fs::write(path.join("file-2"), b"no directory").expect("written");
    started(path, &both[1..], async |_| {});
    let stray = format!("orders-0.{ORDERS}-stray");
    assert_eq!(names(path), ["file-2", "foreign-1", "notes-0", &stray]);
    started(path, &[("orders", TopicId([0x17; 16])), both[1]], async |_| {});
    assert_eq!(names(path), ["file-2", "foreign-1", "notes-0", "orders-0", &stray]);
    assert!(!path.join("orders-0/kept").exists(), "another topic of that name begins anew");
    started(path, &both, async |shard| {
        assert!(latest(&shard, ORDERS).await.is_ok());
    });
    assert!(path.join("orders-0/kept").exists(), "and goes when the first is back");
}
