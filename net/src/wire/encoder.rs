//! Writing of frames as chains: headers into pooled buffers, payload linked in place.
//!
//! A message is written twice through the same code: first into a counter, so that the frame's
//! length goes first and the right buffer is taken, then into the buffers. No payload byte is
//! copied, and nothing is allocated as long as a frame has no more pieces than a [`Chain`] keeps
//! in place. Frames share buffers; a frame's bytes never change once it is handed out.
//!
//! Failure: the first error sticks to the frame in work, which is then dropped; the encoder goes on
//! with the next one.

use kafka_wire_core::Bytes;
use millrace_engine::{
    io::buf::{Chain, Pool, TailBuf},
    types::TopicId,
};

use super::{EncodeError, Field, Message, Request, RequestHeader};

/// Bytes of the length in front of every frame.
const LENGTH_BYTES: usize = 4;

/// Where a message is written to: a counter or the buffers of a frame.
pub trait Sink: Sized {
    /// Writes bytes.
    fn put(&mut self, bytes: &[u8]);
    /// Adds payload without copying it.
    fn link(&mut self, payload: &Chain);
    /// Writes `length` bytes that `make` would return; a counter does not ask for them.
    fn put_made(&mut self, length: usize, make: impl FnOnce() -> Result<Bytes, EncodeError>);
    /// Marks the frame as failed; only the first error counts.
    fn fail(&mut self, error: EncodeError);
    /// Whether strings and arrays are compact and structs end in tagged fields (KIP-482).
    fn is_flexible(&self) -> bool;
    /// Chooses the flexible (KIP-482) or classic encoding for what follows.
    fn set_flexible(&mut self, flexible: bool);

    /// A signed byte.
    fn i8(&mut self, value: i8) {
        self.put(&value.to_be_bytes());
    }

    /// A boolean.
    fn bool(&mut self, value: bool) {
        self.put(&[u8::from(value)]);
    }

    /// A 16-bit integer.
    fn i16(&mut self, value: i16) {
        self.put(&value.to_be_bytes());
    }

    /// A 32-bit integer.
    fn i32(&mut self, value: i32) {
        self.put(&value.to_be_bytes());
    }

    /// A 64-bit integer.
    fn i64(&mut self, value: i64) {
        self.put(&value.to_be_bytes());
    }

    /// A topic id: 16 bytes.
    fn topic_id(&mut self, value: TopicId) {
        self.put(&value.0);
    }

    /// An unsigned variable-length integer.
    fn uvarint(&mut self, mut value: u32) {
        let mut bytes = [0; 5];
        let mut count = 0;
        for byte in &mut bytes {
            count += 1;
            let [.., low] = value.to_be_bytes();
            value >>= 7;
            *byte = low & 0x7f;
            if value == 0 {
                break;
            }
            *byte |= 0x80;
        }
        self.put(bytes.get(..count).unwrap_or(&bytes));
    }

    /// A length in the compact form; `None` is null.
    fn compact_length(&mut self, length: Option<usize>) {
        let plus_one = length.map_or(Some(0), |length| length.checked_add(1));
        match plus_one.and_then(|value| i32::try_from(value).ok()) {
            Some(value) => self.uvarint(value.cast_unsigned()),
            None => self.fail(EncodeError::TooLong),
        }
    }

    /// A length as a 32-bit integer or in the compact form; `None` is null.
    fn length(&mut self, length: Option<usize>) {
        if self.is_flexible() {
            return self.compact_length(length);
        }
        match length.map_or(Ok(-1), i32::try_from) {
            Ok(length) => self.i32(length),
            Err(_) => self.fail(EncodeError::TooLong),
        }
    }

    /// A string, or null.
    fn nullable_string(&mut self, value: Option<&str>) {
        let length = value.map(str::len);
        match length.map_or(Ok(-1), i16::try_from) {
            Err(_) => return self.fail(EncodeError::TooLong),
            Ok(_) if self.is_flexible() => self.compact_length(length),
            Ok(length) => self.i16(length),
        }
        self.put(value.unwrap_or_default().as_bytes());
    }

    /// A string.
    fn string(&mut self, value: &str) {
        self.nullable_string(Some(value));
    }

    /// A record set, linked: empty rather than null when there is none, as Kafka answers.
    fn records(&mut self, records: &Chain) {
        self.length(Some(records.len()));
        self.link(records);
    }

    /// The number of tagged fields that follow; nothing in a classic struct.
    fn tag_count(&mut self, count: u32) {
        if self.is_flexible() {
            self.uvarint(count);
        }
    }

    /// One tagged field.
    fn tag<T: Field>(&mut self, tag: u32, value: &T, version: i16) {
        let mut size = Counter { flexible: true, ..Counter::default() };
        value.write(&mut size, version);
        self.uvarint(tag);
        match u32::try_from(size.bytes) {
            Ok(bytes) => self.uvarint(bytes),
            Err(_) => self.fail(EncodeError::TooLong),
        }
        value.write(self, version);
    }
}

/// Counts what a message takes.
#[derive(Default)]
struct Counter {
    bytes: usize,
    linked_bytes: usize,
    flexible: bool,
    failure: Option<EncodeError>,
}

impl Sink for Counter {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len());
    }

    fn link(&mut self, payload: &Chain) {
        self.bytes = self.bytes.saturating_add(payload.len());
        self.linked_bytes = self.linked_bytes.saturating_add(payload.len());
    }

    fn put_made(&mut self, length: usize, _: impl FnOnce() -> Result<Bytes, EncodeError>) {
        self.bytes = self.bytes.saturating_add(length);
    }

    fn fail(&mut self, error: EncodeError) {
        self.failure.get_or_insert(error);
    }

    fn is_flexible(&self) -> bool {
        self.flexible
    }

    fn set_flexible(&mut self, flexible: bool) {
        self.flexible = flexible;
    }
}

/// Builds frames out of one pool; one per connection or per shard, never shared between threads.
#[derive(Debug)]
pub struct Encoder {
    pool: Pool,
    /// Whether a spent pool is made up for by memory of its own.
    overflows: bool,
    buffer: Option<TailBuf>,
    /// Where the bytes not yet in `chain` start in `buffer`.
    run_start: usize,
    chain: Chain,
    /// Header bytes that this frame still needs.
    wanted_bytes: usize,
    flexible: bool,
    failure: Option<EncodeError>,
}

impl Encoder {
    /// An encoder that takes its buffers from `pool`.
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        Self {
            pool,
            overflows: false,
            buffer: None,
            run_start: 0,
            chain: Chain::new(),
            wanted_bytes: 0,
            flexible: false,
            failure: None,
        }
    }

    /// An encoder of answers, which takes memory of its own when `pool` is spent: a client that
    /// sent a good request is owed its answer, whoever holds the pool. The caller bounds how many
    /// answers there are at a time.
    #[must_use]
    pub fn for_answers(pool: Pool) -> Self {
        Self { overflows: true, ..Self::new(pool) }
    }

    /// A whole request frame with its length in front, as a client sends it.
    pub fn request<R: Request>(
        &mut self,
        header: &RequestHeader<'_>,
        body: &R,
    ) -> Result<Chain, EncodeError> {
        assert_eq!(header.key, R::KEY, "the header names the body's API");
        self.frame(&RequestFrame { header, body })
    }

    /// A whole response frame with its length in front.
    pub fn response<M: Message>(
        &mut self,
        version: i16,
        correlation_id: i32,
        body: &M,
    ) -> Result<Chain, EncodeError> {
        self.frame(&ResponseFrame { version, correlation_id, body })
    }

    fn frame<F: Frame>(&mut self, frame: &F) -> Result<Chain, EncodeError> {
        let mut size = Counter::default();
        frame.write(&mut size);
        if let Some(failure) = size.failure {
            return Err(failure);
        }
        let length = i32::try_from(size.bytes).map_err(|_| EncodeError::TooLong)?;
        self.wanted_bytes = size.bytes - size.linked_bytes + LENGTH_BYTES;
        self.i32(length);
        frame.write(self);
        self.end_run();
        let chain = std::mem::take(&mut self.chain);
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => {
                assert_eq!(chain.len(), size.bytes + LENGTH_BYTES, "both passes write the same");
                Ok(chain)
            }
        }
    }

    /// Moves what was written since the last payload into the chain.
    fn end_run(&mut self) {
        if let Some(buffer) = &self.buffer {
            self.chain.push(buffer.slice(self.run_start..buffer.len()));
            self.run_start = buffer.len();
        }
    }

    fn next_buffer(&mut self) -> bool {
        self.end_run();
        let own = || self.overflows.then(|| TailBuf::unpooled(self.wanted_bytes));
        self.buffer = self.pool.take(self.wanted_bytes).or_else(own);
        self.run_start = 0;
        if self.buffer.is_none() {
            self.fail(EncodeError::NoBuffer);
        }
        self.buffer.is_some()
    }
}

impl Sink for Encoder {
    fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.failure.is_none() {
            let written = self.buffer.as_mut().map_or(0, |buffer| buffer.append(bytes));
            self.wanted_bytes = self.wanted_bytes.saturating_sub(written);
            bytes = bytes.get(written..).unwrap_or_default();
            if !bytes.is_empty() && !self.next_buffer() {
                return;
            }
        }
    }

    fn link(&mut self, payload: &Chain) {
        self.end_run();
        for slice in payload.slices() {
            self.chain.push(slice.clone());
        }
    }

    fn put_made(&mut self, _: usize, make: impl FnOnce() -> Result<Bytes, EncodeError>) {
        match make() {
            Ok(bytes) => self.put(&bytes),
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: EncodeError) {
        self.failure.get_or_insert(error);
    }

    fn is_flexible(&self) -> bool {
        self.flexible
    }

    fn set_flexible(&mut self, flexible: bool) {
        self.flexible = flexible;
    }
}

/// Header and body as one thing to write twice.
trait Frame {
    fn write<S: Sink>(&self, out: &mut S);
}

struct RequestFrame<'a, R> {
    header: &'a RequestHeader<'a>,
    body: &'a R,
}

impl<R: Request> Frame for RequestFrame<'_, R> {
    fn write<S: Sink>(&self, out: &mut S) {
        self.header.write(out);
        out.set_flexible(R::KEY.is_flexible(self.header.version));
        self.body.write(out, self.header.version);
    }
}

struct ResponseFrame<'a, M> {
    version: i16,
    correlation_id: i32,
    body: &'a M,
}

impl<M: Message> Frame for ResponseFrame<'_, M> {
    fn write<S: Sink>(&self, out: &mut S) {
        out.set_flexible(M::KEY.has_flexible_response_header(self.version));
        out.i32(self.correlation_id);
        out.tag_count(0);
        out.set_flexible(M::KEY.is_flexible(self.version));
        self.body.write(out, self.version);
    }
}

#[cfg(test)]
mod tests;
