//! Taking the files of a segment away: renamed to `.deleted` and the directory synced first, so
//! that no crash brings half of it back; then unlinked.

use std::{io, path::Path, rc::Rc};

use super::{
    segment::{
        DELETED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, SEAL_SUFFIX, TIME_INDEX_SUFFIX, file_name,
    },
    state::Shared,
};
use crate::{
    error::{Error, Kind, Result},
    io::{Disk, DiskFile, Env, OpenMode},
    limits::TRUNCATE_STEP_BYTES,
    types::Offset,
};

/// Suffixes of a segment's files; the batches go first, as all else means nothing without them.
const SUFFIXES: [&str; 4] = [LOG_SUFFIX, SEAL_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX];

/// Ends the name of a partition's directory that is to be removed, behind a dot and 16 digits.
const DELETED_DIRECTORY_SUFFIX: &str = "-delete";

/// Renames the segment's files to `.deleted`, durably.
pub(super) async fn rename_segment_files<D: Disk>(
    disk: &D,
    dir: &Path,
    base: Offset,
) -> io::Result<()> {
    for suffix in SUFFIXES {
        let path = dir.join(file_name(base, suffix));
        let target = dir.join(file_name(base, suffix) + DELETED_SUFFIX);
        ignore_missing(disk.rename(&path, &target).await)?;
    }
    disk.sync_dir(dir).await
}

/// Unlinks the segment's renamed files.
pub(super) async fn unlink_renamed<D: Disk>(disk: &D, dir: &Path, base: Offset) -> io::Result<()> {
    for suffix in SUFFIXES {
        let path = dir.join(file_name(base, suffix) + DELETED_SUFFIX);
        ignore_missing(disk.remove_file(&path).await)?;
    }
    Ok(())
}

/// Both steps at once.
pub(super) async fn remove_segment_files<D: Disk>(
    disk: &D,
    dir: &Path,
    base: Offset,
) -> io::Result<()> {
    rename_segment_files(disk, dir, base).await?;
    unlink_renamed(disk, dir, base).await
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Unlinks the segment's renamed files; the batches lose their extents in steps first, since
/// freeing a large file at once holds the file system up.
pub(super) async fn unlink_in_steps<E: Env>(
    env: &E,
    disk: &E::Disk,
    dir: &Path,
    base: Offset,
) -> io::Result<()> {
    let path = dir.join(file_name(base, LOG_SUFFIX) + DELETED_SUFFIX);
    let file = disk.open(&path, OpenMode::Write).await?;
    let mut length = file.length().await?;
    while length > TRUNCATE_STEP_BYTES {
        length -= TRUNCATE_STEP_BYTES;
        file.set_length(length).await?;
        env.yield_now().await;
    }
    drop(file);
    unlink_renamed(disk, dir, base).await
}

/// Whether a directory of this name is a partition's that [`super::Log::delete`] has renamed.
#[must_use]
pub fn is_deleted_name(name: &str) -> bool {
    let id = name.strip_suffix(DELETED_DIRECTORY_SUFFIX).and_then(|rest| rest.rsplit_once('.'));
    id.is_some_and(|(_, id)| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Removes a partition's directory and all in it; also one that an earlier process renamed to
/// `-delete` and left. No error when it is gone already.
///
/// # Errors
/// The disk's; what is left can be removed by another call.
pub async fn remove_directory<D: Disk>(disk: &D, dir: &Path) -> io::Result<()> {
    let names = match disk.list(dir).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for name in names {
        ignore_missing(disk.remove_file(&dir.join(name)).await)?;
    }
    disk.remove_dir(dir).await?;
    match dir.parent() {
        Some(parent) => disk.sync_dir(parent).await,
        None => Ok(()),
    }
}

/// Deletes the whole log: no append is taken any more, the directory is renamed as Kafka does
/// (`<topic>-<partition>.<id>-delete`), then removed.
pub(super) async fn delete<E: Env>(shared: &Rc<Shared<E>>) -> Result<()> {
    let text = format!("{}: the partition was deleted", shared.dir.display());
    shared.fail(Error::new(Kind::NotOwner, text));
    shared
        .changed
        .wait_for(|| {
            let state = shared.state.borrow();
            let busy =
                state.writing || state.preparing.is_some() || state.sealing || state.recording;
            (!busy).then_some(())
        })
        .await;
    shared.state.borrow_mut().release();
    shared.volume.read_ahead().forget_before(shared, Offset(i64::MAX));
    let name = shared.dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let id = shared.env.next_u64();
    let target = shared.dir.with_file_name(format!("{name}.{id:016x}{DELETED_DIRECTORY_SUFFIX}"));
    let removal = async {
        let disk = shared.disk();
        disk.rename(&shared.dir, &target).await?;
        if let Some(parent) = target.parent() {
            disk.sync_dir(parent).await?;
        }
        remove_directory(disk, &target).await
    };
    removal.await.map_err(|error| Error::from_io(&target.display().to_string(), &error))
}
