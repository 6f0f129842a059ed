//! The bytes of a metadata log or snapshot file, and what a file proves after a crash.
//!
//! A file is a header, then seals and frames in turn: `header seal (frame seal)*`. A frame is one
//! group of records; its seal is written, without a flush, once the frame is durable. So a seal
//! that checks out proves that everything before it had been flushed, and must check out too; only
//! what lies behind the last seal can be the torn rest of a write that nobody was told of.
//!
//! Sans-I/O. Failure behaviour: bytes that contradict this are corruption, in one line with the
//! position, and nothing is cut.

use super::record::Record;
use crate::limits;

/// First bytes of each file.
const MAGIC: [u8; 8] = *b"MRMETAF\n";
const VERSION: u32 = 1;

/// Bytes of the header: magic, version, kind, index, salt, CRC.
pub(super) const HEADER_BYTES: usize = 36;
/// Bytes of a seal: salt, position, next index, CRC.
pub(super) const SEAL_BYTES: usize = 28;
/// Bytes of a frame before its records: length, CRC, first index, count.
const FRAME_BYTES: usize = 20;
/// Bytes of a frame that its length does not count: the length itself and the CRC.
const FRAME_PREFIX_BYTES: usize = 8;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// Records from `index` on.
    Log,
    /// Records that stand for the log's first `index` records.
    Snapshot,
}

/// The header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// What the file is.
    pub kind: FileKind,
    /// Index of a log's first record; records that a snapshot stands for.
    pub index: u64,
    /// Random, so that no bytes that a client chose can pass for a seal.
    pub salt: u64,
}

/// What a file holds.
#[derive(Debug)]
pub(super) struct Recovered {
    pub header: Header,
    pub records: Vec<Record>,
    /// Index of the next record to be written.
    pub next_index: u64,
    /// Bytes to keep.
    pub kept_bytes: usize,
    /// Whether the kept bytes end in a seal.
    pub sealed: bool,
}

impl Header {
    /// Index of the file's first frame.
    fn first_index(&self) -> u64 {
        match self.kind {
            FileKind::Log => self.index,
            FileKind::Snapshot => 0,
        }
    }

    /// The bytes that a new file starts with: header and first seal.
    pub fn start(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + SEAL_BYTES);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(self.kind_number().to_le_bytes());
        out.extend(self.index.to_le_bytes());
        out.extend(self.salt.to_le_bytes());
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        assert_eq!(out.len(), HEADER_BYTES, "the header has a fixed length");
        put_seal(&mut out, self.salt, HEADER_BYTES as u64, self.first_index());
        out
    }

    fn kind_number(&self) -> u32 {
        match self.kind {
            FileKind::Log => 0,
            FileKind::Snapshot => 1,
        }
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let wrong = |what: &str| Err(format!("{what} at byte 0"));
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            return wrong("no whole header");
        };
        if bytes[..8] != MAGIC {
            return wrong("not a metadata file of Millrace: wrong magic");
        }
        if crc32c::crc32c(&bytes[..32]) != u32_at(bytes, 32) {
            return wrong("the header's checksum is wrong");
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(format!(
                "file version {version}, this program knows {VERSION}; start the newer one"
            ));
        }
        let kind = match u32_at(bytes, 12) {
            0 => FileKind::Log,
            1 => FileKind::Snapshot,
            _ => return wrong("unknown kind of file"),
        };
        Ok(Self { kind, index: u64_at(bytes, 16), salt: u64_at(bytes, 24) })
    }
}

/// Appends a frame of `records`, the first of which has `index`.
pub(super) fn put_frame(out: &mut Vec<u8>, index: u64, records: &[Record]) {
    let start = out.len();
    out.extend([0; FRAME_PREFIX_BYTES]);
    out.extend(index.to_le_bytes());
    out.extend(u32::try_from(records.len()).expect("a group is short").to_le_bytes());
    for record in records {
        let at = out.len();
        out.extend([0; 4]);
        record.encode(out);
        let length = u32::try_from(out.len() - at - 4).expect("bounded by limits");
        out[at..at + 4].copy_from_slice(&length.to_le_bytes());
    }
    let body = start + FRAME_PREFIX_BYTES;
    let length = out.len() - body;
    assert!(length <= limits::METADATA_FRAME_BYTES_MAX, "a group is cut before it is too long");
    let length = u32::try_from(length).expect("bounded by limits");
    let crc = crc32c::crc32c(&out[body..]);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
}

/// Appends the seal that lies at `position` of its file, before record `next_index`.
pub(super) fn put_seal(out: &mut Vec<u8>, salt: u64, position: u64, next_index: u64) {
    let start = out.len();
    out.extend(salt.to_le_bytes());
    out.extend(position.to_le_bytes());
    out.extend(next_index.to_le_bytes());
    out.extend(crc32c::crc32c(&out[start..]).to_le_bytes());
}

/// Reads a whole file. The error is one line about what contradicts the format and where.
pub(super) fn recover(bytes: &[u8]) -> Result<Recovered, String> {
    let header = Header::parse(bytes)?;
    let last_seal = last_seal(bytes, header.salt).ok_or("no seal checks out")?;
    let mut records = Vec::new();
    let mut next_index = header.first_index();
    let mut position = HEADER_BYTES;
    loop {
        if seal_at(bytes, position, header.salt) != Some(next_index) {
            return Err(format!("no seal at byte {position}, where one was flushed"));
        }
        let sealed_at = position;
        position += SEAL_BYTES;
        if sealed_at == last_seal {
            break;
        }
        let frame = Frame::at(bytes, position, next_index)
            .ok_or_else(|| format!("a flushed group of records is damaged at byte {position}"))?;
        frame.decode(position, &mut records)?;
        next_index += u64::from(frame.count);
        position += frame.bytes();
    }
    let mut sealed = true;
    if let Some(frame) = Frame::at(bytes, position, next_index) {
        // Whole but without its seal: flushed and perhaps answered, so it counts.
        frame.decode(position, &mut records)?;
        next_index += u64::from(frame.count);
        position += frame.bytes();
        sealed = false;
    }
    Ok(Recovered { header, records, next_index, kept_bytes: position, sealed })
}

/// Position of the last seal that checks out.
fn last_seal(bytes: &[u8], salt: u64) -> Option<usize> {
    let salt_bytes = salt.to_le_bytes();
    let mut end = bytes.len();
    loop {
        let at = bytes.get(..end)?.windows(8).rposition(|window| window == salt_bytes)?;
        if at >= HEADER_BYTES && seal_at(bytes, at, salt).is_some() {
            return Some(at);
        }
        end = at + 7;
    }
}

/// The next index that the seal at `position` names, if there is one that checks out.
fn seal_at(bytes: &[u8], position: usize, salt: u64) -> Option<u64> {
    let seal = bytes.get(position..)?.first_chunk::<SEAL_BYTES>()?;
    let good = u64_at(seal, 0) == salt
        && usize::try_from(u64_at(seal, 8)) == Ok(position)
        && crc32c::crc32c(&seal[..24]) == u32_at(seal, 24);
    good.then(|| u64_at(seal, 16))
}

/// A frame whose checksum is right.
struct Frame<'a> {
    count: u32,
    records: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The frame at `position`, if it is whole, checks out and starts with record `index`.
    fn at(bytes: &'a [u8], position: usize, index: u64) -> Option<Self> {
        let rest = bytes.get(position..)?;
        let prefix = rest.first_chunk::<FRAME_BYTES>()?;
        let length = usize::try_from(u32_at(prefix, 0)).ok()?;
        if length > limits::METADATA_FRAME_BYTES_MAX {
            return None;
        }
        let body = rest.get(FRAME_PREFIX_BYTES..FRAME_PREFIX_BYTES.checked_add(length)?)?;
        let records = body.get(FRAME_BYTES - FRAME_PREFIX_BYTES..)?;
        let good = crc32c::crc32c(body) == u32_at(prefix, 4) && u64_at(prefix, 8) == index;
        good.then(|| Self { count: u32_at(prefix, 16), records })
    }

    fn bytes(&self) -> usize {
        FRAME_BYTES + self.records.len()
    }

    fn decode(&self, position: usize, out: &mut Vec<Record>) -> Result<(), String> {
        let place = |reason: &str| format!("{reason} in the group at byte {position}");
        let mut rest = self.records;
        for _ in 0..self.count {
            let (length, tail) =
                rest.split_first_chunk::<4>().ok_or_else(|| place("a record is missing"))?;
            let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
            let (record, tail) =
                tail.split_at_checked(length).ok_or_else(|| place("a record ends early"))?;
            out.push(Record::decode(record).map_err(|reason| place(&reason))?);
            rest = tail;
        }
        if rest.is_empty() { Ok(()) } else { Err(place("more bytes than records")) }
    }
}

fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    u32::from_le_bytes(*field.expect("a field lies within its fixed layout"))
}

fn u64_at<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    u64::from_le_bytes(*field.expect("a field lies within its fixed layout"))
}

#[cfg(test)]
pub(super) mod tests;
