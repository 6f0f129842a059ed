//! Order of flush, image and answer; groups; failure; and whose directory it is.

use std::{fs, path::Path, sync::atomic::AtomicU64};

use super::*;
use crate::{
    config::{Flag, Sources},
    meta::{NewTopic, TopicRef},
};

fn broker(settings: &[(&str, &str)]) -> Arc<BrokerConfig> {
    let flag = |(name, value): &(&str, &str)| Flag {
        flag: format!("--{name}"),
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    let flags = settings.iter().map(flag).collect();
    Arc::new(BrokerConfig::load(&Sources { flags, ..Sources::default() }).expect("valid"))
}

fn on(dirs: &[&Path]) -> Arc<BrokerConfig> {
    broker(&[("log.dirs", &names(dirs))])
}

fn names(dirs: &[&Path]) -> String {
    let dirs: Vec<_> = dirs.iter().map(|dir| dir.to_str().expect("text")).collect();
    dirs.join(",")
}

fn silent() -> Publish {
    Box::new(|_| {})
}

fn create(name: &str) -> Command {
    Command::CreateTopic(NewTopic::with_defaults(name))
}

/// A journal whose appends wait for leave, fail on demand, and are counted.
struct Fake {
    appended: Arc<AtomicU64>,
    leave: Receiver<Result<()>>,
}

impl Journal for Fake {
    fn append(&mut self, records: &[Record]) -> Result<()> {
        self.leave.recv().expect("the test gives leave")?;
        self.appended.fetch_add(records.len() as u64, Ordering::SeqCst);
        Ok(())
    }

    fn checkpoint(&mut self, _: &State) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

struct Rig {
    handle: MetaHandle,
    leave: Sender<Result<()>>,
    images: Receiver<Arc<Image>>,
    answers: Receiver<(usize, std::result::Result<Outcome, Refusal>)>,
    answered: Sender<(usize, std::result::Result<Outcome, Refusal>)>,
    appended: Arc<AtomicU64>,
}

fn rig() -> Rig {
    let (leave, leave_receiver) = channel::unbounded();
    let (publish, images) = channel::unbounded();
    let (answered, answers) = channel::unbounded();
    let appended = Arc::new(AtomicU64::new(0));
    let journal = Fake { appended: appended.clone(), leave: leave_receiver };
    let seen = appended.clone();
    let publish: Publish = Box::new(move |image| {
        assert_eq!(image.version(), seen.load(Ordering::SeqCst), "published once durable");
        drop(publish.send(image));
    });
    let state = State::new(broker(&[]));
    let handle = run(state, journal, publish, Vec::new(), ()).expect("starts");
    Rig { handle, leave, images, answers, answered, appended }
}

impl Rig {
    fn submit(&self, number: usize, command: Command) {
        let answered = self.answered.clone();
        let done = move |answer| drop(answered.send((number, answer)));
        self.handle.submit(command, Box::new(done));
    }
}

#[test]
fn commands_that_wait_share_a_flush_and_are_answered_in_order() {
    let rig = rig();
    rig.submit(0, create("first"));
    while !rig.handle.queue.receiver.is_empty() {
        thread::yield_now();
    }
    for number in 1..=100 {
        rig.submit(number, create(&format!("topic-{number}")));
    }
    rig.submit(101, create("topic-1"));
    assert!(rig.answers.is_empty() && rig.images.is_empty(), "nothing before the flush");
    rig.leave.send(Ok(())).expect("runs");
    rig.leave.send(Ok(())).expect("runs");
    rig.handle.stop();
    let versions: Vec<_> = rig.images.try_iter().map(|image| image.version()).collect();
    // The first command may or may not have waited for a second one before its flush.
    assert!(versions.len() <= 2 && versions.last() == Some(&101), "{versions:?}");
    let answers: Vec<_> = rig.answers.try_iter().collect();
    assert!(answers.iter().map(|(number, _)| *number).eq(0..=101));
    assert!(answers[..101].iter().all(|(_, answer)| answer.is_ok()));
    assert!(matches!(answers[101].1, Err(Refusal::TopicExists(_))));
    assert_eq!(rig.appended.load(Ordering::SeqCst), 101);
}

#[test]
fn a_failed_flush_refuses_everything_from_then_on() {
    let rig = rig();
    rig.leave.send(Ok(())).expect("runs");
    rig.submit(0, create("kept"));
    assert!(rig.answers.recv().expect("answered").1.is_ok());
    rig.leave.send(Err(Error::new(Kind::Fatal, "disk gone"))).expect("runs");
    rig.submit(1, create("lost"));
    rig.submit(2, create("kept"));
    rig.submit(3, Command::DeleteTopic(TopicRef::Name("kept".to_owned())));
    for number in 1..=3 {
        let (at, answer) = rig.answers.recv().expect("answered");
        let refusal = answer.expect_err("refused");
        assert_eq!(at, number);
        assert!(
            matches!(&refusal, Refusal::Failed(line) if line.contains("disk gone")),
            "{refusal}"
        );
    }
    assert_eq!(rig.images.try_iter().count(), 1, "no image shows what was not kept");
    rig.handle.stop();
}

#[test]
fn want_of_room_refuses_what_met_it_and_no_more() {
    let rig = rig();
    rig.leave.send(Err(Error::new(Kind::Full, "no room"))).expect("runs");
    rig.submit(0, create("topic"));
    let refusal = rig.answers.recv().expect("answered").1.expect_err("refused");
    assert!(matches!(&refusal, Refusal::Failed(line) if line.contains("no room")), "{refusal}");
    rig.leave.send(Ok(())).expect("runs");
    rig.submit(1, create("topic"));
    assert!(rig.answers.recv().expect("answered").1.is_ok(), "there is room again");
    rig.handle.stop();
    let versions: Vec<_> = rig.images.try_iter().map(|image| image.version()).collect();
    assert_eq!(versions, [1]);
}

#[test]
fn a_full_queue_and_a_stop_are_answered() {
    let rig = rig();
    // The writer may have taken as many into its group as wait behind it.
    let extra = limits::METADATA_COMMANDS_QUEUED + 10;
    let sent = limits::METADATA_COMMANDS_QUEUED + extra;
    rig.submit(0, create("topic-0"));
    while !rig.handle.queue.receiver.is_empty() {
        thread::yield_now();
    }
    for number in 1..sent {
        rig.submit(number, create(&format!("topic-{number}")));
    }
    let busy: Vec<_> = rig.answers.try_iter().collect();
    assert!(!busy.is_empty() && busy.len() <= extra);
    assert!(busy.iter().all(|(_, answer)| matches!(answer, Err(Refusal::Busy(_)))));
    for _ in 0..4 {
        rig.leave.send(Ok(())).expect("runs");
    }
    rig.handle.stop();
    assert_eq!(rig.answers.try_iter().count() + busy.len(), sent, "each is answered once");
    rig.submit(sent, create("late"));
    assert!(matches!(rig.answers.recv().expect("answered").1, Err(Refusal::Stopping(_))));
}

#[test]
fn a_stop_answers_what_was_sent_behind_it() {
    let rig = rig();
    rig.handle.sender.send(Message::Stop).expect("runs");
    rig.submit(1, create("late"));
    assert!(matches!(rig.answers.recv().expect("answered").1, Err(Refusal::Stopping(_))));
    rig.handle.stop();
}

fn refused(broker: Arc<BrokerConfig>) -> String {
    let line = start(broker, &DiskHealth::new(), silent()).expect_err("refused").to_string();
    assert!(!line.contains('\n'));
    line
}

#[test]
fn directories_of_another_node_are_refused_in_one_line() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = |name: &str| temp.path().join(name);
    let (a, b, c) = (path("a"), path("b"), path("c"));
    let (handle, image) = start(on(&[&a, &b]), &DiskHealth::new(), silent()).expect("starts");
    let ids: Vec<_> = handle.directories().iter().map(|dir| dir.id.clone()).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1]);
    assert!(refused(on(&[&b])).contains("another process uses"));
    handle.stop();
    drop(handle);

    let node = broker(&[("log.dirs", &names(&[&a, &b])), ("node.id", "7")]);
    assert!(refused(node).starts_with("node.id is 7, but "));
    let line = refused(on(&[&b, &a]));
    assert!(line.contains("there is no metadata log in"), "{line}");
    assert!(!b.join("__cluster_metadata").exists(), "the look for it made none");
    let (handle, again) =
        start(on(&[&a, &b, &c]), &DiskHealth::new(), silent()).expect("a new directory joins");
    assert_eq!(again.cluster_id(), image.cluster_id());
    assert!(handle.directories()[..2].iter().map(|dir| &dir.id).eq(&ids));
    handle.stop();

    start(on(&[&path("other")]), &DiskHealth::new(), silent()).expect("another cluster").0.stop();
    fs::copy(path("other").join("millrace.meta"), b.join("millrace.meta")).expect("copied");
    assert!(refused(on(&[&a, &b])).contains("take it out of log.dirs"));
    fs::copy(a.join("millrace.meta"), b.join("millrace.meta")).expect("copied");
    assert!(refused(on(&[&a, &b])).contains("is a copy of"));
    fs::write(b.join("millrace.meta"), "millrace-meta 1 12345678\n").expect("written");
    assert!(refused(on(&[&a, &b])).contains("wrong checksum"));
}

#[test]
fn a_directory_of_kafka_or_without_its_log_is_refused() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path().join("a");
    fs::create_dir(&dir).expect("made");
    fs::write(dir.join("meta.properties"), "version=1\n").expect("written");
    assert!(refused(on(&[&dir])).contains("belongs to an Apache Kafka broker"));
    fs::remove_file(dir.join("meta.properties")).expect("removed");
    start(on(&[&dir]), &DiskHealth::new(), silent()).expect("starts").0.stop();
    fs::remove_dir_all(dir.join("__cluster_metadata")).expect("removed");
    assert!(refused(on(&[&dir])).contains("there is no metadata log"));
    let file = temp.path().join("file");
    fs::write(&file, "").expect("written");
    refused(on(&[&file]));
}

#[test]
fn a_node_id_given_first_stays() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = names(&[temp.path()]);
    let given = broker(&[("log.dirs", &dir), ("node.id", "42")]);
    let (handle, image) = start(given, &DiskHealth::new(), silent()).expect("starts");
    assert_eq!(image.node_id(), NodeId(42));
    handle.stop();
    drop(handle);
    let (handle, image) =
        start(broker(&[("log.dirs", &dir)]), &DiskHealth::new(), silent()).expect("starts");
    assert_eq!(image.node_id(), NodeId(42));
    handle.stop();
}
