//! What one log keeps in memory, shared between its handle and its tasks on the same shard.
//!
//! Invariant: no borrow of the state lives across an await, and none while a callback of the owner
//! runs. The first failure stays; appends are refused from then on, reads go on.

use std::{cell::RefCell, collections::VecDeque, path::PathBuf, rc::Rc};

use super::{
    epochs::Epochs, event::Event, marks::Marks, producers::Producers, segment::Segment,
    settings::Settings, tail::Tail, volume::Volume,
};
use crate::{
    error::{Error, Kind},
    io::{Disk, Env, buf::Pool},
    limits::PREPARE_STEP_MIN_BYTES,
    types::Offset,
};

/// The file type of an environment's disk.
pub(super) type FileOf<E> = <<E as Env>::Disk as Disk>::File;

/// What is told of each move of the marks.
pub(super) type OnAdvance = Rc<dyn Fn(&Marks)>;

/// One log: what its handle and its tasks share.
pub(super) struct Shared<E: Env> {
    pub(super) env: E,
    pub(super) volume: Volume<E>,
    pub(super) pool: Pool,
    pub(super) dir: PathBuf,
    pub(super) state: RefCell<State<E>>,
    pub(super) on_advance: RefCell<Option<OnAdvance>>,
    /// Something that a task of this log may wait for has changed.
    pub(super) changed: Event,
}

/// The changing part.
pub(super) struct State<E: Env> {
    pub(super) settings: Rc<Settings>,
    pub(super) marks: Marks,
    pub(super) failure: Option<Error>,
    /// Short of room or descriptors for the next write: appends are refused until it has them.
    pub(super) shortage: Option<Error>,
    /// A task looks regularly whether the shortage is over.
    pub(super) awaits_room: bool,
    /// The next seal waits for room.
    pub(super) seal_waits: bool,
    /// Refuses appends because the log is closing, read-only or being deleted.
    pub(super) closed: Option<Error>,
    /// Recovery has found damage: no file of the log is changed or removed, by anybody.
    pub(super) damaged: bool,
    /// Oldest first, never empty; the last one takes the appends.
    pub(super) segments: VecDeque<Segment<FileOf<E>>>,
    pub(super) tail: Tail,
    pub(super) producers: Producers,
    pub(super) epochs: Epochs,
    /// The cache has entries that its file has not.
    pub(super) epochs_changed: bool,
    /// Virtual position up to which writes have completed and been seen.
    pub(super) written: u64,
    /// Offset that belongs to `written`.
    pub(super) written_end: Offset,
    /// Offset behind the write submitted last.
    pub(super) submitted_end: Offset,
    /// What the flush in flight covers.
    pub(super) flush_target: Offset,
    /// Virtual position that the last durable-end record was written at.
    pub(super) recorded: u64,
    /// Gaps between the offsets of batches are legal below this one.
    pub(super) dense_from: Offset,
    /// Flushes of the volume when the last durable-end record was written without a sync.
    pub(super) noted_at_flush: Option<u64>,
    /// The durable-end file, while the log is busy.
    pub(super) record_file: Option<Rc<FileOf<E>>>,
    /// A durable-end record is being written.
    pub(super) recording: bool,
    /// Sequence number of the last one.
    pub(super) checkpoint_sequence: u64,
    /// The log was deleted: its directory's name may be another log's.
    pub(super) deleted: bool,
    /// Tasks that act on files by their names, beside those that have a flag of their own.
    pub(super) naming: usize,
    pub(super) writing: bool,
    pub(super) flush_timer: bool,
    /// The segment that zeros are being written into.
    pub(super) preparing: Option<Offset>,
    pub(super) prepare_step_bytes: u64,
    pub(super) prepared_at_ms: i64,
    pub(super) sealing: bool,
    /// Stands in the volume's list of logs to flush.
    pub(super) awaits_flush: bool,
    /// Stands in the volume's list of logs to look after.
    pub(super) cared_for: bool,
    pub(super) last_append_ms: i64,
}

impl<E: Env> State<E> {
    /// The state of a log whose last segment is empty or resumed with `tail`.
    pub(super) fn new(
        settings: Rc<Settings>,
        marks: Marks,
        segments: VecDeque<Segment<FileOf<E>>>,
        tail: Tail,
    ) -> Self {
        assert!(!segments.is_empty(), "a log has a segment to append to");
        let chained = segments.iter().is_sorted_by(|earlier, later| earlier.end <= later.base);
        assert!(chained, "segments follow one another");
        Self {
            settings,
            marks,
            failure: None,
            shortage: None,
            awaits_room: false,
            seal_waits: false,
            closed: None,
            damaged: false,
            segments,
            written: tail.end(),
            recorded: tail.end(),
            tail,
            producers: Producers::default(),
            epochs: Epochs::default(),
            epochs_changed: false,
            written_end: marks.log_end(),
            submitted_end: marks.log_end(),
            flush_target: marks.log_end(),
            dense_from: Offset(0),
            noted_at_flush: None,
            record_file: None,
            recording: false,
            checkpoint_sequence: 0,
            deleted: false,
            naming: 0,
            writing: false,
            flush_timer: false,
            preparing: None,
            prepare_step_bytes: PREPARE_STEP_MIN_BYTES,
            prepared_at_ms: i64::MIN / 2,
            sealing: false,
            awaits_flush: false,
            cared_for: false,
            last_append_ms: 0,
        }
    }

    /// The segment that takes the appends.
    pub(super) fn active(&mut self) -> &mut Segment<FileOf<E>> {
        self.segments.back_mut().expect("a log has a segment to append to")
    }

    /// The segment with this base offset, if it is still there.
    pub(super) fn segment(&mut self, base: Offset) -> Option<&mut Segment<FileOf<E>>> {
        let at = self.segments.partition_point(|segment| segment.base < base);
        self.segments.get_mut(at).filter(|segment| segment.base == base)
    }

    /// Bytes appended but not with the device yet.
    pub(super) fn unwritten_bytes(&self) -> u64 {
        self.tail.end() - self.written
    }

    /// Bytes of a segment that are with the device.
    pub(super) fn written_size(&self, segment: &Segment<FileOf<E>>) -> u64 {
        self.written.saturating_sub(segment.origin).min(segment.size)
    }

    /// Whether the device has bytes that no flush has covered yet.
    pub(super) fn has_unflushed(&self) -> bool {
        self.written_end > self.marks.durable_end()
    }

    /// Gives all memory and files back; the log is gone.
    pub(super) fn release(&mut self) {
        self.tail = Tail::new(self.tail.end());
        self.segments.truncate(1);
        let segment = self.active();
        segment.file = None;
        segment.cached = None;
        self.record_file = None;
    }

    /// Whether the tasks of the log must stop where they are.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }
}

/// Held by a task that acts on the log's files by their names: a deletion waits for it.
pub(super) struct Naming<E: Env>(Rc<Shared<E>>);

impl<E: Env> Naming<E> {
    /// `None` once the log is deleted: the names may be another log's.
    pub(super) fn begin(shared: &Rc<Shared<E>>) -> Option<Self> {
        let mut state = shared.state.borrow_mut();
        if state.deleted {
            return None;
        }
        state.naming += 1;
        drop(state);
        Some(Self(shared.clone()))
    }
}

impl<E: Env> Drop for Naming<E> {
    fn drop(&mut self) {
        let mut state = self.0.state.borrow_mut();
        assert!(state.naming > 0, "each task that began ends once");
        state.naming -= 1;
        drop(state);
        self.0.changed.notify();
    }
}

impl<E: Env> Shared<E> {
    /// The disk of this log.
    pub(super) fn disk(&self) -> &E::Disk {
        self.volume.disk()
    }

    /// Ends appends for good with `error`; only the first failure counts.
    pub(super) fn fail(&self, error: Error) {
        let marks = {
            let mut state = self.state.borrow_mut();
            if state.failure.is_some() {
                return;
            }
            state.failure = Some(error);
            state.marks
        };
        self.changed.notify();
        self.tell(&marks);
    }

    /// Fails with what an I/O call on `what` answered.
    pub(super) fn fail_io(&self, what: &str, error: &std::io::Error) {
        let path = self.dir.display();
        let cause = Error::from_io(what, error);
        let text = format!("{path}: {cause}; the partition refuses writes until a restart");
        let kind = if cause.kind() == Kind::Full { Kind::Full } else { Kind::Fatal };
        self.fail(Error::new(kind, text));
    }

    /// Calls the owner's callback. No borrow of the state may be held.
    pub(super) fn tell(&self, marks: &Marks) {
        let callback = self.on_advance.borrow().clone();
        if let Some(callback) = callback {
            callback(marks);
        }
    }

    /// The failure of this log or of its disk, or what it is short of now.
    pub(super) fn failure(&self) -> Option<Error> {
        let state = self.state.borrow();
        let lasting = state.failure.clone().or_else(|| self.volume.health().failure());
        lasting.or_else(|| state.shortage.clone())
    }
}
