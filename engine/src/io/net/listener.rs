//! Accepting connections.
//!
//! A listener is a plain socket that any thread may hold. The shard that first accepts from it
//! keeps a multishot accept armed; connections that arrive between two calls wait with the
//! listener, so that neither a dropped accept future nor the end of the operation loses one.

use std::{
    cell::RefCell,
    fmt,
    future::poll_fn,
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    rc::{Rc, Weak},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use crossbeam::queue::SegQueue;

use crate::io::{
    buf::Slice,
    local::Local,
    sys,
    uring::{Key, Ring, Sink, accepted_descriptor},
};

/// Accepted connections nobody asked for yet, beyond which accepting stops.
const WAITING_MAX: usize = 64;

/// A listening TCP socket.
#[derive(Debug)]
pub struct Listener {
    socket: Arc<OwnedFd>,
    local: SocketAddr,
    /// Accepted and not asked for yet; what accepts comes and goes, these stay.
    waiting: Arc<SegQueue<OwnedFd>>,
}

/// A connection not yet attached to a shard; may be sent to any.
#[derive(Debug)]
pub struct Accepted {
    pub(super) socket: OwnedFd,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
}

impl Accepted {
    /// Address of the other side.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Address of this side.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }
}

impl TryFrom<TcpStream> for Accepted {
    type Error = io::Error;

    /// Takes over a connected socket. Fails when the other side is gone already.
    fn try_from(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        let (peer, local) = (socket.peer_addr()?, socket.local_addr()?);
        Ok(Self { socket: socket.into(), peer, local })
    }
}

impl Listener {
    /// Listens on `address` with `SO_REUSEADDR`, so that a restart need not wait, and without
    /// `SO_REUSEPORT`, so that a second process is refused. The kernel keeps up to `backlog`
    /// connections until they are accepted; it cuts this to `net.core.somaxconn`. Errors are the
    /// operating system's.
    pub fn bind(address: SocketAddr, backlog: i32) -> io::Result<Self> {
        let socket = TcpListener::bind(address)?;
        let local = socket.local_addr()?;
        sys::listen(socket.as_fd(), backlog)?;
        Ok(Self { socket: Arc::new(socket.into()), local, waiting: Arc::default() })
    }

    /// The address listened on, with the port the kernel chose if 0 was asked for.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// The next connection. Call on one shard only. Dropping the future loses no connection.
    ///
    /// After `EMFILE`, `ENFILE` or `ENOMEM` the caller waits before it calls again.
    pub async fn accept(&self) -> io::Result<Accepted> {
        let shard = Local::current();
        let acceptor = shard.acceptors.of(self, &shard.ring);
        loop {
            let socket = poll_fn(|cx| acceptor.poll_next(cx, &shard.ring)).await?;
            // A connection that is gone before it is looked at is nobody's error.
            if let Ok(accepted) = Accepted::try_from(TcpStream::from(socket)) {
                return Ok(accepted);
            }
        }
    }
}

/// What to do about a failed accept, in a few words.
#[must_use]
pub fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE) => "raise `ulimit -n` or lower `max.connections`",
        Some(libc::ENFILE) => "raise `fs.file-max`",
        Some(libc::ENOBUFS | libc::ENOMEM) => "the machine is out of memory for sockets",
        _ => "it is tried again",
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Ends the armed accept wherever it runs, and refuses new connections at once. The only
        // failure is a socket that is down already.
        sys::shutdown(self.socket.as_fd(), libc::SHUT_RDWR).ok();
    }
}

/// The listeners a shard accepts from, by descriptor.
#[derive(Default)]
pub(in crate::io) struct Acceptors {
    armed: RefCell<Vec<(RawFd, Weak<Acceptor>)>>,
}

impl Acceptors {
    fn of(&self, listener: &Listener, ring: &Rc<Ring>) -> Rc<Acceptor> {
        let key = listener.socket.as_raw_fd();
        let mut armed = self.armed.borrow_mut();
        armed.retain(|(_, acceptor)| acceptor.strong_count() > 0);
        let known = armed.iter().find(|(fd, _)| *fd == key).and_then(|(_, known)| known.upgrade());
        if let Some(acceptor) = known
            && Arc::ptr_eq(&acceptor.socket, &listener.socket)
        {
            return acceptor;
        }
        let acceptor = Rc::new(Acceptor {
            socket: listener.socket.clone(),
            waiting: listener.waiting.clone(),
            state: RefCell::default(),
            ring: ring.clone(),
        });
        armed.push((key, Rc::downgrade(&acceptor)));
        acceptor
    }
}

/// A shard's end of a listener; lives while its accept is armed or somebody waits.
struct Acceptor {
    socket: Arc<OwnedFd>,
    waiting: Arc<SegQueue<OwnedFd>>,
    state: RefCell<State>,
    ring: Rc<Ring>,
}

#[derive(Default)]
struct State {
    error: Option<i32>,
    armed: Option<Key>,
    stopped: bool,
    waker: Option<Waker>,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Acceptor({})", self.socket.as_raw_fd())
    }
}

impl Acceptor {
    fn poll_next(
        self: &Rc<Self>,
        cx: &mut Context<'_>,
        ring: &Rc<Ring>,
    ) -> Poll<io::Result<OwnedFd>> {
        if let Some(connection) = self.waiting.pop() {
            return Poll::Ready(Ok(connection));
        }
        let mut state = self.state.borrow_mut();
        if let Some(code) = state.error.take() {
            return Poll::Ready(Err(io::Error::from_raw_os_error(code)));
        }
        if state.armed.is_none() {
            state.stopped = false;
            state.armed = Some(ring.accept_many(&self.socket, self.clone()));
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Sink for Acceptor {
    fn complete(self: Rc<Self>, result: i32, _: Option<Slice>, more: bool) {
        let mut state = self.state.borrow_mut();
        if !more {
            state.armed = None;
        }
        match result {
            0.. => self.waiting.push(accepted_descriptor(result)),
            code if code == -libc::ECANCELED || code == -libc::ECONNABORTED => {}
            code => state.error = Some(-code),
        }
        if self.waiting.len() >= WAITING_MAX
            && !state.stopped
            && let Some(key) = state.armed
        {
            state.stopped = true;
            self.ring.cancel(key);
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn resume(self: Rc<Self>) {}
}
