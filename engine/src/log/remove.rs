//! Taking the files of a segment, or of a whole log, away: renamed to `.deleted` and the directory
//! synced first, so that no crash brings half of it back; then unlinked.

use std::{
    io,
    path::{Path, PathBuf},
    rc::Rc,
};

use super::{
    segment::{
        DELETED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, SEAL_SUFFIX, TIME_INDEX_SUFFIX, file_name,
    },
    state::Shared,
};
use crate::{
    error::{Error, Kind, Result},
    io::{Disk, DiskFile, Env, OpenMode},
    limits::{FILE_NAME_BYTES_MAX, TRUNCATE_STEP_BYTES},
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

/// Unlinks the segment's renamed files, the batches in steps. Ends where it stands when the log is
/// deleted: what is left goes with the directory.
pub(super) async fn unlink_in_steps<E: Env>(shared: &Shared<E>, base: Offset) -> io::Result<()> {
    let path = shared.dir.join(file_name(base, LOG_SUFFIX) + DELETED_SUFFIX);
    let goes_on = || !shared.state.borrow().deleted;
    shrink_in_steps(&shared.env, shared.disk(), &path, goes_on).await?;
    if !goes_on() {
        return Ok(());
    }
    unlink_renamed(shared.disk(), &shared.dir, base).await
}

/// Takes a file's extents away step by step, since freeing a large file at once holds the file
/// system up.
async fn shrink_in_steps<E: Env>(
    env: &E,
    disk: &E::Disk,
    path: &Path,
    goes_on: impl Fn() -> bool,
) -> io::Result<()> {
    let file = disk.open(path, OpenMode::Write).await?;
    let mut length = file.length().await?;
    while length > TRUNCATE_STEP_BYTES && goes_on() {
        length -= TRUNCATE_STEP_BYTES;
        file.set_length(length).await?;
        env.yield_now().await;
    }
    Ok(())
}

/// Whether a directory of this name is a partition's that [`super::Log::delete`] has renamed.
#[must_use]
pub fn is_deleted_name(name: &str) -> bool {
    let id = name.strip_suffix(DELETED_DIRECTORY_SUFFIX).and_then(|rest| rest.rsplit_once('.'));
    id.is_some_and(|(_, id)| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Removes a partition's directory and all in it, large files in steps; also one that an earlier
/// process renamed to `-delete` and left. No error when it is gone already.
///
/// # Errors
/// The disk's; what is left can be removed by another call.
async fn remove_directory<E: Env>(env: &E, disk: &E::Disk, dir: &Path) -> io::Result<()> {
    let names = match disk.list(dir).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for name in names {
        let path = dir.join(&name);
        if [LOG_SUFFIX, DELETED_SUFFIX].iter().any(|suffix| name.ends_with(suffix)) {
            // Short of descriptors, it is unlinked in one go.
            let _shrunk = shrink_in_steps(env, disk, &path, || true).await;
        }
        ignore_missing(disk.remove_file(&path).await)?;
        env.yield_now().await;
    }
    disk.remove_dir(dir).await?;
    match dir.parent() {
        Some(parent) => disk.sync_dir(parent).await,
        None => Ok(()),
    }
}

/// The name of a partition's directory with `suffix` (ASCII), and of its topic as much as fits into
/// a name, as Kafka's `LocalLog.logDirNameWithSuffixCappedLength` has it.
#[must_use]
pub fn name_aside(name: &str, suffix: &str) -> String {
    let (topic, partition) = name.split_at(name.rfind('-').unwrap_or(name.len()));
    let room = FILE_NAME_BYTES_MAX.saturating_sub(partition.len() + suffix.len());
    format!("{}{partition}{suffix}", &topic[..topic.floor_char_boundary(room)])
}

/// Gives a partition's directory up as Kafka does: renamed to `<topic>-<partition>.<id>-delete`,
/// durably, when it completes; then removed in the background, or by the next start.
///
/// # Errors
/// The disk's: the directory may still have its name, or have it again after a power cut.
pub async fn delete_directory<E: Env>(env: &E, disk: &E::Disk, dir: &Path) -> io::Result<()> {
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let id = env.next_u64();
    let suffix = format!(".{id:016x}{DELETED_DIRECTORY_SUFFIX}");
    let target = dir.with_file_name(name_aside(&name, &suffix));
    disk.rename(dir, &target).await?;
    if let Some(parent) = target.parent() {
        disk.sync_dir(parent).await?;
    }
    remove_later(env, disk, target);
    Ok(())
}

/// Removes a directory that was renamed for deletion, in the background.
pub fn remove_later<E: Env>(env: &E, disk: &E::Disk, target: PathBuf) {
    let (task_env, disk) = (env.clone(), disk.clone());
    env.spawn_background(async move {
        if let Err(error) = remove_directory(&task_env, &disk, &target).await {
            eprintln!("millrace: {} stays behind: {error}", target.display());
        }
    });
}

/// Deletes the whole log: no append is taken any more, and its directory is given up once no task
/// of the log can name a file in it, since the next log of that name may be there at once.
pub(super) async fn delete<E: Env>(shared: &Rc<Shared<E>>) -> Result<()> {
    shared.state.borrow_mut().deleted = true;
    let text = format!("{}: the partition was deleted", shared.dir.display());
    shared.fail(Error::new(Kind::NotOwner, text));
    shared.changed.notify();
    shared
        .changed
        .wait_for(|| {
            let state = shared.state.borrow();
            let busy =
                state.writing || state.preparing.is_some() || state.sealing || state.recording;
            (!busy && state.naming == 0).then_some(())
        })
        .await;
    shared.state.borrow_mut().release();
    shared.volume.read_ahead().forget_before(shared, Offset(i64::MAX));
    let deleted = delete_directory(&shared.env, shared.disk(), &shared.dir).await;
    deleted.map_err(|error| Error::from_io(&shared.dir.display().to_string(), &error))
}
