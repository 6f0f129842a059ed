//! A TCP proxy that knows which produce requests are unanswered.
//!
//! Owns the count by which a suite shows that a broker died with work in hand. Knows of the
//! protocol only the length prefix and the api key. Invariant: a request counts from the moment its
//! last byte was written to the broker until the last byte of its answer was read, and answers come
//! in the order of requests, as Kafka's do. Failure behaviour: when one side of a connection ends,
//! so does the other.

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Api key of Produce.
const PRODUCE: [u8; 2] = [0, 0];

/// A frame that is longer is no frame.
const FRAME_CAP_BYTES: usize = 128 << 20;

/// What is run, once, right after a produce request went out.
type Trap = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    trap: Option<Trap>,
    /// Connections to the broker that are open.
    open: usize,
    /// Produce requests forwarded and not answered, over the open connections.
    unanswered: usize,
    /// Those of connections that ended before the answer came.
    cut_off: usize,
    /// All produce requests forwarded.
    forwarded: usize,
}

struct Shared {
    upstream: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A listening proxy; its threads end with the process.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Takes `listener`'s connections to `upstream`, which need not be there yet.
    pub fn start(listener: TcpListener, upstream: SocketAddr) -> io::Result<Self> {
        let port = listener.local_addr()?.port();
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { upstream, state, changed });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || connect(&client, &shared));
            }
        });
        Ok(Self { port, shared })
    }

    /// Where clients connect, on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Produce requests forwarded so far.
    #[must_use]
    pub fn forwarded(&self) -> usize {
        self.shared.state().forwarded
    }

    /// Runs `trap` right after the next produce request has been forwarded in full, and waits
    /// until it ran; false where none came in time.
    pub fn spring_on_produce(&self, trap: Trap, timeout: Duration) -> bool {
        self.shared.state().trap = Some(trap);
        self.wait(timeout, |state| state.trap.is_none())
    }

    /// Waits until every connection to the broker has ended, and returns how many produce requests
    /// were cut off by that since the last call; `None` where one stays open.
    pub fn cut_off(&self, timeout: Duration) -> Option<usize> {
        let ended = self.wait(timeout, |state| state.open == 0);
        ended.then(|| std::mem::take(&mut self.shared.state().cut_off))
    }

    fn wait(&self, timeout: Duration, done: impl Fn(&State) -> bool) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.shared.state();
        while !done(&state) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// What is in flight on one connection: for each request, whether it is a produce.
type InFlight = Mutex<VecDeque<bool>>;

fn connect(client: &TcpStream, shared: &Arc<Shared>) {
    let Ok(broker) = TcpStream::connect(shared.upstream) else {
        let _ = client.shutdown(Shutdown::Both);
        return;
    };
    let _ = (client.set_nodelay(true), broker.set_nodelay(true));
    shared.state().open += 1;
    let in_flight = InFlight::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = requests(client, &broker, shared, &in_flight);
            let _ = (client.shutdown(Shutdown::Both), broker.shutdown(Shutdown::Write));
        });
        let _ = answers(&broker, client, shared, &in_flight);
        let _ = (client.shutdown(Shutdown::Both), broker.shutdown(Shutdown::Both));
    });
    let left = lock(&in_flight).iter().filter(|produce| **produce).count();
    let mut state = shared.state();
    state.open -= 1;
    state.unanswered -= left;
    state.cut_off += left;
    drop(state);
    shared.changed.notify_all();
}

fn lock(in_flight: &InFlight) -> MutexGuard<'_, VecDeque<bool>> {
    in_flight.lock().unwrap_or_else(PoisonError::into_inner)
}

fn requests(
    mut client: &TcpStream,
    mut broker: &TcpStream,
    shared: &Shared,
    in_flight: &InFlight,
) -> io::Result<()> {
    loop {
        let frame = read_frame(&mut client)?;
        let produce = frame.get(4..6) == Some(&PRODUCE);
        // Counted before the last byte goes out: the answer must never come first.
        let (last, head) = frame.split_last().ok_or(io::ErrorKind::InvalidData)?;
        broker.write_all(head)?;
        lock(in_flight).push_back(produce);
        let sent = broker.write_all(std::slice::from_ref(last));
        if let Err(error) = sent {
            lock(in_flight).pop_back();
            return Err(error);
        }
        if produce {
            let mut state = shared.state();
            state.forwarded += 1;
            state.unanswered += 1;
            let trap = state.trap.take();
            drop(state);
            if let Some(trap) = trap {
                trap();
                shared.changed.notify_all();
            }
        }
    }
}

fn answers(
    mut broker: &TcpStream,
    mut client: &TcpStream,
    shared: &Shared,
    in_flight: &InFlight,
) -> io::Result<()> {
    loop {
        let frame = read_frame(&mut broker)?;
        if lock(in_flight).pop_front() == Some(true) {
            shared.state().unanswered -= 1;
        }
        client.write_all(&frame)?;
    }
}

/// One frame with its length prefix.
fn read_frame(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut size = [0; 4];
    stream.read_exact(&mut size)?;
    let length = usize::try_from(i32::from_be_bytes(size)).map_err(io::Error::other)?;
    if length > FRAME_CAP_BYTES {
        return Err(io::Error::other(format!("a frame of {length} bytes")));
    }
    let mut frame = vec![0; 4 + length];
    frame[..4].copy_from_slice(&size);
    stream.read_exact(&mut frame[4..])?;
    Ok(frame)
}
