//! Reading a segment from its start, batch by batch, checking each: the one way in which bytes on
//! disk become a log again after an unclean stop.
//!
//! A batch counts when its header is plausible, its checksum fits and its offset continues the
//! chain. The last rule is what rejects the stale batches of recycled space: they have offsets
//! below the segment's base. Nothing here writes.

use std::io;

use crate::{
    batch::{HEADER_BYTES, Header},
    io::{DiskFile, buf::Slice},
    limits::READ_CHUNK_BYTES,
    types::Offset,
};

/// Header bytes under the checksum start here.
const CHECKED_FROM: usize = 21;

/// The offset below which gaps are legal, in a log that Kafka wrote or that was compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DenseFrom(pub(super) Offset);

impl DenseFrom {
    /// Gaps are legal anywhere.
    pub(super) const NEVER: Self = Self(Offset(i64::MAX));

    /// Whether a batch or segment at `next` continues what ended at `expected`.
    pub(super) fn continues(self, expected: Offset, next: Offset) -> bool {
        next == expected || (next > expected && next <= self.0)
    }
}

/// Walks the batches of one file.
pub(super) struct Scanner<F> {
    file: F,
    length: u64,
    position: u64,
    expected: Offset,
    dense_from: DenseFrom,
    piece: Slice,
    piece_at: u64,
}

impl<F: DiskFile> Scanner<F> {
    /// A walk over `file` of `length` bytes whose first batch starts at or after `base`.
    pub(super) fn new(file: F, length: u64, base: Offset, dense_from: DenseFrom) -> Self {
        let piece = Slice::copy_of(&[]);
        Self { file, length, position: 0, expected: base, dense_from, piece, piece_at: 0 }
    }

    /// File position behind the last batch that counted.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The next batch that counts, checksum included; `None` at the first that does not.
    pub(super) async fn next(&mut self) -> io::Result<Option<Header>> {
        let Some(header) = self.peek().await? else { return Ok(None) };
        if self.checksum(&header).await? != header.crc {
            return Ok(None);
        }
        self.step_over(&header);
        Ok(Some(header))
    }

    /// The next header that fits the chain, without a look at the records.
    pub(super) async fn next_header(&mut self) -> io::Result<Option<Header>> {
        let header = self.peek().await?;
        if let Some(header) = &header {
            self.step_over(header);
        }
        Ok(header)
    }

    fn step_over(&mut self, header: &Header) {
        self.position += header.size_bytes() as u64;
        assert!(self.position <= self.length, "a batch lies within its file");
        assert!(header.next_offset() > self.expected, "offsets ascend");
        self.expected = header.next_offset();
    }

    async fn peek(&mut self) -> io::Result<Option<Header>> {
        if self.position + HEADER_BYTES as u64 > self.length {
            return Ok(None);
        }
        if self.position + HEADER_BYTES as u64 > self.piece_end() {
            self.load(self.position).await?;
        }
        let Some(header) = Header::from_prefix(self.loaded(self.position)) else { return Ok(None) };
        let fits = self.dense_from.continues(self.expected, header.base_offset);
        let inside = self.position + header.size_bytes() as u64 <= self.length;
        Ok((header.is_plausible() && fits && inside).then_some(header))
    }

    async fn checksum(&mut self, header: &Header) -> io::Result<u32> {
        let end = self.position + header.size_bytes() as u64;
        let mut at = self.position + CHECKED_FROM as u64;
        let mut crc = 0;
        while at < end {
            if at < self.piece_at || at >= self.piece_end() {
                self.load(at).await?;
            }
            let left = super::segment::in_memory(end - at);
            let bytes = self.loaded(at);
            let bytes = &bytes[..bytes.len().min(left)];
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            crc = crc32c::crc32c_append(crc, bytes);
            at += bytes.len() as u64;
        }
        Ok(crc)
    }

    fn piece_end(&self) -> u64 {
        self.piece_at + self.piece.len() as u64
    }

    /// What is loaded from `at` on.
    fn loaded(&self, at: u64) -> &[u8] {
        let start = at.checked_sub(self.piece_at).and_then(|start| usize::try_from(start).ok());
        start.and_then(|start| self.piece.get(start..)).unwrap_or_default()
    }

    async fn load(&mut self, at: u64) -> io::Result<()> {
        let left = super::segment::in_memory(self.length - at);
        self.piece = self.file.read_at(at, left.min(READ_CHUNK_BYTES)).await?;
        self.piece_at = at;
        Ok(())
    }
}
