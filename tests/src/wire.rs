//! The Kafka protocol by hand, as little of it as the suites need.
//!
//! Owns a connection that can also send what no client would. Shares no code with the broker, so
//! that a mistake in its codec cannot hide here. Failure behaviour: every read has a time limit; a
//! connection closed by the broker is an error of kind `UnexpectedEof`.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// How long to wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// No answer that a suite asks for is longer.
const ANSWER_CAP_BYTES: usize = 64 << 20;

/// Api keys, as in the protocol guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "Kafka's own names")]
pub enum ApiKey {
    Produce = 0,
    Fetch = 1,
    ListOffsets = 2,
    Metadata = 3,
    ApiVersions = 18,
    CreateTopics = 19,
    DeleteTopics = 20,
}

/// A connection that speaks raw frames.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    correlation: i32,
}

impl Connection {
    /// Connects, without a word.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self { stream, correlation: 0 })
    }

    /// The socket, for whatever a suite wants to do to it.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends one request with a version 1 header (no tagged fields), so for versions that are not
    /// flexible, and returns its correlation id.
    pub fn send(&mut self, key: ApiKey, version: i16, body: &[u8]) -> io::Result<i32> {
        self.correlation += 1;
        let frame = request(key as i16, version, self.correlation, body);
        self.send_raw(&frame)?;
        Ok(self.correlation)
    }

    /// Reads one answer: its correlation id and what follows.
    pub fn receive(&mut self) -> io::Result<(i32, Vec<u8>)> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size)?;
        let size = usize::try_from(i32::from_be_bytes(size)).map_err(io::Error::other)?;
        if !(4..=ANSWER_CAP_BYTES).contains(&size) {
            return Err(io::Error::other(format!("an answer of {size} bytes")));
        }
        let mut body = vec![0; size];
        self.stream.read_exact(&mut body)?;
        let rest = body.split_off(4);
        let id: [u8; 4] = body.try_into().expect("split at four");
        Ok((i32::from_be_bytes(id), rest))
    }

    /// Sends one request and waits for its answer.
    pub fn call(&mut self, key: ApiKey, version: i16, body: &[u8]) -> io::Result<Vec<u8>> {
        let sent = self.send(key, version, body)?;
        let (id, answer) = self.receive()?;
        if id == sent { Ok(answer) } else { Err(io::Error::other(format!("{id} for {sent}"))) }
    }

    /// The version ranges that the broker offers: key, lowest, highest.
    pub fn api_versions(&mut self) -> io::Result<Vec<(i16, i16, i16)>> {
        let answer = self.call(ApiKey::ApiVersions, 0, &[])?;
        let mut body = Reader::new(&answer);
        let error = body.i16()?;
        if error != 0 {
            return Err(io::Error::other(format!("ApiVersions: error {error}")));
        }
        let rows = body.array_length()?;
        (0..rows).map(|_| Ok((body.i16()?, body.i16()?, body.i16()?))).collect()
    }

    /// Creates a topic (CreateTopics version 2); an existing one is fine.
    pub fn create_topic(&mut self, topic: &str, partitions: i32) -> io::Result<()> {
        self.create_topic_with(topic, partitions, &[])
    }

    /// Creates a topic with settings.
    pub fn create_topic_with(
        &mut self,
        topic: &str,
        partitions: i32,
        settings: &[(&str, &str)],
    ) -> io::Result<()> {
        let mut body = Writer::default();
        body.i32(1).string(topic).i32(partitions).i16(1).i32(0);
        body.i32(i32::try_from(settings.len()).map_err(io::Error::other)?);
        for (name, value) in settings {
            body.string(name).string(value);
        }
        body.i32(30_000).u8(0);
        let answer = self.call(ApiKey::CreateTopics, 2, &body.bytes)?;
        let mut answer = Reader::new(&answer);
        let (_throttle, _topics, _name) = (answer.i32()?, answer.i32()?, answer.string()?);
        match answer.i16()? {
            0 | TOPIC_ALREADY_EXISTS => Ok(()),
            error => Err(io::Error::other(format!("CreateTopics {topic}: error {error}"))),
        }
    }

    /// Deletes a topic (DeleteTopics version 1).
    pub fn delete_topic(&mut self, topic: &str) -> io::Result<()> {
        let mut body = Writer::default();
        body.i32(1).string(topic).i32(30_000);
        let answer = self.call(ApiKey::DeleteTopics, 1, &body.bytes)?;
        let mut answer = Reader::new(&answer);
        let (_throttle, _topics, _name) = (answer.i32()?, answer.i32()?, answer.string()?);
        match answer.i16()? {
            0 => Ok(()),
            error => Err(io::Error::other(format!("DeleteTopics {topic}: error {error}"))),
        }
    }

    /// Appends one record to a partition with acks=all (Produce version 7) and returns its offset.
    pub fn produce(&mut self, topic: &str, partition: i32, value: &[u8]) -> io::Result<i64> {
        let body = produce_body(topic, partition, &one_record_batch(value));
        let answer = self.call(ApiKey::Produce, 7, &body)?;
        let mut answer = Reader::new(&answer);
        let (_topics, _name) = (answer.i32()?, answer.string()?);
        let (_partitions, _index, error) = (answer.i32()?, answer.i32()?, answer.i16()?);
        if error == 0 { answer.i64() } else { Err(io::Error::other(format!("error {error}"))) }
    }

    /// The offset that the partition's next record gets (ListOffsets version 1, latest).
    pub fn end_offset(&mut self, topic: &str, partition: i32) -> io::Result<i64> {
        let mut body = Writer::default();
        body.i32(-1).i32(1).string(topic).i32(1).i32(partition).i64(-1);
        let answer = self.call(ApiKey::ListOffsets, 1, &body.bytes)?;
        let mut answer = Reader::new(&answer);
        let (_topics, _name) = (answer.i32()?, answer.string()?);
        let (_partitions, _index, error) = (answer.i32()?, answer.i32()?, answer.i16()?);
        let _timestamp = answer.i64()?;
        if error == 0 { answer.i64() } else { Err(io::Error::other(format!("error {error}"))) }
    }
}

/// Kafka's code for a topic that is there already.
const TOPIC_ALREADY_EXISTS: i16 = 36;

/// A whole request frame with a version 1 header.
#[must_use]
pub fn request(key: i16, version: i16, correlation: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = Writer::default();
    frame.i16(key).i16(version).i32(correlation).string("proof");
    frame.bytes.extend_from_slice(body);
    let size = i32::try_from(frame.bytes.len()).expect("a test's frame is small");
    let mut sized = size.to_be_bytes().to_vec();
    sized.append(&mut frame.bytes);
    sized
}

/// The body of a Produce request, version 3 to 8, acks=all, for one partition.
#[must_use]
pub fn produce_body(topic: &str, partition: i32, batch: &[u8]) -> Vec<u8> {
    let mut body = Writer::default();
    body.i16(-1).i16(-1).i32(30_000).i32(1).string(topic).i32(1).i32(partition);
    body.i32(i32::try_from(batch.len()).expect("a test's batch is small"));
    body.bytes.extend_from_slice(batch);
    body.bytes
}

/// A version 2 record batch with one record, no key, no headers, no producer id.
#[must_use]
pub fn one_record_batch(value: &[u8]) -> Vec<u8> {
    let mut record = Writer::default();
    record.u8(0).varint(0).varint(0).varint(-1);
    record.varint(i64::try_from(value.len()).expect("a test's value is small"));
    record.bytes.extend_from_slice(value);
    record.varint(0);
    let mut checked = Writer::default();
    checked.i16(0).i32(0).i64(1_000).i64(1_000).i64(-1).i16(-1).i32(-1).i32(1);
    checked.varint(i64::try_from(record.bytes.len()).expect("a test's record is small"));
    checked.bytes.append(&mut record.bytes);
    let mut batch = Writer::default();
    let length = 4 + 1 + 4 + checked.bytes.len();
    batch.i64(0).i32(i32::try_from(length).expect("a test's batch is small")).i32(-1).u8(2);
    batch.bytes.extend_from_slice(&crc32c::crc32c(&checked.bytes).to_be_bytes());
    batch.bytes.append(&mut checked.bytes);
    batch.bytes
}

/// Builds a body of big-endian fields.
#[derive(Debug, Default)]
pub struct Writer {
    /// What was written so far.
    pub bytes: Vec<u8>,
}

impl Writer {
    /// Appends a byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes.push(value);
        self
    }

    /// Appends an INT16.
    pub fn i16(&mut self, value: i16) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// Appends an INT32.
    pub fn i32(&mut self, value: i32) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// Appends an INT64.
    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// Appends a STRING with its INT16 length.
    pub fn string(&mut self, value: &str) -> &mut Self {
        self.i16(i16::try_from(value.len()).expect("a test's string is short"));
        self.bytes.extend_from_slice(value.as_bytes());
        self
    }

    /// Appends a VARLONG: zig-zag, then seven bits a byte.
    pub fn varint(&mut self, value: i64) -> &mut Self {
        let mut rest = (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned();
        while rest >= 0x80 {
            let low = u8::try_from(rest & 0x7f).expect("seven bits");
            self.bytes.push(low | 0x80);
            rest >>= 7;
        }
        self.u8(u8::try_from(rest).expect("below 0x80"))
    }
}

/// Reads big-endian fields of an answer.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from the start.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(io::ErrorKind::UnexpectedEof)?;
        self.rest = rest;
        Ok(*head)
    }

    /// An INT16.
    pub fn i16(&mut self) -> io::Result<i16> {
        self.take().map(i16::from_be_bytes)
    }

    /// An INT32.
    pub fn i32(&mut self) -> io::Result<i32> {
        self.take().map(i32::from_be_bytes)
    }

    /// An INT64.
    pub fn i64(&mut self) -> io::Result<i64> {
        self.take().map(i64::from_be_bytes)
    }

    /// The length of an array that is not null.
    pub fn array_length(&mut self) -> io::Result<usize> {
        usize::try_from(self.i32()?).map_err(io::Error::other)
    }

    /// A STRING; null is empty.
    pub fn string(&mut self) -> io::Result<String> {
        let length = usize::try_from(self.i16()?).unwrap_or(0);
        let text = self.rest.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.rest = text.1;
        Ok(String::from_utf8_lossy(text.0).into_owned())
    }
}
