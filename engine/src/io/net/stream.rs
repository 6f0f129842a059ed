//! One connection on the shard that owns it.
//!
//! Receiving is a multishot operation that fills lent buffers while the owner reads behind it; it
//! stops when the owner falls too far behind, and starts again when half of that is read. Sending
//! takes a chain and is done when the kernel has all of it.

use std::{
    cell::RefCell,
    collections::VecDeque,
    fmt,
    future::poll_fn,
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use super::Accepted;
use crate::{
    io::{
        buf::{Chain, Slice},
        local::Local,
        sys,
        uring::{Key, Ring, Sink},
    },
    limits::{RECEIVE_BUFFER_BYTES, RECEIVE_BUFFERS_PER_CONNECTION},
};

/// Unread pieces beyond which receiving stops: small ones share buffers but take room in a queue.
const UNREAD_PIECES_MAX: usize = 512;

/// Unread bytes beyond which receiving stops.
const UNREAD_BYTES_MAX: usize = RECEIVE_BUFFERS_PER_CONNECTION * RECEIVE_BUFFER_BYTES;

/// An open connection; belongs to the shard it was attached on. Dropping it closes it.
pub struct Stream {
    socket: Rc<Socket>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Stream({} -> {})", self.socket.local, self.socket.peer)
    }
}

impl Stream {
    /// Takes a connection over to the calling shard. Panics off a shard's thread.
    #[must_use]
    pub fn attach(accepted: Accepted) -> Self {
        let ring = Local::current().ring.clone();
        let Accepted { socket, peer, local } = accepted;
        let receive = RefCell::default();
        Self { socket: Rc::new(Socket { fd: Arc::new(socket), ring, receive, peer, local }) }
    }

    /// The next received bytes, as they came; `None` when the other side has sent its last.
    /// Dropping the future loses nothing. One task receives at a time.
    pub async fn recv(&self) -> io::Result<Option<Slice>> {
        poll_fn(|cx| self.socket.poll_receive(cx)).await
    }

    /// Sends all of `bytes`; done when the kernel has them. One task sends at a time.
    ///
    /// A dropped future may have sent a part, so the stream is then good for closing only.
    pub async fn send(&self, bytes: &Chain) -> io::Result<()> {
        let mut sent = 0;
        while sent < bytes.len() {
            let op = self.socket.ring.send(&self.socket.fd, bytes.slices(), sent);
            match op.await.0 {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends both directions: a pending or later [`Stream::recv`] reports the end once what had
    /// arrived is read, and the other side is told.
    pub fn shutdown(&self) {
        // Fails only when the connection is down already.
        sys::shutdown(self.socket.fd.as_fd(), libc::SHUT_RDWR).ok();
    }

    /// Tells the other side that nothing more will be sent; receiving goes on.
    pub fn shutdown_send(&self) {
        // Fails only when the connection is down already.
        sys::shutdown(self.socket.fd.as_fd(), libc::SHUT_WR).ok();
    }

    /// Whether this shard is short of receive buffers: who holds a part of a frame should copy it
    /// to a small buffer and drop the received slices, so that others can receive.
    #[must_use]
    pub fn pool_pressure(&self) -> bool {
        self.socket.ring.is_short_of_buffers()
    }

    /// Address of the other side.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.socket.peer
    }

    /// Address of this side.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.socket.local
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.socket.close();
    }
}

/// The descriptor and what was received; lives on while the kernel uses it.
struct Socket {
    fd: Arc<OwnedFd>,
    ring: Rc<Ring>,
    receive: RefCell<Receive>,
    peer: SocketAddr,
    local: SocketAddr,
}

#[derive(Default)]
struct Receive {
    pieces: VecDeque<Slice>,
    unread_bytes: usize,
    mode: Mode,
    end: Option<End>,
    waker: Option<Waker>,
    closed: bool,
}

/// What the receive operation is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Idle,
    Armed(Key),
    /// Cancelled, its last completion still to come.
    Stopping,
    /// Out of buffers, parked with the ring.
    Starved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finished,
    Failed(i32),
}

impl Receive {
    fn is_over(&self, share: usize) -> bool {
        self.unread_bytes >= UNREAD_BYTES_MAX / share
            || self.pieces.len() >= UNREAD_PIECES_MAX / share
    }
}

impl Socket {
    fn poll_receive(self: &Rc<Self>, cx: &mut Context<'_>) -> Poll<io::Result<Option<Slice>>> {
        let mut receive = self.receive.borrow_mut();
        let piece = receive.pieces.pop_front();
        receive.unread_bytes -= piece.as_ref().map_or(0, |piece| piece.len());
        if receive.mode == Mode::Idle && receive.end.is_none() && !receive.is_over(2) {
            self.arm(&mut receive);
        }
        if piece.is_some() {
            return Poll::Ready(Ok(piece));
        }
        match receive.end {
            Some(End::Finished) => Poll::Ready(Ok(None)),
            Some(End::Failed(code)) => Poll::Ready(Err(io::Error::from_raw_os_error(code))),
            None => {
                receive.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn arm(self: &Rc<Self>, receive: &mut Receive) {
        receive.mode = Mode::Armed(self.ring.receive_many(&self.fd, self.clone()));
    }

    fn close(&self) {
        let mut receive = self.receive.borrow_mut();
        receive.closed = true;
        receive.pieces.clear();
        receive.unread_bytes = 0;
        let mode = receive.mode;
        drop(receive);
        if mode != Mode::Idle {
            // The descriptor outlives this call, but the other side is told now.
            sys::shutdown(self.fd.as_fd(), libc::SHUT_RDWR).ok();
        }
        if let Mode::Armed(key) = mode {
            self.ring.cancel(key);
        }
    }
}

impl Sink for Socket {
    fn complete(self: Rc<Self>, result: i32, piece: Option<Slice>, more: bool) {
        let mut receive = self.receive.borrow_mut();
        if !more {
            receive.mode = Mode::Idle;
        }
        if receive.closed {
            return;
        }
        if let Some(piece) = piece {
            receive.unread_bytes += piece.len();
            receive.pieces.push_back(piece);
        }
        match result {
            0 => receive.end = Some(End::Finished),
            1.. => {}
            code if code == -libc::ECANCELED => {}
            // A reader that is behind gets no turn at the buffers: reading starts it again.
            code if code == -libc::ENOBUFS && receive.is_over(2) => {}
            code if code == -libc::ENOBUFS => {
                receive.mode = Mode::Starved;
                self.ring.starve(self.clone());
            }
            code => receive.end = Some(End::Failed(-code)),
        }
        self.steer(&mut receive);
        if let Some(waker) = receive.waker.take() {
            waker.wake();
        }
    }

    fn resume(self: Rc<Self>) {
        let mut receive = self.receive.borrow_mut();
        if receive.mode == Mode::Starved {
            receive.mode = Mode::Idle;
            if !receive.closed {
                self.arm(&mut receive);
            }
        }
    }
}

impl Socket {
    /// Stops receiving when the reader is behind, goes on when the kernel stopped without need.
    fn steer(self: &Rc<Self>, receive: &mut Receive) {
        match receive.mode {
            Mode::Armed(key) if receive.is_over(1) => {
                receive.mode = Mode::Stopping;
                self.ring.cancel(key);
            }
            Mode::Idle if receive.end.is_none() && !receive.is_over(2) => self.arm(receive),
            _ => {}
        }
    }
}
