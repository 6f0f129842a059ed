//! The seam to the kernel: buffers, files, sockets, clocks, tasks and the queues between cores.
//!
//! Owns every system call of the data path. Knows neither segments nor protocols: it moves bytes
//! between buffers and descriptors. Nothing above may name the executor or the ring behind it, nor
//! rely on what only they could offer; `log` runs on a fake [`Env`] in tests.
//!
//! Failure behaviour: errors are returned as the operating system's own; nothing is retried here
//! but interrupted and short transfers.

pub mod buf;
#[cfg(any(test, feature = "fake-io"))]
pub mod fake;
pub mod file;
pub mod health;
mod local;
pub mod mesh;
pub mod net;
pub mod oneshot;
mod port;
pub mod probe;
pub mod runtime;
mod sys;
mod uring;

use std::{future::Future, io, path::Path, time::Duration};

use buf::{IoRange, Slice};

/// Time. Wall time stamps records and decides retention; everything else uses monotonic time.
pub trait Clock {
    /// Milliseconds since the Unix epoch; may jump.
    fn wall_ms(&self) -> i64;
    /// Nanoseconds of a clock that never goes back; comparable between shards of a process.
    fn monotonic_ns(&self) -> u64;
    /// Completes after `duration` of monotonic time.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()>;
}

/// Randomness.
pub trait Entropy {
    /// 64 random bits.
    fn next_u64(&self) -> u64;
}

/// Starts tasks on the calling shard. A task that panics ends the process.
pub trait Spawn {
    /// Runs `task` on this shard at normal priority until it completes.
    fn spawn(&self, task: impl Future<Output = ()> + 'static);
    /// As [`Spawn::spawn`], with low shares: zeroing, deletion, read-ahead, retention.
    fn spawn_background(&self, task: impl Future<Output = ()> + 'static);
    /// Lets other tasks of this shard run.
    fn yield_now(&self) -> impl Future<Output = ()>;
    /// Runs `work`, which computes long, on another thread; the shard goes on meanwhile. Work that
    /// has not begun when the caller gives up is not done.
    fn run_long<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = T>;
}

/// All that a log needs of the world: cheap to clone, bound to one shard.
pub trait Env: Clock + Entropy + Spawn + Clone + 'static {
    /// The disk of this environment.
    type Disk: Disk;
}

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading only, direct where the disk is.
    Read,
    /// For reading and writing, direct where the disk is; made if absent.
    Write,
}

/// What a flush of one file can be taken to cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushScope {
    /// [`Disk::flush`] covers every completed overwrite of initialised extents on this disk.
    Disk,
    /// Each file needs its own [`DiskFile::sync`].
    File,
}

/// One disk (a directory of `log.dirs`), a flush domain of its own.
///
/// Paths are absolute. Calls other than through [`DiskFile`] may be slow and stay off the hot path.
pub trait Disk: Clone + 'static {
    /// An open file.
    type File: DiskFile;

    /// Whether one flush covers all files, as the start-up probe found.
    fn flush_scope(&self) -> FlushScope;

    /// Flushes the device: when it completes, every write of this shard to this disk that had
    /// completed (and been seen by the caller) before the call is durable, provided it overwrote
    /// extents already written and synced. Only for [`FlushScope::Disk`]. A failure is final.
    fn flush(&self) -> impl Future<Output = io::Result<()>>;

    /// Opens a file. Creating one is durable only after [`Disk::sync_dir`] of its directory.
    fn open(&self, path: &Path, mode: OpenMode) -> impl Future<Output = io::Result<Self::File>>;

    /// Names of the entries of a directory, sorted.
    fn list(&self, dir: &Path) -> impl Future<Output = io::Result<Vec<String>>>;
    /// Makes a directory and its parents; no error if it exists. Durable when it completes.
    fn create_dir(&self, dir: &Path) -> impl Future<Output = io::Result<()>>;
    /// Renames a file or directory; durable only after [`Disk::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> impl Future<Output = io::Result<()>>;
    /// Removes a file; durable only after [`Disk::sync_dir`].
    fn remove_file(&self, path: &Path) -> impl Future<Output = io::Result<()>>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> impl Future<Output = io::Result<()>>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, dir: &Path) -> impl Future<Output = io::Result<()>>;
    /// Length of a file in bytes, found without opening it.
    fn file_length(&self, path: &Path) -> impl Future<Output = io::Result<u64>>;
    /// The whole of a small file, at most `cap_bytes` (more is `InvalidData`).
    fn read_file(&self, path: &Path, cap_bytes: u64) -> impl Future<Output = io::Result<Vec<u8>>>;
    /// Replaces a small file so that after a crash either the old or the new bytes are there:
    /// temporary file, sync, rename, directory sync. Durable when it completes.
    fn write_file(&self, path: &Path, bytes: &[u8]) -> impl Future<Output = io::Result<()>>;
}

/// An open file of a [`Disk`]; clones share the descriptor, which closes with the last one.
pub trait DiskFile: Clone + 'static {
    /// Writes all ranges one after the other from `offset`. On a direct disk, `offset` and every
    /// range's start and length are multiples of `DIRECT_ALIGNMENT_BYTES`. Completes when the
    /// device has the bytes, not when they are durable. A short write is an error.
    fn write_at(&self, ranges: &[IoRange], offset: u64) -> impl Future<Output = io::Result<()>>;
    /// Writes zeros over `[offset, offset + length)`, extending the file; both aligned.
    fn write_zeros(&self, offset: u64, length: u64) -> impl Future<Output = io::Result<()>>;
    /// Reads at most `length` bytes (at most `READ_CHUNK_BYTES` or 1 MiB) from `offset` into one
    /// pooled buffer; shorter only at the end of the file. Any offset and length: a direct file
    /// reads the aligned span around it.
    fn read_at(&self, offset: u64, length: usize) -> impl Future<Output = io::Result<Slice>>;
    /// Makes the file's data and length durable (fdatasync). A failure is final.
    fn sync(&self) -> impl Future<Output = io::Result<()>>;
    /// Cuts or extends the file; durable after [`DiskFile::sync`].
    fn set_length(&self, length: u64) -> impl Future<Output = io::Result<()>>;
    /// The file's length in bytes.
    fn length(&self) -> impl Future<Output = io::Result<u64>>;
}
