//! Arrays inside messages, either as values to write or as bytes to read.

use std::marker::PhantomData;

use millrace_engine::types::TopicId;

use super::{Cursor, DecodeError, Sink};

/// A part of a message that can be written.
pub trait Field {
    /// Writes it as `version` of its message has it.
    fn write<S: Sink>(&self, out: &mut S, version: i16);
}

/// One element of an array, or the value of a tagged field: what it looks like on the wire.
pub trait Element<'a>: Field + Clone {
    /// The least bytes it takes in any version; at least one.
    const MIN_BYTES: usize;
    /// Reads one.
    fn read(cursor: &mut Cursor<'a>, version: i16) -> Result<Self, DecodeError>;
    /// Steps over one with all the checks of [`Element::read`].
    fn skip(cursor: &mut Cursor<'a>, version: i16) -> Result<(), DecodeError> {
        Self::read(cursor, version).map(drop)
    }
}

impl<'a> Element<'a> for i32 {
    const MIN_BYTES: usize = 4;

    fn read(cursor: &mut Cursor<'a>, _: i16) -> Result<Self, DecodeError> {
        cursor.i32()
    }
}

impl Field for i32 {
    fn write<S: Sink>(&self, out: &mut S, _: i16) {
        out.i32(*self);
    }
}

impl Field for i64 {
    fn write<S: Sink>(&self, out: &mut S, _: i16) {
        out.i64(*self);
    }
}

impl Field for bool {
    fn write<S: Sink>(&self, out: &mut S, _: i16) {
        out.bool(*self);
    }
}

impl Field for TopicId {
    fn write<S: Sink>(&self, out: &mut S, _: i16) {
        out.topic_id(*self);
    }
}

/// An array of `T`.
#[derive(Clone, Debug)]
pub enum List<'a, T> {
    /// Values of the writer's own.
    Values(&'a [T]),
    /// Bytes of a received message, read whenever it is walked.
    Encoded(EncodedList<'a, T>),
}

impl<T> Default for List<'_, T> {
    fn default() -> Self {
        Self::Values(&[])
    }
}

impl<'a, T> From<&'a [T]> for List<'a, T> {
    fn from(values: &'a [T]) -> Self {
        Self::Values(values)
    }
}

impl<'a, T: Element<'a>> List<'a, T> {
    /// Reads an array that must not be null.
    pub(super) fn read(cursor: &mut Cursor<'a>, version: i16) -> Result<Self, DecodeError> {
        Self::read_nullable(cursor, version)?.ok_or(DecodeError::Null)
    }

    /// Reads an array that may be null, and checks every element of it.
    pub(super) fn read_nullable(
        cursor: &mut Cursor<'a>,
        version: i16,
    ) -> Result<Option<Self>, DecodeError> {
        let Some(count) = cursor.nullable_array_length(T::MIN_BYTES)? else { return Ok(None) };
        let start = *cursor;
        for _ in 0..count {
            T::skip(cursor, version)?;
        }
        Ok(Some(Self::Encoded(EncodedList { cursor: start, count, version, of: PhantomData })))
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Values(values) => values.len(),
            Self::Encoded(encoded) => encoded.count,
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let (values, encoded) = match self {
            Self::Values(values) => (*values, None),
            Self::Encoded(encoded) => (&[][..], Some(encoded.clone())),
        };
        values.iter().cloned().chain(encoded.into_iter().flatten())
    }
}

impl<'a, T: Element<'a>> Field for List<'a, T> {
    fn write<S: Sink>(&self, out: &mut S, version: i16) {
        out.length(Some(self.len()));
        match self {
            Self::Values(values) => values.iter().for_each(|value| value.write(out, version)),
            Self::Encoded(list) => list.clone().for_each(|value| value.write(out, version)),
        }
    }
}

/// An array as received, walked to its end once before.
#[derive(Debug)]
pub struct EncodedList<'a, T> {
    cursor: Cursor<'a>,
    count: usize,
    version: i16,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for EncodedList<'_, T> {
    fn clone(&self) -> Self {
        Self { of: PhantomData, ..*self }
    }
}

impl<'a, T: Element<'a>> Iterator for EncodedList<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.count = self.count.checked_sub(1)?;
        T::read(&mut self.cursor, self.version).ok()
    }
}
