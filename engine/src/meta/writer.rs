//! The one writer of the metadata log, on a thread of its own.
//!
//! Owns the order of things: plan, write and flush, publish the image, answer. Commands that wait
//! together are committed by one flush. A quorum will replace this thread behind [`MetaHandle`].
//!
//! Invariant: an image is published only when its records are durable, and a command is answered
//! only when an image that holds its records is published. But for want of room, a failed write or
//! flush is final: every command from then on is refused, and the images published so far stay as
//! they are.

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use crossbeam::channel::{self, Receiver, Sender, TrySendError};

use super::{
    command::{Command, Outcome, Refusal},
    identity::Identity,
    image::Image,
    record::Record,
    state::{FORMAT_LEVEL, State},
    store::{self, Lock, Store},
};
use crate::{
    config::BrokerConfig,
    error::{Error, Kind, Result},
    io::health::DiskHealth,
    limits,
    types::{NodeId, TopicId, uuid_text},
};

/// How a command's sender learns what became of it. Called once, on the writer's thread (or the
/// sender's, if the command was not taken); it must not block.
pub type Done = Box<dyn FnOnce(std::result::Result<Outcome, Refusal>) + Send>;

/// Takes each new image, in order, on the writer's thread; it must not block.
pub type Publish = Box<dyn Fn(Arc<Image>) + Send>;

/// Node id of a new data directory where `node.id` is not set.
const FIRST_NODE_ID: NodeId = NodeId(1);

/// Where records are kept.
pub(super) trait Journal {
    /// Appends the records; durable when it returns. A failure is final, but for one of kind
    /// `Full`, which has changed nothing.
    fn append(&mut self, records: &[Record]) -> Result<()>;
    /// Puts a snapshot in place of the log if that has grown long. A failure is final.
    fn checkpoint(&mut self, state: &State) -> Result<()>;
    /// Makes everything durable at a clean stop.
    fn finish(&mut self) -> Result<()>;
}

/// A data directory and the id that it keeps for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Where it is.
    pub path: PathBuf,
    /// Kafka's `directory.id`: 22 characters of base64url.
    pub id: String,
}

/// Sends commands to the writer; cheap to clone, from any thread.
#[derive(Clone)]
pub struct MetaHandle {
    sender: Sender<Message>,
    queue: Arc<Queue>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
    directories: Arc<[Directory]>,
}

impl fmt::Debug for MetaHandle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "MetaHandle({} commands wait)", self.sender.len())
    }
}

/// The receiving end, and whether anybody still serves it. The channel itself keeps what was sent
/// to a receiver that is gone, unanswered, so whoever comes last empties it.
struct Queue {
    receiver: Receiver<Message>,
    ended: AtomicBool,
}

impl Queue {
    /// Answers all that waits. A sender looks at `ended` after it has sent, the writer looks at
    /// the queue after it has ended: one of them sees the other.
    fn refuse_all(&self) {
        while self.receiver.try_recv().is_ok() {}
    }
}

/// Ends the queue when the writer's thread does, by return or by panic.
struct End(Arc<Queue>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        self.0.refuse_all();
    }
}

enum Message {
    Submit(Submission),
    Stop,
}

/// A command whose sender waits. Dropped without an answer, it answers that the writer stopped.
struct Submission {
    command: Command,
    done: Option<Done>,
}

impl Submission {
    fn answer(mut self, answer: std::result::Result<Outcome, Refusal>) {
        if let Some(done) = self.done.take() {
            done(answer);
        }
    }
}

impl Drop for Submission {
    fn drop(&mut self) {
        if let Some(done) = self.done.take() {
            done(Err(Refusal::Stopping("This broker is stopping.".to_owned())));
        }
    }
}

impl MetaHandle {
    /// Hands `command` to the writer and returns at once. `done` is called with what became of it,
    /// after the image that shows it was published; with [`Refusal::Busy`] if too many wait.
    pub fn submit(&self, command: Command, done: Done) {
        let submission = Submission { command, done: Some(done) };
        match self.sender.try_send(Message::Submit(submission)) {
            Ok(()) => {}
            Err(TrySendError::Full(Message::Submit(submission))) => {
                let message = "Too many changes of metadata wait; try again.";
                submission.answer(Err(Refusal::Busy(message.to_owned())));
            }
            // Dropping the submission answers it.
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
        if self.queue.ended.load(Ordering::SeqCst) {
            self.queue.refuse_all();
        }
    }

    /// [`MetaHandle::submit`] for a thread that can wait for the answer.
    pub fn call(&self, command: Command) -> std::result::Result<Outcome, Refusal> {
        let (sender, receiver) = channel::bounded(1);
        let done = move |answer| drop(sender.send(answer));
        self.submit(command, Box::new(done));
        receiver.recv().unwrap_or_else(|_| Err(Refusal::Stopping("Stopped.".to_owned())))
    }

    /// The data directories, in the order of `log.dirs`.
    #[must_use]
    pub fn directories(&self) -> &[Directory] {
        &self.directories
    }

    /// Answers the commands that wait, flushes, and ends the thread; returns when it has ended.
    /// Later commands are refused. A second call does nothing.
    pub fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        // Where the queue is full, the writer makes room. Where the thread has ended by itself,
        // nobody reads this, and there is room, since the end emptied the queue.
        drop(self.sender.send(Message::Stop));
        drop(thread.join());
    }
}

/// Opens the data directories of `broker`, recovers the metadata and starts the writer; `health` is
/// that of the first directory's file system, where the metadata log lies. Returns a handle and the
/// image as recovered; `publish` gets those that follow. An error is one line: a directory in use,
/// of another node, or unusable; metadata that does not check out.
pub fn start(
    broker: Arc<BrokerConfig>,
    health: &DiskHealth,
    publish: Publish,
) -> Result<(MetaHandle, Arc<Image>)> {
    let opened = open(broker, health)?;
    let image = Arc::new(opened.state.image().clone());
    let handle = run(opened.state, opened.store, publish, opened.directories, opened.locks)?;
    Ok((handle, image))
}

struct Opened {
    state: State,
    store: Store,
    directories: Vec<Directory>,
    locks: Vec<Lock>,
}

fn open(broker: Arc<BrokerConfig>, health: &DiskHealth) -> Result<Opened> {
    let dirs = broker.log_dirs.clone();
    let locks = dirs.iter().map(|dir| store::lock(dir, health)).collect::<Result<Vec<_>>>()?;
    let found = dirs.iter().map(|dir| store::read_identity(dir)).collect::<Result<Vec<_>>>()?;
    let first = dirs.first().expect("the configuration has a directory");
    let wanted = broker.node_id;
    let mut state = State::new(broker);
    let mut store = match Store::exists(first)? {
        true => Store::open(first, health, &mut state)?,
        false => {
            refuse_lost_log(&dirs, &found)?;
            Store::create(first, health)?
        }
    };
    if state.image().version() == 0 {
        refuse_lost_log(&dirs, &found)?;
        format(&mut state, &mut store, wanted)?;
    }
    refuse_lost_directory(state.image(), &dirs, &found)?;
    let directories = identify(state.image(), wanted, &dirs, found, health)?;
    Ok(Opened { state, store, directories, locks })
}

/// A directory is marked once the metadata log holds the node's identity, so a mark without a log
/// means that the log is lost or elsewhere; a new one would give the data's topics other ids.
fn refuse_lost_log(dirs: &[PathBuf], found: &[Option<Identity>]) -> Result<()> {
    let Some(at) = found.iter().position(Option::is_some) else { return Ok(()) };
    let message = format!(
        "{} belongs to a node, but there is no metadata log in {}; name the directory that has it \
         first in log.dirs, or restore it from a copy",
        dirs[at].display(),
        dirs[0].display()
    );
    Err(Error::new(Kind::Invalid, message))
}

/// A directory without a mark is a new one, or stands where one was lost: a disk that is not
/// mounted leaves an empty mount point. Partitions that are nowhere else would begin anew, and what
/// was acknowledged would be gone.
fn refuse_lost_directory(
    image: &Image,
    dirs: &[PathBuf],
    found: &[Option<Identity>],
) -> Result<()> {
    let Some(at) = found.iter().position(Option::is_none) else { return Ok(()) };
    let names = image.topics().flat_map(|topic| {
        (0..topic.partitions.len()).map(|index| format!("{}-{index}", topic.name))
    });
    let is_lost = |name: &String| !dirs.iter().any(|dir| store::may_hold(dir, name));
    let mut lost = names.filter(is_lost);
    let Some(first) = lost.next() else { return Ok(()) };
    let message = format!(
        "{} is new to this node, and {} partitions, {first} among them, are in no directory of \
         log.dirs; mount or restore what was there, or take it out of log.dirs for one start, \
         which begins them anew, empty",
        dirs[at].display(),
        lost.count() + 1,
    );
    Err(Error::new(Kind::Invalid, message))
}

/// The first records of a new cluster.
fn format(state: &mut State, store: &mut Store, node: Option<NodeId>) -> Result<()> {
    let records = [
        Record::FormatLevel(FORMAT_LEVEL),
        Record::Identity {
            cluster_id: uuid_text(&store::random_uuid()?),
            node_id: node.unwrap_or(FIRST_NODE_ID),
        },
    ];
    store.append(&records)?;
    records.iter().try_for_each(|record| state.apply(record))
}

/// Checks that all directories are of this node, and marks those that are new.
fn identify(
    image: &Image,
    wanted: Option<NodeId>,
    dirs: &[PathBuf],
    found: Vec<Option<Identity>>,
    health: &DiskHealth,
) -> Result<Vec<Directory>> {
    let (cluster_id, node_id) = (image.cluster_id(), image.node_id());
    let refuse = |message| Err(Error::new(Kind::Invalid, message));
    if let Some(wanted) = wanted.filter(|wanted| *wanted != node_id) {
        return refuse(format!(
            "node.id is {}, but {} belongs to node {}; set node.id={} or choose another directory",
            wanted.0,
            dirs[0].display(),
            node_id.0,
            node_id.0
        ));
    }
    let mut directories: Vec<Directory> = Vec::new();
    for (path, identity) in dirs.iter().zip(found) {
        let identity = match identity {
            Some(identity) => identity,
            None => {
                let directory_id = uuid_text(&store::random_uuid()?);
                let cluster_id = cluster_id.to_owned();
                let identity = Identity { cluster_id, node_id, directory_id };
                store::write_identity(path, &identity, health)?;
                identity
            }
        };
        if identity.cluster_id != cluster_id || identity.node_id != node_id {
            return refuse(format!(
                "{} belongs to node {} of cluster {}, but the metadata log to node {} of cluster \
                 {cluster_id}; take it out of log.dirs",
                path.display(),
                identity.node_id.0,
                identity.cluster_id,
                node_id.0
            ));
        }
        let id = identity.directory_id;
        if let Some(other) = directories.iter().find(|other| other.id == id) {
            return refuse(format!(
                "{} is a copy of {}; take one of them out of log.dirs",
                path.display(),
                other.path.display()
            ));
        }
        directories.push(Directory { path: path.clone(), id });
    }
    Ok(directories)
}

/// Starts the thread. `held` lives as long as it does.
pub(super) fn run<J: Journal + Send + 'static, H: Send + 'static>(
    state: State,
    journal: J,
    publish: Publish,
    directories: Vec<Directory>,
    held: H,
) -> Result<MetaHandle> {
    let (sender, receiver) = channel::bounded(limits::METADATA_COMMANDS_QUEUED);
    let writer = Writer { state, journal, publish, failure: None };
    let queue = Arc::new(Queue { receiver, ended: AtomicBool::new(false) });
    let end = End(queue.clone());
    let thread = thread::Builder::new().name("metadata".to_owned()).spawn(move || {
        writer.serve(&end.0.receiver);
        drop(held);
        drop(end);
    });
    let thread = thread.map_err(|error| Error::from_io("starting the metadata thread", &error))?;
    Ok(MetaHandle {
        sender,
        queue,
        thread: Arc::new(Mutex::new(Some(thread))),
        directories: directories.into(),
    })
}

struct Writer<J> {
    state: State,
    journal: J,
    publish: Publish,
    failure: Option<Refusal>,
}

/// Commands that one flush commits.
struct Group {
    after: State,
    records: Vec<Record>,
    record_bytes: usize,
    answers: Vec<(Submission, std::result::Result<Outcome, Refusal>)>,
}

impl<J: Journal> Writer<J> {
    fn serve(mut self, receiver: &Receiver<Message>) {
        while let Ok(Message::Submit(first)) = receiver.recv() {
            let mut group = Group::new(self.state.clone());
            let mut stop = false;
            let mut next = Some(first);
            while let Some(submission) = next.take() {
                self.plan(&mut group, submission);
                if group.is_full() {
                    break;
                }
                match receiver.try_recv() {
                    Ok(Message::Submit(submission)) => next = Some(submission),
                    Ok(Message::Stop) => stop = true,
                    Err(_) => {}
                }
            }
            self.commit(group);
            if stop {
                break;
            }
        }
        // Nothing can be done about a failure now, and recovery copes with what is there.
        drop(self.journal.finish());
    }

    fn plan(&self, group: &mut Group, submission: Submission) {
        assert!(!group.is_full(), "a full group is committed first");
        let answer = match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => group.execute(&submission.command),
        };
        group.answers.push((submission, answer));
    }

    fn commit(&mut self, group: Group) {
        let Group { after, records, answers, .. } = group;
        if !records.is_empty() {
            if let Err(error) = self.journal.append(&records) {
                let failure = match error.kind() {
                    Kind::Full => refusal_of(&error),
                    _ => self.fail(&error),
                };
                for (submission, _) in answers {
                    submission.answer(Err(failure.clone()));
                }
                return;
            }
            assert!(self.failure.is_none(), "nothing is written after a failure");
            let (old, new) = (self.state.image().version(), after.image().version());
            assert_eq!(new, old + records.len() as u64, "each record counts once");
            self.state = after;
            (self.publish)(Arc::new(self.state.image().clone()));
        }
        for (submission, answer) in answers {
            submission.answer(answer);
        }
        if let Err(error) = self.journal.checkpoint(&self.state) {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &Error) -> Refusal {
        let refusal = refusal_of(error);
        self.failure = Some(refusal.clone());
        refusal
    }
}

fn refusal_of(error: &Error) -> Refusal {
    Refusal::Failed(format!("The metadata log cannot be written: {error}"))
}

impl Group {
    fn new(after: State) -> Self {
        Self { after, records: Vec::new(), record_bytes: 0, answers: Vec::new() }
    }

    /// Whether those that wait for it have waited for enough.
    fn is_full(&self) -> bool {
        self.record_bytes >= limits::METADATA_GROUP_BYTES
            || self.answers.len() >= limits::METADATA_COMMANDS_QUEUED
    }

    fn execute(&mut self, command: &Command) -> std::result::Result<Outcome, Refusal> {
        let new_id = self.new_topic_id()?;
        let (records, outcome) = self.after.execute(command, new_id)?;
        for record in &records {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            self.record_bytes += bytes.len();
        }
        self.records.extend(records);
        assert!(self.record_bytes >= self.records.len(), "no record is empty");
        Ok(outcome)
    }

    fn new_topic_id(&self) -> std::result::Result<TopicId, Refusal> {
        loop {
            let id =
                store::random_topic_id().map_err(|error| Refusal::Failed(error.to_string()))?;
            if self.after.image().topic_by_id(id).is_none() {
                return Ok(id);
            }
        }
    }
}

#[cfg(test)]
mod tests;
