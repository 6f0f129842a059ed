//! A disk in memory that behaves as badly as a real one may.
//!
//! | fault | where | why a correct log survives it |
//! |---|---|---|
//! | operations complete in any order | every call | one write in flight per file; order by await |
//! | a flush covers only writes seen complete before it | `flush`, `sync` | acknowledges no more |
//! | a device flush covers only overwrites of initialised extents | `flush` | prepares space |
//! | power cut: an uncovered 512-byte sector stays, goes or tears | crash | chain and CRC cut |
//! | a length, a created name or a rename that was not synced is lost | crash | synced before use |
//! | an operation in flight at the cut happened or not | crash | nothing was answered |
//! | EIO or ENOSPC at a chosen operation | [`FakeDisk::fail`] | sticky failure, no second flush |
//!
//! Not modelled: bit rot (tests flip bytes themselves, [`FakeDisk::edit`]) and lying flushes.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap},
    future::poll_fn,
    io,
    path::{Path, PathBuf},
    rc::Rc,
    task::{Poll, Waker},
};

use super::{
    executor::World,
    file::FakeFile,
    inode::{Inode, Survival},
    random::Random,
};
use crate::{
    io::{Disk, FlushScope, OpenMode, buf::Pool},
    limits::FILE_NAME_BYTES_MAX,
};

/// Kinds of operation that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPoint {
    /// `DiskFile::write_at`.
    Write,
    /// `DiskFile::write_zeros`.
    Zeros,
    /// `DiskFile::read_at`.
    Read,
    /// `DiskFile::sync`.
    Sync,
    /// `Disk::flush`.
    Flush,
    /// `Disk::read_file`.
    ReadFile,
    /// Everything else: names, directories, lengths, small files that are written.
    Other,
}

/// Result of an operation and who waits for it.
type Slot<T> = (Option<io::Result<T>>, Option<Waker>);

/// A change of the namespace that no directory sync covers yet.
enum NameChange {
    Link(PathBuf, u64),
    Unlink(PathBuf),
    Rename(PathBuf, PathBuf),
}

#[derive(Default)]
pub(super) struct DiskState {
    pub(super) inodes: HashMap<u64, Inode>,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    directories: BTreeSet<PathBuf>,
    name_changes: Vec<NameChange>,
    next_id: u64,
    fault: Option<(FaultPoint, usize, i32)>,
    /// Flushes begun, and those begun after one failed.
    flushes: u64,
    failed_flushes: u64,
    /// Reads of open files begun.
    pub(super) reads: u64,
    /// Cloned into each open file.
    descriptor: Rc<()>,
    /// Most files that were open at once; clones of one, which share its descriptor, count too.
    open_files_peak: usize,
    /// Where reads take their buffers; without, from outside any pool.
    pub(super) pool: Option<Pool>,
}

impl DiskState {
    pub(super) fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn inject(&mut self, point: FaultPoint) -> io::Result<()> {
        match &mut self.fault {
            Some((at, left, errno)) if *at == point => {
                if *left > 0 {
                    *left -= 1;
                    return Ok(());
                }
                let errno = *errno;
                self.fault = None;
                Err(io::Error::from_raw_os_error(errno))
            }
            _ => Ok(()),
        }
    }

    fn sync_names(&mut self, dir: &Path) {
        let changes = std::mem::take(&mut self.name_changes);
        for change in changes {
            if change.directory() == Some(dir) {
                change.apply(&mut self.durable_names);
            } else {
                self.name_changes.push(change);
            }
        }
    }

    fn change_name(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.name_changes.push(change);
    }

    fn missing(path: &Path) -> io::Error {
        io::Error::new(io::ErrorKind::NotFound, path.display().to_string())
    }

    fn entries(&self, dir: &Path) -> Vec<String> {
        let files = self.names.keys();
        let all = files.chain(&self.directories).filter(|path| path.parent() == Some(dir));
        let names: BTreeSet<String> =
            all.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
        names.into_iter().collect()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        if to.file_name().is_some_and(|name| name.len() > FILE_NAME_BYTES_MAX) {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        if self.names.contains_key(from) {
            self.change_name(NameChange::Rename(from.to_owned(), to.to_owned()));
            return Ok(());
        }
        if !self.directories.remove(from) {
            return Err(Self::missing(from));
        }
        self.directories.insert(to.to_owned());
        for names in [&mut self.names, &mut self.durable_names] {
            let inside: Vec<PathBuf> =
                names.keys().filter(|path| path.parent() == Some(from)).cloned().collect();
            for path in inside {
                let moved = path.file_name().map(|name| to.join(name));
                let inode = names.remove(&path);
                names.extend(moved.zip(inode));
            }
        }
        Ok(())
    }

    /// Replaces a file as if by rename and directory sync.
    fn put(&mut self, path: &Path, bytes: &[u8]) {
        let id = self.fresh_id();
        self.inodes.insert(id, Inode::of_durable(bytes));
        // Undurable changes of its name are overtaken.
        self.name_changes.retain(|change| match change {
            NameChange::Link(name, _) | NameChange::Unlink(name) => name != path,
            NameChange::Rename(..) => true,
        });
        self.names.insert(path.to_owned(), id);
        self.durable_names.insert(path.to_owned(), id);
    }

    fn restart(&mut self) {
        self.fault = None;
        self.failed_flushes = 0;
    }

    fn crash(&mut self, random: &mut Random) {
        let keep = [0, 30, 50, 90, 100][random.below(5)];
        let survival = Survival { keep, tear: [0, 20][random.below(2)] };
        let kept_names = random.below(self.name_changes.len() + 1);
        for change in self.name_changes.drain(..).take(kept_names) {
            change.apply(&mut self.durable_names);
        }
        self.names = self.durable_names.clone();
        let reachable: BTreeSet<u64> = self.names.values().copied().collect();
        self.inodes.retain(|id, _| reachable.contains(id));
        let ids: BTreeSet<u64> = self.inodes.keys().copied().collect();
        for id in ids {
            if let Some(inode) = self.inodes.get_mut(&id) {
                inode.crash(random, survival);
            }
        }
        self.restart();
    }
}

impl NameChange {
    fn directory(&self) -> Option<&Path> {
        match self {
            Self::Link(path, _) | Self::Unlink(path) | Self::Rename(path, _) => path.parent(),
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Link(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            Self::Unlink(path) => {
                names.remove(path);
            }
            Self::Rename(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
        }
    }
}

/// The disk of a [`super::Sim`]; clones are the same disk.
#[derive(Clone)]
pub struct FakeDisk {
    world: Rc<World>,
    pub(super) state: Rc<RefCell<DiskState>>,
    scope: FlushScope,
}

impl FakeDisk {
    pub(super) fn new(world: Rc<World>, seed: u64) -> Self {
        // One world in eight has a disk whose flush covers single files only.
        let scope = if seed % 8 == 7 { FlushScope::File } else { FlushScope::Disk };
        Self { world, state: Rc::default(), scope }
    }

    pub(super) fn after_crash(&self, world: Rc<World>, random: &mut Random) -> Self {
        let mut state = std::mem::take(&mut *self.state.borrow_mut());
        state.crash(random);
        Self { world, state: Rc::new(RefCell::new(state)), scope: self.scope }
    }

    pub(super) fn after_kill(&self, world: Rc<World>) -> Self {
        let mut state = std::mem::take(&mut *self.state.borrow_mut());
        state.inodes.values_mut().for_each(Inode::reap_all);
        state.restart();
        Self { world, state: Rc::new(RefCell::new(state)), scope: self.scope }
    }

    /// Makes the operation of kind `point` fail that comes after `after` more of them.
    pub fn fail(&self, point: FaultPoint, after: usize, errno: i32) {
        self.state.borrow_mut().fault = Some((point, after, errno));
    }

    /// Flushes begun so far, and flushes begun after one of them failed.
    #[must_use]
    pub fn flushes(&self) -> (u64, u64) {
        let state = self.state.borrow();
        (state.flushes, state.failed_flushes)
    }

    /// Reads of open files begun so far.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.state.borrow().reads
    }

    /// Most files that were open at once since this was last asked, at most; and files open now.
    #[must_use]
    pub fn open_files(&self) -> (usize, usize) {
        let mut state = self.state.borrow_mut();
        let now = Rc::strong_count(&state.descriptor) - 1;
        (std::mem::replace(&mut state.open_files_peak, now), now)
    }

    /// Takes the buffers of reads from `pool` from now on, as a real disk does.
    pub fn read_into(&self, pool: &Pool) {
        self.state.borrow_mut().pool = Some(pool.clone());
    }

    /// The durable-or-not content of a file as readers see it.
    #[must_use]
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state.borrow();
        let inode = state.names.get(path)?;
        Some(state.inodes.get(inode)?.current.clone())
    }

    /// Changes a file behind everybody's back, or makes it: bit rot, foreign files.
    pub fn edit(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.content(path).unwrap_or_default();
        change(&mut bytes);
        self.state.borrow_mut().put(path, &bytes);
    }

    /// Names in a directory, now.
    #[must_use]
    pub fn names(&self, dir: &Path) -> Vec<String> {
        self.state.borrow().entries(dir)
    }

    /// Does `work` at a moment of the executor's choice; the caller waits.
    pub(super) async fn operation<T: 'static>(
        &self,
        work: impl FnOnce(&mut DiskState) -> io::Result<T> + 'static,
    ) -> io::Result<T> {
        let slot: Rc<RefCell<Slot<T>>> = Rc::new(RefCell::new((None, None)));
        let (target, state) = (slot.clone(), self.state.clone());
        self.world.operations.borrow_mut().push(Box::new(move || {
            let result = work(&mut state.borrow_mut());
            let waker = {
                let mut target = target.borrow_mut();
                target.0 = Some(result);
                target.1.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }));
        poll_fn(|context| {
            let mut slot = slot.borrow_mut();
            match slot.0.take() {
                Some(result) => Poll::Ready(result),
                None => {
                    slot.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    async fn other<T: 'static>(
        &self,
        work: impl FnOnce(&mut DiskState) -> io::Result<T> + 'static,
    ) -> io::Result<T> {
        self.operation(|state| {
            state.inject(FaultPoint::Other)?;
            work(state)
        })
        .await
    }
}

impl Disk for FakeDisk {
    type File = FakeFile;

    fn flush_scope(&self) -> FlushScope {
        self.scope
    }

    async fn flush(&self) -> io::Result<()> {
        assert!(self.scope == FlushScope::Disk, "this disk's flush covers nothing else");
        let covered: Vec<(u64, Vec<u64>)> = {
            let mut state = self.state.borrow_mut();
            state.flushes += 1;
            assert!(state.failed_flushes == 0, "no flush after a failed one");
            state.inodes.iter().map(|(id, inode)| (*id, inode.covered(true))).collect()
        };
        self.operation(move |state| {
            if let Err(error) = state.inject(FaultPoint::Flush) {
                state.failed_flushes += 1;
                return Err(error);
            }
            for (id, changes) in covered {
                if let Some(inode) = state.inodes.get_mut(&id) {
                    inode.settle(&changes);
                }
            }
            Ok(())
        })
        .await
    }

    async fn open(&self, path: &Path, mode: OpenMode) -> io::Result<FakeFile> {
        let path = path.to_owned();
        let id = self
            .other(move |state| {
                if let Some(id) = state.names.get(&path) {
                    return Ok(*id);
                }
                let parent_exists =
                    path.parent().is_some_and(|parent| state.directories.contains(parent));
                if mode == OpenMode::Read || !parent_exists {
                    return Err(DiskState::missing(&path));
                }
                let id = state.fresh_id();
                state.inodes.insert(id, Inode::default());
                state.change_name(NameChange::Link(path, id));
                Ok(id)
            })
            .await?;
        let mut state = self.state.borrow_mut();
        let descriptor = state.descriptor.clone();
        state.open_files_peak = state.open_files_peak.max(Rc::strong_count(&descriptor) - 1);
        drop(state);
        Ok(FakeFile::new(self.clone(), id, mode, descriptor))
    }

    async fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let dir = dir.to_owned();
        self.other(move |state| {
            if !state.directories.contains(&dir) {
                return Err(DiskState::missing(&dir));
            }
            Ok(state.entries(&dir))
        })
        .await
    }

    async fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = dir.to_owned();
        self.other(move |state| {
            state.directories.extend(dir.ancestors().map(Path::to_owned));
            Ok(())
        })
        .await
    }

    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.other(move |state| state.rename(&from, &to)).await
    }

    async fn remove_file(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        self.other(move |state| {
            if !state.names.contains_key(&path) {
                return Err(DiskState::missing(&path));
            }
            state.change_name(NameChange::Unlink(path));
            Ok(())
        })
        .await
    }

    async fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        self.other(move |state| {
            if !state.entries(&path).is_empty() {
                return Err(io::Error::from_raw_os_error(libc::ENOTEMPTY));
            }
            state.directories.remove(&path);
            Ok(())
        })
        .await
    }

    async fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = dir.to_owned();
        self.other(move |state| {
            state.sync_names(&dir);
            Ok(())
        })
        .await
    }

    async fn file_length(&self, path: &Path) -> io::Result<u64> {
        let path = path.to_owned();
        self.other(move |state| {
            let id = state.names.get(&path).ok_or_else(|| DiskState::missing(&path))?;
            Ok(state.inodes.get(id).map_or(0, |inode| inode.current.len() as u64))
        })
        .await
    }

    async fn read_file(&self, path: &Path, cap_bytes: u64) -> io::Result<Vec<u8>> {
        let path = path.to_owned();
        self.operation(move |state| {
            state.inject(FaultPoint::ReadFile)?;
            let id = state.names.get(&path).ok_or_else(|| DiskState::missing(&path))?;
            let bytes = state.inodes.get(id).map(|inode| inode.current.clone());
            let bytes = bytes.unwrap_or_default();
            if bytes.len() as u64 > cap_bytes {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            Ok(bytes)
        })
        .await
    }

    async fn write_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let (path, bytes) = (path.to_owned(), bytes.to_owned());
        self.other(move |state| {
            state.put(&path, &bytes);
            Ok(())
        })
        .await
    }
}
