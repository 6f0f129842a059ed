//! An open file of the fake disk; checks that direct I/O is aligned.

use std::{io, rc::Rc};

use super::{
    disk::{FakeDisk, FaultPoint},
    inode::{Change, Inode},
};
use crate::{
    io::{
        DiskFile, OpenMode,
        buf::{IoRange, Slice, TailBuf},
    },
    limits::DIRECT_ALIGNMENT_BYTES,
};

/// An open file.
#[derive(Clone)]
pub struct FakeFile {
    disk: FakeDisk,
    id: u64,
    mode: OpenMode,
    /// Counts as one open file.
    _descriptor: Rc<()>,
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a test file fits into memory")
}

impl FakeFile {
    pub(super) fn new(disk: FakeDisk, id: u64, mode: OpenMode, descriptor: Rc<()>) -> Self {
        Self { disk, id, mode, _descriptor: descriptor }
    }

    /// The buffer of a direct read, which starts at the alignment below.
    fn buffer(&self, offset: u64, length: usize) -> io::Result<TailBuf> {
        let span = length + size(offset % DIRECT_ALIGNMENT_BYTES as u64);
        match &self.disk.state.borrow().pool {
            Some(pool) => pool.take(span).ok_or_else(|| io::ErrorKind::OutOfMemory.into()),
            None => Ok(TailBuf::unpooled(span)),
        }
    }

    async fn change(
        &self,
        point: FaultPoint,
        change: impl FnOnce() -> Change + 'static,
    ) -> io::Result<()> {
        assert!(self.mode == OpenMode::Write, "a file opened for reading is not written");
        let id = self.id;
        let change_id = self
            .disk
            .operation(move |state| {
                state.inject(point)?;
                let change_id = state.fresh_id();
                if let Some(inode) = state.inodes.get_mut(&id) {
                    inode.apply(change_id, change());
                }
                Ok(change_id)
            })
            .await?;
        if let Some(inode) = self.disk.state.borrow_mut().inodes.get_mut(&id) {
            inode.reap(change_id);
        }
        Ok(())
    }
}

fn assert_aligned(bytes: u64) {
    let aligned = bytes.is_multiple_of(DIRECT_ALIGNMENT_BYTES as u64);
    assert!(aligned, "direct I/O is aligned, {bytes} is not");
}

impl DiskFile for FakeFile {
    async fn write_at(&self, ranges: &[IoRange], offset: u64) -> io::Result<()> {
        assert_aligned(offset);
        ranges.iter().for_each(|range| assert_aligned(range.len() as u64));
        let ranges = ranges.to_vec();
        self.change(FaultPoint::Write, move || {
            // The device reads the memory now, not when the write was submitted.
            let bytes = ranges.iter().flat_map(IoRange::copy_bytes).collect();
            Change::Write(size(offset), bytes)
        })
        .await
    }

    async fn write_zeros(&self, offset: u64, length: u64) -> io::Result<()> {
        assert_aligned(offset);
        assert_aligned(length);
        self.change(FaultPoint::Zeros, move || Change::Write(size(offset), vec![0; size(length)]))
            .await
    }

    async fn read_at(&self, offset: u64, length: usize) -> io::Result<Slice> {
        let id = self.id;
        self.disk.state.borrow_mut().reads += 1;
        let buffer = self.buffer(offset, length)?;
        self.disk
            .operation(move |state| {
                state.inject(FaultPoint::Read)?;
                let bytes = state.inodes.get(&id).map_or(&[][..], |inode| &inode.current[..]);
                let start = size(offset).min(bytes.len());
                let end = start.saturating_add(length).min(bytes.len());
                let mut buffer = buffer;
                assert_eq!(buffer.append(&bytes[start..end]), end - start, "a read fits");
                Ok(buffer.freeze())
            })
            .await
    }

    async fn sync(&self) -> io::Result<()> {
        let id = self.id;
        let covered = {
            let state = self.disk.state.borrow();
            state.inodes.get(&id).map(|inode| inode.covered(false)).unwrap_or_default()
        };
        self.disk
            .operation(move |state| {
                state.inject(FaultPoint::Sync)?;
                if let Some(inode) = state.inodes.get_mut(&id) {
                    inode.settle(&covered);
                }
                Ok(())
            })
            .await
    }

    async fn set_length(&self, length: u64) -> io::Result<()> {
        self.change(FaultPoint::Other, move || Change::Length(size(length))).await
    }

    async fn length(&self) -> io::Result<u64> {
        let id = self.id;
        self.disk
            .operation(move |state| {
                Ok(state.inodes.get(&id).map_or(0, |inode: &Inode| inode.current.len() as u64))
            })
            .await
    }
}
