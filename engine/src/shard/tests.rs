//! Shards of a real runtime on a directory of their own, without topics and without a broker.

mod directories;

use std::{
    future::Future,
    path::Path,
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Waker},
    time::Duration,
};

use super::{calls::Call, join::Join, *};
use crate::{
    batch::{HEADER_BYTES, Header},
    config::BrokerConfig,
    io::{
        Clock,
        file::RealDisk,
        runtime::{RealEnv, RuntimeOptions, ShardContext, run_shards},
    },
    meta::{Command, NewTopic, writer},
};

/// Runs `main` as shard 0, beside a shard 1 that takes no message and ends once it is told so.
fn beside_a_silent_shard<T: Future<Output = ()> + 'static>(
    main: impl Fn(Shard<RealEnv>, Arc<AtomicBool>) -> T + Send + Sync + 'static,
) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().to_owned();
    let (main, end) = (Arc::new(main), Arc::new(AtomicBool::new(false)));
    let shards = run_shards(&RuntimeOptions::for_tests(2), move |context| {
        let (path, main, end) = (path.clone(), main.clone(), end.clone());
        async move {
            if context.id == ShardId(0) {
                main(start(context, path, 2, Arc::new(Image::empty())).await, end.clone()).await;
                end.store(true, Ordering::Relaxed);
            } else {
                while !end.load(Ordering::Relaxed) {
                    context.env.sleep(Duration::from_millis(1)).await;
                }
            }
        }
    });
    shards.expect("starts").join().expect("ends");
}

/// One of `count` shards, with one log directory.
async fn start(
    context: ShardContext<Message>,
    path: PathBuf,
    count: u16,
    image: Arc<Image>,
) -> Shard<RealEnv> {
    let disk = RealDisk::open(&path).await.expect("opens");
    let directory = LogDirectory::new(&context.env, &context.pool, path, disk, DiskHealth::new());
    let parts = Parts {
        id: context.id,
        count,
        env: context.env,
        pool: context.pool,
        mesh: context.mesh,
        directories: vec![directory],
        image,
        producer_id_expiration_ms: 1,
    };
    Shard::start(parts).await
}

/// The metadata of a new node in `dir` with one topic of two partitions.
fn image_with_topic(dir: &Path, name: &str) -> Arc<Image> {
    let mut broker = BrokerConfig::default();
    broker.log_dirs = vec![dir.into()];
    let broker = Arc::new(broker);
    let start = || writer::start(broker.clone(), &DiskHealth::new(), Box::new(|_| {}));
    let (handle, _) = start().expect("starts");
    let topic = NewTopic { partitions: 2, ..NewTopic::with_defaults(name) };
    handle.call(Command::CreateTopic(topic)).expect("made");
    handle.stop();
    let (handle, image) = start().expect("starts again");
    handle.stop();
    image
}

/// One partition that did not open kept the broker from starting.
#[test]
fn a_start_serves_the_partitions_that_open_and_the_others_once_they_do() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().to_owned();
    let image = image_with_topic(&path, "topic");
    let obstacle = path.join("topic-1");
    std::fs::write(&obstacle, b"a file where a directory goes").expect("our own folder");
    let shards = run_shards(&RuntimeOptions::for_tests(1), move |context| {
        let (path, image, obstacle) = (path.clone(), image.clone(), obstacle.clone());
        async move {
            let topic = image.topic("topic").expect("made").id;
            let shard = start(context, path, 1, image).await;
            let [good, bad] =
                [0, 1].map(|index| TopicPartition { topic, partition: PartitionIndex(index) });
            assert!(shard.find(good).is_some(), "nothing is in its way");
            assert!(shard.find(bad).is_none());
            assert_eq!(shard.absence(bad), failure::Failure::Storage);
            std::fs::remove_file(obstacle).expect("our own file");
            while shard.find(bad).is_none() {
                shard.env().sleep(Duration::from_millis(1)).await;
            }
            shard.close().await.expect("closed");
        }
    });
    shards.expect("starts").join().expect("ends");
}

/// A partition that shard 1 owns.
fn theirs(shard: &Shard<RealEnv>) -> TopicPartition {
    let partition =
        |index| TopicPartition { topic: TopicId::default(), partition: PartitionIndex(index) };
    let found = (0..2).map(partition).find(|one| shard.owner(*one) == ShardId(1));
    found.expect("consecutive partitions go to consecutive shards")
}

fn poll_once(future: impl Future) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    pin!(future).poll(&mut context).is_ready()
}

/// Asks until no more questions find room; each of those asked counts until it is answered.
fn fill_the_queue(shard: &Shard<RealEnv>) -> usize {
    loop {
        let before = shard.inner.asked.borrow().len();
        let asked = shard.call(theirs(shard), Call::Latest, 0);
        assert!(!poll_once(asked), "nobody answers");
        let after = shard.inner.asked.borrow().len();
        if after == before {
            return after;
        }
        assert!(after <= limits::MAILBOX_DEPTH, "the queue is bounded");
    }
}

#[test]
fn a_question_that_never_left_is_forgotten() {
    beside_a_silent_shard(async |shard, _end| {
        let full = fill_the_queue(&shard);
        assert!(full > 0, "some found room");
        for _ in 0..10 {
            let batch =
                Accepted { header: Header::parse(&[0; HEADER_BYTES]), payload: Chain::new() };
            let slot = Join::new(1).slot(0);
            assert!(!poll_once(shard.produce(theirs(&shard), batch, 1, 0, slot)), "no room");
        }
        assert_eq!(shard.inner.asked.borrow().len(), full, "those given up are forgotten");
    });
}

#[test]
fn a_shard_that_asks_one_that_has_ended_stops_and_has_its_answer() {
    beside_a_silent_shard(async |shard, end| {
        let full = fill_the_queue(&shard);
        end.store(true, Ordering::Relaxed);
        let answer = shard.call(theirs(&shard), Call::Latest, 0).await;
        assert_eq!(answer, Err(failure::Failure::NotOwner));
        assert!(shard.is_stopping(), "the process is stopping");
        shard.stopped().await;
        assert!(shard.next_connection().await.is_none(), "no connection is taken");
        assert_eq!(shard.inner.asked.borrow().len(), full, "the last one is forgotten");
    });
}
