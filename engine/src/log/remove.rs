//! Taking the files of a segment away: renamed to `.deleted` and the directory synced first, so
//! that no crash brings half of it back; then unlinked.

use std::{io, path::Path};

use super::segment::{
    DELETED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, SEAL_SUFFIX, TIME_INDEX_SUFFIX, file_name,
};
use crate::{io::Disk, types::Offset};

/// Suffixes of a segment's files; the batches go first, as all else means nothing without them.
const SUFFIXES: [&str; 4] = [LOG_SUFFIX, SEAL_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX];

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
