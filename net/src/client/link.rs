//! One connection to one broker, blocking: open with a deadline, send frames, receive frames.
//!
//! Owns the socket, the correlation ids and the versions the broker offers. Knows neither retries
//! nor which broker leads what. Any error leaves the link unusable: drop it and open another.

use std::{
    borrow::Cow,
    io::{self, IoSlice, Read, Write},
    net::{Shutdown, TcpStream, ToSocketAddrs},
    time::{Duration, Instant},
};

use millrace_engine::{
    io::buf::{Chain, Pool, TailBuf},
    limits::{FRAME_CAP_BYTES, READ_CHUNK_BYTES},
};

use super::{
    config::ClientConfig,
    error::{ClientError, Kind, Result},
    protocol::{self, Versions},
};
use crate::wire::{
    ApiKey, DecodeError, Encoder, ErrorCode, Request, RequestHeader,
    api_versions::ApiVersionsRequest, frame::response_length,
};

/// Memory for the headers of requests that are being sent, in bytes; payload is not copied there.
const HEADER_BUDGET_BYTES: usize = 8 << 20;

/// Pieces of a frame handed to one write.
const SLICES_PER_WRITE: usize = 64;

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
    /// Longest time that a request may take to leave: `request.timeout.ms`.
    patience: Duration,
    address: String,
    client_id: String,
    next_correlation_id: i32,
    versions: Versions,
    encoder: Encoder,
}

/// The receiving half of a [`Link`].
#[derive(Debug)]
pub struct Reader {
    stream: TcpStream,
    address: String,
    scratch: Vec<u8>,
}

impl Link {
    /// Connects to `address` (`host:port`) and learns the versions it offers.
    ///
    /// # Errors
    /// `Unreachable` or `TimedOut` when there is no broker; `Protocol` when it is none.
    pub fn open(address: &str, config: &ClientConfig) -> Result<Self> {
        let stream = connect(address, Duration::from_millis(config.connection_setup_timeout_ms))?;
        let failed = |error: io::Error| ClientError::from_io(address, &error);
        let other = stream.try_clone().map_err(failed)?;
        // Zero is not a timeout to the system.
        let patience = Duration::from_millis(config.request_timeout_ms.max(1));
        stream.set_write_timeout(Some(patience)).map_err(failed)?;
        let mut link = Self {
            writer: Writer {
                stream,
                patience,
                address: address.to_owned(),
                client_id: config.client_id.clone(),
                next_correlation_id: 0,
                versions: Versions::default(),
                encoder: Encoder::new(Pool::new(HEADER_BUDGET_BYTES)),
            },
            reader: Reader { stream: other, address: address.to_owned(), scratch: Vec::new() },
            request_timeout: Duration::from_millis(config.request_timeout_ms),
        };
        link.greet()?;
        Ok(link)
    }

    fn greet(&mut self) -> Result<()> {
        // Version 3 is the newest that every broker since 2.4 takes; an older one answers a v0
        // body with UNSUPPORTED_VERSION.
        for version in [3, 0] {
            let id = self.writer.next_id();
            self.writer.send_as(id, version, &protocol::greeting())?;
            let frame = self.receive(id, Instant::now() + self.request_timeout)?;
            let mut code = [0; 2];
            if frame.len() >= 6 {
                frame.copy_to(4, &mut code);
            }
            if version == 3 && code == ErrorCode::UnsupportedVersion.code().to_be_bytes() {
                continue;
            }
            let (_, response) = self.writer.read::<ApiVersionsRequest<'_>>(&frame, version)?;
            self.writer.versions = Versions::of(&response);
            return Ok(());
        }
        let message = format!("{} does not answer as Kafka does", self.writer.address);
        Err(ClientError::new(Kind::Protocol, message))
    }

    /// Sends `request` in the highest common version and waits for its answer for at most
    /// `request.timeout.ms`, and not beyond `deadline`.
    ///
    /// # Errors
    /// Whatever ended the exchange; the link is then unusable.
    pub fn call<R, A>(&mut self, request: &R, deadline: Instant) -> Result<A>
    where
        R: for<'r> Request<Response<'r> = A>,
    {
        let (frame, version) = self.exchange(request, i16::MAX, deadline)?;
        self.writer.read::<R>(&frame, version).map(|(_, answer)| answer)
    }

    /// As [`Link::call`] in a version of at most `cap`; the answer's frame, to be read in place.
    ///
    /// # Errors
    /// As [`Link::call`].
    pub fn exchange<R: Request>(
        &mut self,
        request: &R,
        cap: i16,
        deadline: Instant,
    ) -> Result<(Chain, i16)> {
        let (id, version) = self.writer.send(request, cap)?;
        let frame = self.receive(id, deadline.min(Instant::now() + self.request_timeout))?;
        Ok((frame, version))
    }

    /// Sends `request` and does not wait; see [`Writer::send`].
    ///
    /// # Errors
    /// As [`Writer::send`].
    pub fn send<R: Request>(&mut self, request: &R, cap: i16) -> Result<(i32, i16)> {
        self.writer.send(request, cap)
    }

    /// Whether an answer begins to arrive before `deadline`.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn wait_readable(&mut self, deadline: Instant) -> Result<bool> {
        self.reader.wait_readable(deadline)
    }

    /// The body of an answer in `frame`, read in place.
    ///
    /// # Errors
    /// `Protocol` when the bytes are not such an answer.
    pub fn read<'f, R: Request>(&self, frame: &'f Chain, version: i16) -> Result<R::Response<'f>> {
        self.writer.read::<R>(frame, version).map(|(_, answer)| answer)
    }

    /// Waits for the answer to the request `id`, the oldest not answered.
    ///
    /// # Errors
    /// As [`Reader::receive`], and `Protocol` for an answer to another request.
    pub fn receive(&mut self, id: i32, deadline: Instant) -> Result<Chain> {
        let frame = self.reader.receive(Some(deadline))?;
        if correlation_id(&frame) == id {
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
    pub fn send<R: Request>(&mut self, request: &R, cap: i16) -> Result<(i32, i16)> {
        let (id, version) = self.next(R::KEY, cap)?;
        self.send_as(id, version, request)?;
        Ok((id, version))
    }

    /// The correlation id of the next request, and the highest common version of `key` that is at
    /// most `cap`; for a caller that has to know them before the answer can come.
    ///
    /// # Errors
    /// `Protocol` without a common version.
    pub fn next(&mut self, key: ApiKey, cap: i16) -> Result<(i32, i16)> {
        let version = self.versions.pick(key, cap)?;
        Ok((self.next_id(), version))
    }

    fn next_id(&mut self) -> i32 {
        let id = self.next_correlation_id;
        self.next_correlation_id = id.wrapping_add(1) & i32::MAX;
        id
    }

    /// Sends `request` under the id and version of [`Writer::next`].
    ///
    /// # Errors
    /// `Invalid` when it cannot be said so, `TimedOut` when the broker does not take it within
    /// `request.timeout.ms`, else the socket's.
    pub fn send_as<R: Request>(&mut self, id: i32, version: i16, request: &R) -> Result<()> {
        let header = RequestHeader {
            key: R::KEY,
            version,
            correlation_id: id,
            client_id: Some(Cow::Borrowed(&self.client_id)),
        };
        let frame = self
            .encoder
            .request(&header, request)
            .map_err(|error| ClientError::invalid(format!("{:?}: {error}", R::KEY)))?;
        write_chain(&mut self.stream, &frame, self.patience)
            .map_err(|error| ClientError::from_io(&self.address, &error))
    }

    /// The answer to a request `R` of `version` in `frame`, with its correlation id.
    ///
    /// # Errors
    /// `Protocol` when the bytes are not such an answer.
    pub fn read<'f, R: Request>(
        &self,
        frame: &'f Chain,
        version: i16,
    ) -> Result<(i32, R::Response<'f>)> {
        R::read_response(frame, version).map_err(|error| nonsense(&self.address, &error))
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
    pub fn receive(&mut self, deadline: Option<Instant>) -> Result<Chain> {
        self.arm(deadline).map_err(|error| ClientError::from_io(&self.address, &error))?;
        let mut prefix = [0; 4];
        self.fill(&mut prefix)?;
        let length = response_length(prefix, FRAME_CAP_BYTES)
            .map_err(|error| nonsense(&self.address, &error))?;
        let mut frame = Chain::new();
        let mut scratch = std::mem::take(&mut self.scratch);
        while frame.len() < length {
            // Grows with bytes that arrived, whatever length the peer claims.
            let piece = (length - frame.len()).min(READ_CHUNK_BYTES);
            scratch.resize(scratch.len().max(piece), 0);
            self.fill(&mut scratch[..piece])?;
            let mut buffer = TailBuf::unpooled(piece);
            buffer.append(&scratch[..piece]);
            frame.push(buffer.freeze());
        }
        self.scratch = scratch;
        Ok(frame)
    }

    fn fill(&mut self, target: &mut [u8]) -> Result<()> {
        self.stream.read_exact(target).map_err(|error| ClientError::from_io(&self.address, &error))
    }

    /// Whether bytes arrive before `deadline`; consumes none.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn wait_readable(&mut self, deadline: Instant) -> Result<bool> {
        let failed = |error: io::Error| ClientError::from_io(&self.address, &error);
        if let Err(error) = self.arm(Some(deadline)) {
            return if error.kind() == io::ErrorKind::TimedOut {
                Ok(false)
            } else {
                Err(failed(error))
            };
        }
        match self.stream.peek(&mut [0]) {
            Ok(0) => Err(failed(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => Ok(false),
                _ => Err(failed(error)),
            },
        }
    }

    fn arm(&self, deadline: Option<Instant>) -> io::Result<()> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(left)
    }
}

/// The correlation id at the front of a response frame, which has at least four bytes.
#[must_use]
pub fn correlation_id(frame: &Chain) -> i32 {
    let mut id = [0; 4];
    frame.copy_to(0, &mut id);
    i32::from_be_bytes(id)
}

fn nonsense(address: &str, error: &DecodeError) -> ClientError {
    let message = format!("{address} does not speak Kafka's protocol ({error}); check the port");
    ClientError::new(Kind::Protocol, message)
}

/// Writes `frame` within `patience`; a peer that takes no bytes, or takes them one by one, is given
/// up. The socket's own timeout bounds each write, so that the clock is read where one fell short.
fn write_chain(stream: &mut TcpStream, frame: &Chain, patience: Duration) -> io::Result<()> {
    let deadline = Instant::now() + patience;
    for slices in frame.slices().chunks(SLICES_PER_WRITE) {
        let mut pieces: Vec<IoSlice<'_>> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
        let mut left = &mut pieces[..];
        while !left.is_empty() {
            match stream.write_vectored(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    IoSlice::advance_slices(&mut left, written);
                    if !left.is_empty() && Instant::now() >= deadline {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
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
