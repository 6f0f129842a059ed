//! One connection to one broker, blocking: open with a deadline, send frames, receive frames.
//!
//! Owns the socket, the correlation ids and the versions the broker offers. Knows neither retries
//! nor which broker leads what. Any error leaves the link unusable: drop it and open another.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream, ToSocketAddrs},
    time::{Duration, Instant},
};

use kafka_wire::{ApiVersionsRequest, KafkaRequest, RequestResponsePair};
use kafka_wire_core::{ApiVersion, Bytes, BytesMut, StrBytes};
use millrace_engine::limits::FRAME_CAP_BYTES;

use super::{
    config::ClientConfig,
    error::{ClientError, Kind, Result},
    protocol::{self, Versions},
};

/// First allocation for an answer; it grows only with bytes that arrived.
const FIRST_READ_BYTES: usize = 64 << 10;

/// Kafka's code for a request version that the broker does not know.
const UNSUPPORTED_VERSION: i16 = 35;

/// A connection after its ApiVersions exchange.
#[derive(Debug)]
pub struct Link {
    writer: Writer,
    reader: Reader,
    request_timeout: Duration,
}

/// The sending half of a [`Link`].
#[derive(Debug)]
pub struct Writer {
    stream: TcpStream,
    address: String,
    client_id: StrBytes,
    next_correlation_id: i32,
    versions: Versions,
    buffer: BytesMut,
}

/// The receiving half of a [`Link`].
#[derive(Debug)]
pub struct Reader {
    stream: TcpStream,
    address: String,
}

impl Link {
    /// Connects to `address` (`host:port`) and learns the versions it offers.
    ///
    /// # Errors
    /// `Unreachable` or `TimedOut` when there is no broker; `Protocol` when it is none.
    pub fn open(address: &str, config: &ClientConfig) -> Result<Self> {
        let stream = connect(address, Duration::from_millis(config.connection_setup_timeout_ms))?;
        let other = stream.try_clone().map_err(|error| ClientError::from_io(address, &error))?;
        let mut link = Self {
            writer: Writer {
                stream,
                address: address.to_owned(),
                client_id: StrBytes::from(config.client_id.as_str()),
                next_correlation_id: 0,
                versions: Versions::default(),
                buffer: BytesMut::new(),
            },
            reader: Reader { stream: other, address: address.to_owned() },
            request_timeout: Duration::from_millis(config.request_timeout_ms),
        };
        link.greet()?;
        Ok(link)
    }

    fn greet(&mut self) -> Result<()> {
        // Version 3 is the newest that every broker since 2.4 takes; an older one answers a v0
        // body with UNSUPPORTED_VERSION.
        let mut response = None;
        for version in [3, 0] {
            let version = ApiVersion::new(version);
            let id = self.writer.send_version(&protocol::greeting(), version)?;
            let frame = self.receive(id, Instant::now() + self.request_timeout)?;
            if version.value() == 3 && frame.get(4..6) == Some(&UNSUPPORTED_VERSION.to_be_bytes()) {
                continue;
            }
            response = Some(protocol::decode::<ApiVersionsRequest>(frame, version)?);
            break;
        }
        let address = &self.writer.address;
        let response = response.ok_or_else(|| {
            ClientError::new(Kind::Protocol, format!("{address} does not answer as Kafka does"))
        })?;
        self.writer.versions = Versions::of(&response);
        Ok(())
    }

    /// Sends `request` in the highest common version and waits for its answer for at most
    /// `request.timeout.ms`, and not beyond `deadline`.
    ///
    /// # Errors
    /// Whatever ended the exchange; the link is then unusable.
    pub fn call<R: RequestResponsePair>(
        &mut self,
        request: &R,
        deadline: Instant,
    ) -> Result<R::Response> {
        let (id, version) = self.writer.send(request, i16::MAX)?;
        let frame = self.receive(id, deadline.min(Instant::now() + self.request_timeout))?;
        protocol::decode::<R>(frame, version)
    }

    fn receive(&mut self, id: i32, deadline: Instant) -> Result<Bytes> {
        let frame = self.reader.receive(Some(deadline))?;
        if protocol::correlation_id(&frame)? == id {
            return Ok(frame);
        }
        let address = &self.reader.address;
        Err(ClientError::new(Kind::Protocol, format!("{address} answered another request")))
    }

    /// The versions this broker offers.
    #[must_use]
    pub fn versions(&self) -> &Versions {
        &self.writer.versions
    }

    /// Both halves, for a thread each.
    #[must_use]
    pub fn split(self) -> (Writer, Reader) {
        (self.writer, self.reader)
    }
}

impl Writer {
    /// Sends `request` in the highest common version, at most `cap`; returns its correlation id
    /// and the version.
    ///
    /// # Errors
    /// `Protocol` without a common version, else the socket's.
    pub fn send<R: KafkaRequest>(&mut self, request: &R, cap: i16) -> Result<(i32, ApiVersion)> {
        let version = self.versions.pick::<R>(cap)?;
        Ok((self.send_version(request, version)?, version))
    }

    fn send_version<R: KafkaRequest>(&mut self, request: &R, version: ApiVersion) -> Result<i32> {
        let id = self.next_correlation_id;
        self.next_correlation_id = id.wrapping_add(1) & i32::MAX;
        self.buffer.clear();
        protocol::encode(&mut self.buffer, id, &self.client_id, request, version)?;
        self.stream
            .write_all(&self.buffer)
            .map_err(|error| ClientError::from_io(&self.address, &error))?;
        Ok(id)
    }

    /// The versions this broker offers.
    #[must_use]
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Ends the connection in both directions, so that a blocked reader returns.
    pub fn shutdown(&self) {
        // The peer may have closed first, which is as good.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Reader {
    /// The next response frame, without its length prefix.
    ///
    /// # Errors
    /// `TimedOut` at the deadline (bytes may be half read: drop the link), `Unreachable` at the end
    /// of the stream, `Protocol` for an impossible length.
    pub fn receive(&mut self, deadline: Option<Instant>) -> Result<Bytes> {
        let failed = |error: io::Error| ClientError::from_io(&self.address, &error);
        self.arm(deadline).map_err(failed)?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).map_err(failed)?;
        let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > FRAME_CAP_BYTES {
            return Err(ClientError::new(
                Kind::Protocol,
                format!("{} does not speak Kafka's protocol; check the port", self.address),
            ));
        }
        let mut frame = Vec::with_capacity(length.min(FIRST_READ_BYTES));
        let limit = u64::try_from(length).unwrap_or(u64::MAX);
        let read = (&mut self.stream).take(limit).read_to_end(&mut frame).map_err(failed)?;
        if read < length {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(Bytes::from(frame))
    }

    fn arm(&self, deadline: Option<Instant>) -> io::Result<()> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(left)
    }
}

fn connect(address: &str, timeout: Duration) -> Result<TcpStream> {
    let resolved = address.to_socket_addrs().map_err(|error| {
        ClientError::new(
            Kind::Unreachable,
            format!("{address} cannot be resolved ({error}); give HOST:PORT"),
        )
    })?;
    let mut last = None;
    for target in resolved {
        match TcpStream::connect_timeout(&target, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(|error| ClientError::from_io(address, &error))?;
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    let reason = last.map_or_else(|| "no address".to_owned(), |error| short(&error));
    let message = format!("cannot reach a broker at {address} ({reason}); is it running there?");
    Err(ClientError::new(Kind::Unreachable, message))
}

fn short(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::TimedOut => "no answer in time".to_owned(),
        _ => error.to_string(),
    }
}
