//! One directory of `log.dirs` as a shard sees it.

#![expect(
    clippy::disallowed_methods,
    reason = "the seam itself: a failure goes up unchanged, and nothing is tried again"
)]

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use super::{
    nature::{self, Nature},
    open_file::RealFile,
};
use crate::{
    error::Error,
    io::{Disk, FlushScope, OpenMode, buf::Pool, local::Local, uring::Ring},
};

/// A disk of one shard; clones share it. Every shard opens its own.
#[derive(Clone)]
pub struct RealDisk {
    pub(super) shared: Rc<Shared>,
}

pub(super) struct Shared {
    pub(super) ring: Rc<Ring>,
    pub(super) pool: Pool,
    pub(super) local: Rc<Local>,
    pub(super) nature: Nature,
    dir: PathBuf,
    pub(super) flush_handle: Arc<OwnedFd>,
}

impl fmt::Debug for RealDisk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RealDisk({}, {})", self.shared.dir.display(), self.describe())
    }
}

impl RealDisk {
    /// Opens the directory `dir` for the calling shard, making it if absent, and finds out what
    /// its file system can do. Leaves one small file there, the flush handle.
    pub async fn open(dir: &Path) -> io::Result<Self> {
        let local = Local::current();
        let path = dir.to_owned();
        let scratch = format!(".direct-probe-{}-{}", std::process::id(), local.port.shard);
        let found = local.blocking.run(move || {
            create_dir_durably(&path)?;
            let nature = nature::examine(&path, &scratch)?;
            Ok::<_, io::Error>((nature, nature::flush_handle(&path)?))
        });
        let (nature, flush_handle) = found.await?;
        let shared = Shared {
            ring: local.ring.clone(),
            pool: local.pool.clone(),
            nature,
            dir: dir.to_owned(),
            flush_handle: Arc::new(flush_handle.into()),
            local,
        };
        Ok(Self { shared: Rc::new(shared) })
    }

    /// How this disk is written, for the start-up line: `direct pre-written` (direct writes, one
    /// flush for all files), `direct` (a flush for each file) or `buffered`.
    #[must_use]
    pub fn describe(&self) -> &'static str {
        self.shared.nature.describe()
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.shared.local.blocking.run(work).await
    }
}

impl Disk for RealDisk {
    type File = RealFile;

    fn flush_scope(&self) -> FlushScope {
        self.shared.nature.flush_scope
    }

    async fn flush(&self) -> io::Result<()> {
        assert_eq!(self.flush_scope(), FlushScope::Disk, "else each file needs its own sync");
        self.shared.ring.sync_data(&self.shared.flush_handle).await.0.map(drop)
    }

    async fn open(&self, path: &Path, mode: OpenMode) -> io::Result<RealFile> {
        let path = path.to_owned();
        let flags = if self.shared.nature.direct { libc::O_DIRECT } else { 0 };
        let opened = self.blocking(move || {
            let mut options = OpenOptions::new();
            let write = mode == OpenMode::Write;
            options.read(true).write(write).create(write).custom_flags(flags).open(path)
        });
        Ok(RealFile::new(self.shared.clone(), opened.await?))
    }

    async fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let dir = dir.to_owned();
        self.blocking(move || {
            let mut names = Vec::new();
            for entry in fs::read_dir(dir)? {
                let name = entry?.file_name().into_string();
                names.push(name.map_err(|name| {
                    let text = format!("{}: not a name in UTF-8", name.display());
                    io::Error::new(io::ErrorKind::InvalidData, text)
                })?);
            }
            names.sort_unstable();
            Ok(names)
        })
        .await
    }

    async fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = dir.to_owned();
        self.blocking(move || create_dir_durably(&dir)).await
    }

    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.blocking(move || fs::rename(from, to)).await
    }

    async fn remove_file(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        self.blocking(move || fs::remove_file(path)).await
    }

    async fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        self.blocking(move || fs::remove_dir(path)).await
    }

    async fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = dir.to_owned();
        self.blocking(move || File::open(dir)?.sync_all()).await
    }

    async fn file_length(&self, path: &Path) -> io::Result<u64> {
        let path = path.to_owned();
        self.blocking(move || Ok(fs::metadata(path)?.len())).await
    }

    async fn read_file(&self, path: &Path, cap_bytes: u64) -> io::Result<Vec<u8>> {
        let path = path.to_owned();
        self.blocking(move || {
            let mut bytes = Vec::new();
            File::open(&path)?.take(cap_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
            if u64::try_from(bytes.len()).is_ok_and(|length| length <= cap_bytes) {
                return Ok(bytes);
            }
            let text = format!("{}: longer than {cap_bytes} bytes", path.display());
            Err(io::Error::new(io::ErrorKind::InvalidData, text))
        })
        .await
    }

    async fn write_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let (path, bytes) = (path.to_owned(), bytes.to_owned());
        self.blocking(move || replace_file(&path, &bytes)).await
    }
}

fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    flushed(file.sync_all())?;
    fs::rename(&temporary, path)?;
    flushed(sync_parent(path))
}

/// A flush that found no room may have lost anything: its error is not one to wait for room with.
fn flushed(result: io::Result<()>) -> io::Result<()> {
    result.map_err(|error| {
        if Error::is_full(&error) { io::Error::other(format!("flush: {error}")) } else { error }
    })
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Makes `dir` and its parents; durable, for every one of them, when it returns.
fn create_dir_durably(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent() {
        create_dir_durably(parent)?;
    }
    match fs::create_dir(dir) {
        // Another shard may have been quicker.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !dir.is_dir() => Err(error),
        _ => sync_parent(dir),
    }
}
