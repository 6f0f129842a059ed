//! The files of the metadata: the log, its snapshots, and each data directory's identity and lock.
//!
//! The only file of this module that touches the disk, with blocking calls: it runs on the writer's
//! thread and at start, never on a shard. Knows how files become durable, not what records mean.
//!
//! Invariant: a log file and a snapshot of the same index exist in that order: the new log first,
//! then the snapshot that lets older files go. A failed write is final for the store, a failed
//! flush for all of the file system ([`DiskHealth`]). Want of room is not: what was begun is cut
//! back.

#![expect(
    clippy::disallowed_methods,
    reason = "the one file that flushes metadata; its failure is final there"
)]

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::{
    identity::{self, Identity},
    journal::{self, FileKind, Header, Recovered},
    record::Record,
    state::State,
};
use crate::{
    error::{Error, Kind, Result},
    io::health::DiskHealth,
    limits,
    types::TopicId,
};

/// Directory of the metadata log in the first data directory; no partition's directory can have
/// that name, since those end in a number.
const DIRECTORY: &str = "__cluster_metadata";
const LOCK_FILE: &str = ".lock";
/// Snapshots that are kept: the one in use and the one before it, with the log between them.
const SNAPSHOTS_KEPT: usize = 2;

/// The metadata log, open for appending.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    file: File,
    path: PathBuf,
    salt: u64,
    length: u64,
    next_index: u64,
    /// Length of the log at which a snapshot is made.
    compact_at: u64,
    /// The last frame's seal found no room. Nothing may follow the frame before it.
    owes_seal: bool,
    /// Of the file system it lies on.
    health: DiskHealth,
    failure: Option<Error>,
}

impl Store {
    /// Whether `data_dir` has a metadata log.
    pub fn exists(data_dir: &Path) -> Result<bool> {
        let (logs, snapshots) = list(&data_dir.join(DIRECTORY))?;
        Ok(!logs.is_empty() || !snapshots.is_empty())
    }

    /// Makes an empty log in `data_dir`, on the file system of this health.
    pub fn create(data_dir: &Path, health: &DiskHealth) -> Result<Self> {
        let dir = data_dir.join(DIRECTORY);
        create_dir(&dir, health)?;
        let header = Header { kind: FileKind::Log, index: 0, salt: random_u64()? };
        write_whole(&dir, &file_name(FileKind::Log, 0), &header.start(), health)?;
        Self::open_log(dir, header, header.start().len(), 0, health.clone())
    }

    /// Opens the log in `data_dir` and brings `state`, a new one, up to its end. A torn last write
    /// is cut; anything else that does not check out is `Corrupt`, and the files are left alone.
    pub fn open(data_dir: &Path, health: &DiskHealth, state: &mut State) -> Result<Self> {
        let dir = data_dir.join(DIRECTORY);
        let (logs, snapshots) = list(&dir)?;
        let mut next_index = 0;
        let mut snapshot_bytes = 0;
        if let Some(index) = snapshots.last() {
            let path = dir.join(file_name(FileKind::Snapshot, *index));
            let (recovered, length) = read(&path, FileKind::Snapshot, *index)?;
            refuse_torn(&path, &recovered, length)?;
            state.load(&recovered.records, *index).map_err(|error| about(&path, &error))?;
            next_index = *index;
            snapshot_bytes = length as u64;
        }
        let first = next_index;
        let mut logs = logs.into_iter().filter(|index| *index >= first).peekable();
        if logs.peek() != Some(&next_index) {
            let name = file_name(FileKind::Log, next_index);
            return Err(corrupt(&dir, &format!("{name} is missing")));
        }
        loop {
            let index = logs.next().expect("there is a log, as was just found");
            let path = dir.join(file_name(FileKind::Log, index));
            if index != next_index {
                return Err(corrupt(&path, &format!("starts at {index}, not {next_index}")));
            }
            let (recovered, length) = read(&path, FileKind::Log, index)?;
            for record in &recovered.records {
                state.apply(record).map_err(|error| about(&path, &error))?;
            }
            next_index = recovered.next_index;
            if logs.peek().is_none() {
                let (header, kept_bytes) = (recovered.header, recovered.kept_bytes);
                let mut store =
                    Self::open_log(dir, header, kept_bytes, next_index, health.clone())?;
                store.mend(&recovered, length)?;
                store.compact_at = compact_at(snapshot_bytes);
                return Ok(store);
            }
            refuse_torn(&path, &recovered, length)?;
        }
    }

    fn open_log(
        dir: PathBuf,
        header: Header,
        length: usize,
        next_index: u64,
        health: DiskHealth,
    ) -> Result<Self> {
        let path = dir.join(file_name(FileKind::Log, header.index));
        let file = File::options().read(true).write(true).open(&path);
        Ok(Self {
            file: file.map_err(|error| failed(&path, &error))?,
            dir,
            path,
            salt: header.salt,
            length: length as u64,
            next_index,
            compact_at: compact_at(0),
            owes_seal: false,
            health,
            failure: None,
        })
    }

    /// Cuts a torn end and puts back a missing seal.
    fn mend(&mut self, recovered: &Recovered, length: usize) -> Result<()> {
        if recovered.sealed && length == recovered.kept_bytes {
            return Ok(());
        }
        self.file.set_len(self.length).map_err(|error| failed(&self.path, &error))?;
        if !recovered.sealed {
            self.write_seal()?;
        }
        self.flush()
    }

    /// Makes what was written durable.
    fn flush(&self) -> Result<()> {
        self.health.flush(&self.path.display().to_string(), || self.file.sync_data())
    }

    fn write_seal(&mut self) -> Result<()> {
        let mut bytes = Vec::with_capacity(journal::SEAL_BYTES);
        journal::put_seal(&mut bytes, self.salt, self.length, self.next_index);
        self.put(&bytes)
    }

    /// Writes `bytes` at the end; for want of room nothing of them, which is of kind `Full`.
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        if let Err(error) = self.file.write_all_at(bytes, self.length) {
            let error = failed(&self.path, &error);
            if error.kind() == Kind::Full {
                let cut = self.cut_back();
                cut.map_err(|cut| Error::new(Kind::Fatal, format!("{error}; cutting: {cut}")))?;
            }
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn cut_back(&self) -> io::Result<()> {
        if self.file.metadata()?.len() <= self.length {
            return Ok(());
        }
        self.file.set_len(self.length)
    }

    /// The frame is durable once it is flushed, so want of room for its seal is no failure of it.
    fn append_frame(&mut self, records: &[Record]) -> Result<()> {
        self.pay_seal()?;
        let mut bytes = Vec::new();
        journal::put_frame(&mut bytes, self.next_index, records);
        self.put(&bytes)?;
        self.flush()?;
        self.next_index += records.len() as u64;
        self.owes_seal = true;
        self.pay_seal().or_else(|error| match error.kind() {
            Kind::Full => Ok(()),
            _ => Err(error),
        })
    }

    fn pay_seal(&mut self) -> Result<()> {
        if self.owes_seal {
            self.write_seal()?;
            self.owes_seal = false;
        }
        Ok(())
    }

    /// A new log from here on, then the snapshot that stands for the old ones. Both are written
    /// whole under other names first: as long as that fails for want of room, nothing has changed.
    fn replace(&mut self, state: &State) -> Result<()> {
        let index = self.next_index;
        assert_eq!(state.image().version(), index, "a snapshot holds the log so far");
        let snapshot = snapshot_bytes(state, random_u64()?);
        let header = Header { kind: FileKind::Log, index, salt: random_u64()? };
        let log_name = file_name(FileKind::Log, index);
        let snapshot_name = file_name(FileKind::Snapshot, index);
        let health = &self.health.clone();
        let written = self
            .pay_seal()
            .and_then(|()| write_temporary(&self.dir, &log_name, &header.start(), health))
            .and_then(|()| write_temporary(&self.dir, &snapshot_name, &snapshot, health));
        if let Err(error) = written {
            if error.kind() != Kind::Full {
                return Err(error);
            }
            for name in [&log_name, &snapshot_name] {
                // What is left of them is removed at the next start.
                drop(fs::remove_file(temporary(&self.dir.join(name))));
            }
            self.compact_at = self.length + limits::METADATA_LOG_BYTES;
            return Ok(());
        }
        self.flush()?;
        for name in [&log_name, &snapshot_name] {
            let path = self.dir.join(name);
            fs::rename(temporary(&path), &path).map_err(|error| failed(&path, &error))?;
            sync_dir(&self.dir, &self.health)?;
        }
        let (dir, health) = (self.dir.clone(), self.health.clone());
        let next = Self::open_log(dir, header, header.start().len(), index, health)?;
        *self = Self { compact_at: compact_at(snapshot.len() as u64), ..next };
        self.remove_old()
    }

    /// Removes what no kept snapshot needs.
    fn remove_old(&self) -> Result<()> {
        let (logs, snapshots) = list(&self.dir)?;
        let Some(oldest) = snapshots.len().checked_sub(SNAPSHOTS_KEPT) else { return Ok(()) };
        let first = snapshots[oldest];
        let old = |kind, indexes: Vec<u64>| {
            let gone = indexes.into_iter().filter(move |index| *index < first);
            gone.map(move |index| file_name(kind, index))
        };
        for name in old(FileKind::Snapshot, snapshots).chain(old(FileKind::Log, logs)) {
            let path = self.dir.join(name);
            fs::remove_file(&path).map_err(|error| failed(&path, &error))?;
        }
        Ok(())
    }

    /// Runs `work` unless the store has failed; a failure of it is kept for ever, but for want of
    /// room, which has changed nothing.
    fn once(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let done = work(self);
        self.failure = done.as_ref().err().filter(|error| error.kind() != Kind::Full).cloned();
        done
    }
}

impl super::writer::Journal for Store {
    fn append(&mut self, records: &[Record]) -> Result<()> {
        self.once(|store| store.append_frame(records))
    }

    fn checkpoint(&mut self, state: &State) -> Result<()> {
        if self.length < self.compact_at {
            return Ok(());
        }
        // Want of room that `replace` itself does not allow for came half-way.
        let is_final = |error: Error| Error::new(Kind::Fatal, error.to_string());
        self.once(|store| store.replace(state).map_err(is_final))
    }

    fn finish(&mut self) -> Result<()> {
        self.once(|store| store.flush())
    }
}

fn compact_at(snapshot_bytes: u64) -> u64 {
    // At least as much log as snapshot, so that snapshots cost at most what the log does.
    limits::METADATA_LOG_BYTES.max(snapshot_bytes)
}

fn snapshot_bytes(state: &State, salt: u64) -> Vec<u8> {
    let header = Header { kind: FileKind::Snapshot, index: state.image().version(), salt };
    let mut out = header.start();
    let mut index = 0;
    let mut group = Vec::new();
    let mut group_bytes = 0;
    let mut records = state.snapshot().into_iter().peekable();
    while let Some(record) = records.next() {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        group_bytes += bytes.len();
        group.push(record);
        if group_bytes < limits::METADATA_GROUP_BYTES && records.peek().is_some() {
            continue;
        }
        journal::put_frame(&mut out, index, &group);
        index += group.len() as u64;
        let position = out.len() as u64;
        journal::put_seal(&mut out, salt, position, index);
        group.clear();
        group_bytes = 0;
    }
    out
}

fn read(path: &Path, kind: FileKind, index: u64) -> Result<(Recovered, usize)> {
    let bytes = read_whole(path, limits::METADATA_FILE_BYTES_MAX)?
        .ok_or_else(|| corrupt(path, "is missing"))?;
    let recovered = journal::recover(&bytes).map_err(|reason| corrupt(path, &reason))?;
    if recovered.header.kind != kind || recovered.header.index != index {
        return Err(corrupt(path, "the header does not agree with the file's name"));
    }
    Ok((recovered, bytes.len()))
}

/// A file that was sealed for good cannot have a torn end.
fn refuse_torn(path: &Path, recovered: &Recovered, length: usize) -> Result<()> {
    if recovered.sealed && recovered.kept_bytes == length {
        return Ok(());
    }
    let reason = format!("damaged at byte {}, though it was complete", recovered.kept_bytes);
    Err(corrupt(path, &reason))
}

fn file_name(kind: FileKind, index: u64) -> String {
    match kind {
        FileKind::Log => format!("{index:020}.log"),
        FileKind::Snapshot => format!("{index:020}.snapshot"),
    }
}

/// Indexes of the logs and of the snapshots in `dir`, ascending; none if it does not exist. What
/// a crash left half written is removed.
fn list(dir: &Path) -> Result<(Vec<u64>, Vec<u64>)> {
    let (mut logs, mut snapshots) = (Vec::new(), Vec::new());
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((logs, snapshots)),
        other => other.map_err(|error| failed(dir, &error))?,
    };
    for entry in entries {
        let entry = entry.map_err(|error| failed(dir, &error))?;
        let name = entry.file_name();
        let Some((stem, extension)) = name.to_str().and_then(|name| name.split_once('.')) else {
            continue;
        };
        let index = stem.parse().ok().filter(|_| stem.len() == 20);
        match (index, extension) {
            (Some(index), "log") => logs.push(index),
            (Some(index), "snapshot") => snapshots.push(index),
            (Some(_), "log.tmp" | "snapshot.tmp") => {
                fs::remove_file(entry.path()).map_err(|error| failed(&entry.path(), &error))?;
            }
            _ => {}
        }
    }
    logs.sort_unstable();
    snapshots.sort_unstable();
    Ok((logs, snapshots))
}

/// Whether the partition `name` is in `dir`, or may be: unreadable is not absent.
pub(super) fn may_hold(dir: &Path, name: &str) -> bool {
    dir.join(name).try_exists().unwrap_or(true)
}

/// Holds a data directory for this process; the lock goes with the value or the process.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Makes `dir` if need be and takes its lock; another process that has it is an error.
pub(super) fn lock(dir: &Path, health: &DiskHealth) -> Result<Lock> {
    create_dir(dir, health)?;
    let path = dir.join(LOCK_FILE);
    let file = File::options().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|error| failed(&path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock { _file: file }),
        Err(TryLockError::WouldBlock) => {
            let dir = dir.display();
            let message = format!(
                "another process uses {dir}; stop it, or choose another directory (log.dirs or \
                 --data-dir)"
            );
            Err(Error::new(Kind::Invalid, message))
        }
        Err(TryLockError::Error(error)) => Err(failed(&path, &error)),
    }
}

/// The identity in `dir`, `None` if it has none. A directory of Apache Kafka is an error.
pub(super) fn read_identity(dir: &Path) -> Result<Option<Identity>> {
    let path = dir.join(identity::FILE_NAME);
    if let Some(bytes) = read_whole(&path, identity::FILE_BYTES_MAX)? {
        return Identity::decode(&bytes).map(Some).map_err(|reason| corrupt(&path, &reason));
    }
    if dir.join(identity::KAFKA_FILE_NAME).exists() {
        let message = format!(
            "{} belongs to an Apache Kafka broker; choose another directory (log.dirs or \
             --data-dir)",
            dir.display()
        );
        return Err(Error::new(Kind::Invalid, message));
    }
    Ok(None)
}

/// Gives `dir` its identity, durably.
pub(super) fn write_identity(dir: &Path, identity: &Identity, health: &DiskHealth) -> Result<()> {
    write_whole(dir, identity::FILE_NAME, identity.encode().as_bytes(), health)
}

/// A new random UUID.
pub(super) fn random_uuid() -> Result<[u8; 16]> {
    loop {
        let mut bytes = [0; 16];
        random(&mut bytes)?;
        if let Some(uuid) = identity::uuid(bytes) {
            return Ok(uuid);
        }
    }
}

/// A new topic id.
pub(super) fn random_topic_id() -> Result<TopicId> {
    random_uuid().map(TopicId)
}

fn random_u64() -> Result<u64> {
    let mut bytes = [0; 8];
    random(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn random(bytes: &mut [u8]) -> Result<()> {
    let path = Path::new("/dev/urandom");
    let read = File::open(path).and_then(|mut file| file.read_exact(bytes));
    read.map_err(|error| failed(path, &error))
}

fn read_whole(path: &Path, cap_bytes: u64) -> Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| failed(path, &error))?,
    };
    let mut bytes = Vec::new();
    let read = file.take(cap_bytes.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| failed(path, &error))?;
    if bytes.len() as u64 > cap_bytes {
        return Err(corrupt(path, &format!("longer than {cap_bytes} bytes")));
    }
    Ok(Some(bytes))
}

/// Makes a file so that after a crash it is there whole or not at all.
fn write_whole(dir: &Path, name: &str, bytes: &[u8], health: &DiskHealth) -> Result<()> {
    write_temporary(dir, name, bytes, health)?;
    let path = dir.join(name);
    fs::rename(temporary(&path), &path).map_err(|error| failed(&path, &error))?;
    sync_dir(dir, health)
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

fn write_temporary(dir: &Path, name: &str, bytes: &[u8], health: &DiskHealth) -> Result<()> {
    let path = temporary(&dir.join(name));
    let mut file = File::create(&path).map_err(|error| failed(&path, &error))?;
    file.write_all(bytes).map_err(|error| failed(&path, &error))?;
    health.flush(&path.display().to_string(), || file.sync_all())
}

/// Makes a directory and those above it that are missing, each durably in the one above it: else a
/// power cut could take all that was flushed in it.
fn create_dir(dir: &Path, health: &DiskHealth) -> Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let above = match dir.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    create_dir(above, health)?;
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        other => other.map_err(|error| failed(dir, &error))?,
    }
    sync_dir(above, health)
}

fn sync_dir(dir: &Path, health: &DiskHealth) -> Result<()> {
    let file = File::open(dir).map_err(|error| failed(dir, &error))?;
    health.flush(&dir.display().to_string(), || file.sync_all())
}

fn failed(path: &Path, error: &io::Error) -> Error {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; make it writable for this user, or choose another directory (log.dirs or --data-dir)"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free space and try again",
        _ => "",
    };
    let kind = Error::from_io("", error).kind();
    Error::new(kind, format!("{}: {error}{remedy}", path.display()))
}

fn corrupt(path: &Path, reason: &str) -> Error {
    let message = format!(
        "{}: {reason}; the metadata is left as it is: restore the directory from a copy",
        path.display()
    );
    Error::new(Kind::Corrupt, message)
}

fn about(path: &Path, error: &Error) -> Error {
    Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
