//! Reading of received bytes, wherever the slices of a frame happen to be cut.
//!
//! Every read is bounded by what is left of the message; a count is believed only as far as the
//! bytes behind it could hold that many elements.
//!
//! Invariant: `head` is empty only when nothing is left, and `head.len() <= remaining`.

use std::borrow::Cow;

use millrace_engine::{
    io::buf::{Chain, Slice},
    types::TopicId,
};

use super::DecodeError;

/// Longest string Kafka reads, in bytes.
const STRING_CAP_BYTES: usize = 0x7fff;

/// A reading position in a message; a copy of it is a place to come back to.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    slices: &'a [Slice],
    head: &'a [u8],
    /// Where `head` starts in the first slice, in bytes.
    at: usize,
    remaining: usize,
    flexible: bool,
}

type Result<T> = std::result::Result<T, DecodeError>;

impl<'a> Cursor<'a> {
    /// At the start of `frame`, without the four bytes of its length; classic encoding.
    #[must_use]
    pub fn new(frame: &'a Chain) -> Self {
        let slices = frame.slices();
        let head = slices.first().map_or(&[][..], |slice| slice);
        Self { slices, head, at: 0, remaining: frame.len(), flexible: false }
    }

    /// Bytes not yet read.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.remaining
    }

    /// Whether strings and arrays are compact and structs end in tagged fields (KIP-482).
    #[must_use]
    pub fn is_flexible(&self) -> bool {
        self.flexible
    }

    /// Chooses the flexible (KIP-482) or classic encoding for what follows.
    pub fn set_flexible(&mut self, flexible: bool) {
        self.flexible = flexible;
    }

    /// Checks that all was read.
    pub fn finish(self) -> Result<()> {
        if self.remaining == 0 { Ok(()) } else { Err(DecodeError::TrailingBytes(self.remaining)) }
    }

    /// Steps over the `count` first bytes of `head`.
    fn advance(&mut self, count: usize, rest: &'a [u8]) {
        self.head = rest;
        self.at += count;
        self.remaining = self.remaining.saturating_sub(count);
        while self.head.is_empty() && self.remaining > 0 {
            self.slices = self.slices.get(1..).unwrap_or_default();
            self.at = 0;
            let Some(next) = self.slices.first() else {
                self.remaining = 0;
                return;
            };
            self.head = next.get(..self.remaining).unwrap_or(next);
        }
    }

    /// The next `N` bytes.
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        if let Some((bytes, rest)) = self.head.split_first_chunk::<N>() {
            self.advance(N, rest);
            return Ok(*bytes);
        }
        let mut bytes = [0; N];
        self.copy_across(&mut bytes)?;
        Ok(bytes)
    }

    fn copy_across(&mut self, mut target: &mut [u8]) -> Result<()> {
        if target.len() > self.remaining {
            return Err(DecodeError::Truncated);
        }
        while !target.is_empty() {
            let count = target.len().min(self.head.len());
            let (from, rest) = self.head.split_at(count);
            let (to, left) = target.split_at_mut(count);
            to.copy_from_slice(from);
            target = left;
            self.advance(count, rest);
        }
        Ok(())
    }

    /// Steps over `count` bytes.
    pub fn skip(&mut self, mut count: usize) -> Result<()> {
        if count > self.remaining {
            return Err(DecodeError::Truncated);
        }
        while count > 0 {
            let step = count.min(self.head.len());
            let (_, rest) = self.head.split_at(step);
            count -= step;
            self.advance(step, rest);
        }
        Ok(())
    }

    /// The next `count` bytes, sharing the memory they were received in.
    pub fn take_chain(&mut self, mut count: usize) -> Result<Chain> {
        if count > self.remaining {
            return Err(DecodeError::Truncated);
        }
        let mut chain = Chain::new();
        while count > 0 {
            let step = count.min(self.head.len());
            let (_, rest) = self.head.split_at(step);
            if let Some(slice) = self.slices.first() {
                chain.push(slice.sub(self.at..self.at + step));
            }
            count -= step;
            self.advance(step, rest);
        }
        Ok(chain)
    }

    /// All bytes left, in one piece. For callers that have checked [`Cursor::remaining`].
    pub(super) fn gather(&mut self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.remaining];
        self.copy_across(&mut bytes)?;
        Ok(bytes)
    }

    /// A cursor over the next `count` bytes only, which this one steps over.
    pub fn take_part(&mut self, count: usize) -> Result<Self> {
        let mut part = *self;
        self.skip(count)?;
        part.remaining = count;
        part.head = part.head.get(..count).unwrap_or(part.head);
        Ok(part)
    }

    /// A signed byte.
    pub fn i8(&mut self) -> Result<i8> {
        self.array().map(i8::from_be_bytes)
    }

    /// A boolean: any byte but zero is true, as Kafka reads it.
    pub fn bool(&mut self) -> Result<bool> {
        Ok(self.i8()? != 0)
    }

    /// A 16-bit integer.
    pub fn i16(&mut self) -> Result<i16> {
        self.array().map(i16::from_be_bytes)
    }

    /// A 32-bit integer.
    pub fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    /// A 64-bit integer.
    pub fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// A topic id: 16 bytes.
    pub fn topic_id(&mut self) -> Result<TopicId> {
        self.array().map(TopicId)
    }

    /// An unsigned variable-length integer of at most 32 bits.
    pub fn uvarint(&mut self) -> Result<u32> {
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array::<1>()?;
            let part = u32::from(byte & 0x7f);
            if shift == 28 && part > 0x0f {
                return Err(DecodeError::Varint);
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Varint)
    }

    /// A compact length: null for 0, else one less than written.
    fn compact_length(&mut self) -> Result<Option<usize>> {
        let Some(length) = self.uvarint()?.checked_sub(1) else { return Ok(None) };
        usize::try_from(length).map(Some).map_err(|_| DecodeError::Length)
    }

    fn classic_length(length: i32) -> Result<Option<usize>> {
        match length {
            -1 => Ok(None),
            _ => usize::try_from(length).map(Some).map_err(|_| DecodeError::Length),
        }
    }

    /// A string, or `None` for null; borrowed unless it lies across two slices.
    pub fn nullable_string(&mut self) -> Result<Option<Cow<'a, str>>> {
        let length = if self.flexible {
            self.compact_length()?
        } else {
            Self::classic_length(i32::from(self.i16()?))?
        };
        length.map(|length| self.text(length)).transpose()
    }

    /// A string that must not be null.
    pub fn string(&mut self) -> Result<Cow<'a, str>> {
        self.nullable_string()?.ok_or(DecodeError::Null)
    }

    fn text(&mut self, length: usize) -> Result<Cow<'a, str>> {
        if length > STRING_CAP_BYTES {
            return Err(DecodeError::Length);
        }
        if length > self.remaining {
            return Err(DecodeError::Truncated);
        }
        if let Some((bytes, rest)) = self.head.split_at_checked(length) {
            let text = std::str::from_utf8(bytes).map_err(|_| DecodeError::Utf8)?;
            self.advance(length, rest);
            return Ok(Cow::Borrowed(text));
        }
        // Once per boundary of two receive buffers, and at most the 32 KiB checked above.
        let mut bytes = vec![0; length];
        self.copy_across(&mut bytes)?;
        String::from_utf8(bytes).map(Cow::Owned).map_err(|_| DecodeError::Utf8)
    }

    /// The length of a byte string that may be null, such as a record set; at most what is left.
    pub fn bytes_length(&mut self) -> Result<Option<usize>> {
        let length =
            if self.flexible { self.compact_length()? } else { Self::classic_length(self.i32()?)? };
        match length {
            Some(length) if length > self.remaining => Err(DecodeError::Truncated),
            length => Ok(length),
        }
    }

    /// The number of elements of an array that may be null, each of at least `element_min_bytes`
    /// (one or more): a count that the bytes left cannot hold is refused.
    pub fn nullable_array_length(&mut self, element_min_bytes: usize) -> Result<Option<usize>> {
        let length =
            if self.flexible { self.compact_length()? } else { Self::classic_length(self.i32()?)? };
        let Some(count) = length else { return Ok(None) };
        match count.checked_mul(element_min_bytes) {
            Some(least) if least <= self.remaining => Ok(Some(count)),
            _ => Err(DecodeError::Length),
        }
    }

    /// As [`Cursor::nullable_array_length`], for an array that must not be null.
    pub fn array_length(&mut self, element_min_bytes: usize) -> Result<usize> {
        self.nullable_array_length(element_min_bytes)?.ok_or(DecodeError::Null)
    }

    /// The tagged fields at the end of a flexible struct; nothing in a classic one. `field` gets
    /// each tag with a cursor over its bytes alone, and leaves alone what it does not know.
    pub fn tags(&mut self, mut field: impl FnMut(u32, Cursor<'a>) -> Result<()>) -> Result<()> {
        if !self.flexible {
            return Ok(());
        }
        for _ in 0..self.uvarint()? {
            let tag = self.uvarint()?;
            let length = usize::try_from(self.uvarint()?).map_err(|_| DecodeError::Length)?;
            field(tag, self.take_part(length)?)?;
        }
        Ok(())
    }

    /// Steps over the tagged fields of a struct that has none of its own.
    pub fn skip_tags(&mut self) -> Result<()> {
        self.tags(|_, _| Ok(()))
    }
}

#[cfg(test)]
mod tests;
