//! The frame of every small file of ours: magic (4 bytes), version (u16), zero (u16), length of the
//! content (u32), CRC-32C over everything but itself (u32), content. Big endian, as Kafka's files.
//!
//! Reading is total: whatever is wrong with the bytes is `None`, and the caller rebuilds.

/// Bytes before the content.
pub(super) const FRAME_BYTES: usize = 16;
const CHECKSUM_AT: usize = 12;

/// Which of our files a frame is, and the version of its content.
pub(super) struct Format {
    /// First four bytes.
    pub(super) magic: [u8; 4],
    /// Written, and the only one read.
    pub(super) version: u16,
}

impl Format {
    /// Frames `content`.
    pub(super) fn encode(&self, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FRAME_BYTES + content.len());
        let length = u32::try_from(content.len()).expect("our files stay far below 4 GiB");
        bytes.extend_from_slice(&self.magic);
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(content);
        let checksum = checksum(&bytes[..CHECKSUM_AT], content);
        bytes[CHECKSUM_AT..FRAME_BYTES].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// The content of a frame at the front of `bytes`; what follows it is ignored.
    pub(super) fn decode<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (head, rest) = bytes.split_first_chunk::<FRAME_BYTES>()?;
        let mut fields = Fields(head);
        let known = fields.array::<4>()? == self.magic && fields.u16()? == self.version;
        let reserved = fields.u16()?;
        let content = rest.get(..usize::try_from(fields.u32()?).ok()?)?;
        let good = fields.u32()? == checksum(&head[..CHECKSUM_AT], content);
        (known && good && reserved == 0).then_some(content)
    }
}

fn checksum(head: &[u8], content: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(head), content)
}

/// Reads big-endian fields off the front; `None` when the bytes end.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl Fields<'_> {
    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    /// The next byte.
    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    /// The next two bytes.
    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next two bytes, signed.
    pub(super) fn i16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    /// The next four bytes.
    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next four bytes, signed.
    pub(super) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    /// The next eight bytes.
    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// The next eight bytes, signed.
    pub(super) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }
}
