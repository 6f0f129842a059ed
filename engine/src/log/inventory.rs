//! What lies in a log's directory at start: names, seal records, snapshots and lengths, before any
//! batch is read. Knows every file name of a partition's directory; changes nothing.

use std::{collections::BTreeSet, io, path::Path};

use super::{
    checkpoint::{self, Checkpoint},
    epochs::{self, Epochs},
    producers::Producers,
    scan::DenseFrom,
    seal::SealRecord,
    segment::{
        DELETED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, PRODUCERS_SUFFIX, SEAL_SUFFIX, TIME_INDEX_SUFFIX,
        file_name, parse_name,
    },
    snapshot,
};
use crate::{io::Disk, limits::SMALL_FILE_CAP_BYTES, types::Offset};

/// The entries of a partition's directory, by kind.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) logs: Vec<Offset>,
    pub(super) seals: BTreeSet<Offset>,
    /// Bases with an index or a time index.
    indexes: BTreeSet<Offset>,
    pub(super) snapshots: Vec<Offset>,
    pub(super) deleted: Vec<String>,
    has_checkpoint: bool,
    has_epochs: bool,
}

impl Names {
    /// Sorts the names of a directory out; unknown ones are left alone.
    pub(super) fn of(entries: Vec<String>) -> Self {
        let mut names = Self::default();
        for name in entries {
            if name.ends_with(DELETED_SUFFIX) {
                names.deleted.push(name);
            } else if let Some(base) = parse_name(&name, LOG_SUFFIX) {
                names.logs.push(base);
            } else if let Some(base) = parse_name(&name, SEAL_SUFFIX) {
                names.seals.insert(base);
            } else if let Some(base) =
                parse_name(&name, INDEX_SUFFIX).or_else(|| parse_name(&name, TIME_INDEX_SUFFIX))
            {
                names.indexes.insert(base);
            } else if let Some(offset) = parse_name(&name, PRODUCERS_SUFFIX) {
                names.snapshots.push(offset);
            } else {
                names.has_checkpoint |= name == checkpoint::FILE_NAME;
                names.has_epochs |= name == epochs::FILE_NAME;
            }
        }
        names.logs.sort_unstable();
        names.snapshots.sort_unstable();
        names
    }

    /// Bases of which there is something left but no batches: a removal that a crash cut short.
    pub(super) fn orphans(&self) -> impl Iterator<Item = Offset> + '_ {
        let has_batches = |base: &Offset| self.logs.binary_search(base).is_ok();
        self.seals.union(&self.indexes).copied().filter(move |base| !has_batches(base))
    }

    /// Snapshots of the producers that no start will need, in a log whose producers were read from
    /// the one at `used`: those that are at no border of a segment (the log has grown since a clean
    /// stop, or was cut), and all before the last one before `used`.
    pub(super) fn spent_snapshots(
        &self,
        borders: &BTreeSet<Offset>,
        used: Offset,
    ) -> impl Iterator<Item = Offset> {
        let at_border = self.snapshots.iter().filter(|offset| borders.contains(offset));
        let second = at_border.filter(|offset| **offset < used).max().copied();
        self.snapshots.iter().copied().filter(move |offset| {
            let kept = *offset >= used || Some(*offset) == second;
            !kept || !borders.contains(offset)
        })
    }

    /// Whether we made this log or took it over. A directory with batches but without a durable-end
    /// record, which is there before the first segment, is Kafka's.
    fn is_ours(&self, found: checkpoint::Found) -> bool {
        self.logs.is_empty() || found != checkpoint::Found::Unwritten
    }
}

/// A segment's file as found, before a batch is read. Not open: a log may have more segments than a
/// process may have files open.
pub(super) struct FoundSegment {
    pub(super) base: Offset,
    pub(super) length: u64,
    /// Its record, when it has one that vouches for exactly this length.
    pub(super) seal: Option<SealRecord>,
}

/// All that is known before batches are read.
pub(super) struct Inventory {
    pub(super) names: Names,
    pub(super) segments: Vec<FoundSegment>,
    pub(super) checkpoint: Checkpoint,
    /// The durable-end record is damaged: what it said is not known.
    pub(super) record_lost: bool,
    /// We made this log or took it over before.
    pub(super) is_ours: bool,
    pub(super) dense_from: DenseFrom,
    pub(super) epochs: Epochs,
    /// Producers at `replay_from`, where the batches to replay begin.
    pub(super) producers: Producers,
    pub(super) replay_from: Offset,
}

/// Takes stock of `dir`.
pub(super) async fn take<D: Disk>(disk: &D, dir: &Path) -> io::Result<Inventory> {
    let names = Names::of(disk.list(dir).await?);
    let found = read_checkpoint(disk, dir, &names).await?;
    let checkpoint = match found {
        checkpoint::Found::Good(record) => record,
        checkpoint::Found::Unwritten | checkpoint::Found::Damaged => Checkpoint::default(),
    };
    let record_lost = found == checkpoint::Found::Damaged;
    let epochs = read_epochs(disk, dir, &names).await?;
    let mut segments = Vec::with_capacity(names.logs.len());
    for base in &names.logs {
        segments.push(find_segment(disk, dir, &names, *base).await?);
    }
    let (producers, replay_from) =
        read_producers(disk, dir, &names, &segments, checkpoint.log_start).await?;
    let is_ours = names.is_ours(found);
    // Where the record is lost, whatever can be read is to be read.
    let is_dense = is_ours && !record_lost;
    let dense_from = if is_dense { DenseFrom(checkpoint.dense_from) } else { DenseFrom::NEVER };
    let inventory = Inventory {
        names,
        segments,
        checkpoint,
        record_lost,
        is_ours,
        dense_from,
        epochs,
        producers,
        replay_from,
    };
    Ok(inventory)
}

async fn find_segment<D: Disk>(
    disk: &D,
    dir: &Path,
    names: &Names,
    base: Offset,
) -> io::Result<FoundSegment> {
    let length = disk.file_length(&dir.join(file_name(base, LOG_SUFFIX))).await?;
    let mut seal = None;
    if names.seals.contains(&base) {
        let path = dir.join(file_name(base, SEAL_SUFFIX));
        let bytes = read_remakable(disk, &path, SMALL_FILE_CAP_BYTES).await?;
        seal = bytes
            .and_then(|bytes| SealRecord::decode(&bytes))
            .filter(|record| record.base == base && record.size == length);
    }
    Ok(FoundSegment { base, length, seal })
}

/// The bytes of a file that can be made again from batches: one that is gone, too long, or that the
/// device cannot read, is as good as absent. Want of descriptors or memory says nothing about it.
pub(super) async fn read_remakable<D: Disk>(
    disk: &D,
    path: &Path,
    cap_bytes: u64,
) -> io::Result<Option<Vec<u8>>> {
    match disk.read_file(path, cap_bytes).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
        Err(error) => Err(error),
    }
}

async fn read_checkpoint<D: Disk>(
    disk: &D,
    dir: &Path,
    names: &Names,
) -> io::Result<checkpoint::Found> {
    if !names.has_checkpoint {
        return Ok(checkpoint::Found::Unwritten);
    }
    let bytes = disk.read_file(&dir.join(checkpoint::FILE_NAME), SMALL_FILE_CAP_BYTES).await?;
    Ok(Checkpoint::find(&bytes))
}

async fn read_epochs<D: Disk>(disk: &D, dir: &Path, names: &Names) -> io::Result<Epochs> {
    if !names.has_epochs {
        return Ok(Epochs::default());
    }
    let bytes = disk.read_file(&dir.join(epochs::FILE_NAME), SMALL_FILE_CAP_BYTES).await?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    Ok(Epochs::decode(&text).unwrap_or_default())
}

/// The newest good snapshot taken at a boundary between segments. Without one, everything is
/// replayed.
async fn read_producers<D: Disk>(
    disk: &D,
    dir: &Path,
    names: &Names,
    segments: &[FoundSegment],
    log_start: Offset,
) -> io::Result<(Producers, Offset)> {
    let ends = segments.iter().filter_map(|found| found.seal.map(|record| record.end));
    let mut boundaries: BTreeSet<Offset> =
        segments.iter().map(|found| found.base).chain(ends).collect();
    if segments.is_empty() {
        // Retention has taken everything: the log goes on where it starts.
        boundaries.insert(log_start);
    }
    for offset in names.snapshots.iter().rev().filter(|offset| boundaries.contains(offset)) {
        let path = dir.join(file_name(*offset, PRODUCERS_SUFFIX));
        let bytes = read_remakable(disk, &path, SMALL_FILE_CAP_BYTES).await?;
        if let Some((producers, end)) = bytes.and_then(|bytes| snapshot::decode(&bytes))
            && end == *offset
        {
            return Ok((producers, end));
        }
    }
    Ok((Producers::default(), Offset(0)))
}
