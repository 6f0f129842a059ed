//! One connection: bytes in, frames cut, requests run, answers out in request order.
//!
//! Owns the order of a connection: Produce takes its place in each log as it arrives and may wait
//! for the disk while later ones arrive; everything else runs in turn; only a waiting Fetch lets
//! later requests start. Knows neither files nor partitions. Whatever a client sends, the worst
//! that happens is that its own connection closes.

mod frames;
mod held;
pub mod sweep;
mod transform;
mod writer;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    rc::{Rc, Weak},
};

use millrace_engine::{
    io::{
        Clock, Spawn,
        buf::{Chain, Pool, Slice, TailBuf},
        net::Stream,
    },
    shard::{
        message::Arrival,
        signal::{Signal, race},
    },
};

use self::{
    frames::Frames,
    held::Held,
    transform::{Identity, Transform},
};
use crate::{
    handler::{self, Broker, Peer, patience::Patience, produce},
    limits,
    wire::{Cursor, RequestHeader, frame::cap_bytes},
};

/// A request whose answer is due after those before it.
enum Work {
    /// Appended or on its way to its owners; the answer follows when the acks rule holds.
    Produce(produce::Started),
    /// Still to be run; the frame is a copy outside the receive buffers.
    Run(handler::Kind, Chain),
}

/// Work in its place in the connection's order.
struct Queued {
    work: Work,
    /// Memory that it takes until it is answered, in bytes.
    bytes: usize,
}

/// What the reading and the writing task of a connection share.
struct Shared {
    /// Its key in the list of its shard's connections.
    number: u64,
    broker: Rc<Broker>,
    /// All connections of the shard, this one among them.
    connections: Rc<Connections>,
    stream: Stream,
    peer: Peer,
    transform: RefCell<Identity>,
    queue: RefCell<VecDeque<Queued>>,
    /// Fired by the reader when there is work, or when there will be no more.
    came: Signal,
    /// Fired by the writer when work is done.
    done: Signal,
    /// Requests read and not yet answered.
    open: Cell<usize>,
    /// Set by the reader at the end of input and by the writer when sending failed.
    closing: Cell<bool>,
    /// Fired together with `closing`.
    closed: Signal,
    /// Fired to make the reader look up: to close, or to let go of shared receive buffers.
    nudge: Signal,
    /// When bytes came last, on the monotonic clock.
    heard_ns: Cell<u64>,
    /// Of the producer whose answer is next.
    patience: Patience,
    /// Bytes of a frame that has begun and is not complete, since its first byte.
    begun: Held,
    /// Memory of the requests that are read and not yet answered, since there were none.
    queued: Held,
    /// Memory of an answer that the client has not taken, since it last took a piece.
    unsent: Held,
}

impl Shared {
    fn close(&self) {
        self.closing.set(true);
        self.begun(0);
        self.closed.fire();
        self.came.fire();
        self.done.fire();
        self.nudge.fire();
    }

    /// Closes without waiting for answers to be taken.
    fn end(&self) {
        self.close();
        self.stream.shutdown();
    }
}

/// The connections that one shard serves.
pub struct Connections {
    broker: Rc<Broker>,
    /// Those that live, and some that have just ended.
    list: RefCell<BTreeMap<u64, Weak<Shared>>>,
    /// The number of the connection that came last.
    last: Cell<u64>,
    /// Bytes of begun frames that they hold together.
    begun_bytes: Cell<usize>,
    /// Memory of requests that are not yet answered, together.
    queued_bytes: Cell<usize>,
    /// Memory of answers that their clients have not taken, together.
    unsent_bytes: Cell<usize>,
}

impl Connections {
    /// No connections yet.
    #[must_use]
    pub fn new(broker: Rc<Broker>) -> Rc<Self> {
        Rc::new(Self {
            broker,
            list: RefCell::default(),
            last: Cell::new(0),
            begun_bytes: Cell::new(0),
            queued_bytes: Cell::new(0),
            unsent_bytes: Cell::new(0),
        })
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list.borrow().len()
    }

    /// Whether some connection is still owed answers.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.list.borrow().is_empty()
    }

    fn next_number(&self) -> u64 {
        self.last.update(|last| last + 1);
        self.last.get()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.connections.list.borrow_mut().remove(&self.number);
    }
}

/// Serves one connection until it ends, on the calling shard.
pub async fn serve(connections: Rc<Connections>, arrival: Arrival) {
    let broker = connections.broker.clone();
    let peer = Peer::of(&broker, arrival.listener);
    let stream = Stream::attach(arrival.accepted);
    let now_ns = broker.shard.env().monotonic_ns();
    let number = connections.next_number();
    let shared = Rc::new(Shared {
        number,
        broker,
        connections: connections.clone(),
        stream,
        peer,
        transform: RefCell::new(Identity),
        queue: RefCell::default(),
        came: Signal::default(),
        done: Signal::default(),
        open: Cell::new(0),
        closing: Cell::new(false),
        closed: Signal::default(),
        nudge: Signal::default(),
        heard_ns: Cell::new(now_ns),
        patience: Patience::default(),
        begun: Held::default(),
        queued: Held::default(),
        unsent: Held::default(),
    });
    let broker = shared.broker.clone();
    connections.list.borrow_mut().insert(number, Rc::downgrade(&shared));
    broker.shard.env().spawn(writer::run(shared.clone()));
    read(&shared).await;
    shared.close();
}

/// Reads until the client ends, breaks a rule or idles too long, or the broker stops.
async fn read(shared: &Rc<Shared>) {
    let frame_cap_bytes = shared.broker.settings.frame_cap_bytes;
    let mut frames = Frames::new(cap_bytes(shared.peer.authenticated, frame_cap_bytes));
    while !shared.closing.get() {
        loop {
            match frames.next() {
                Ok(Some(frame)) => {
                    // Whole, and the next one is not looked at before this one has its turn.
                    shared.begun(0);
                    if !take(shared, frame).await {
                        return;
                    }
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
        match receive(shared, &mut frames).await {
            Some(slice) => {
                shared.transform.borrow_mut().received(slice, |slice| frames.push(slice))
            }
            None => return,
        }
    }
}

/// The next bytes; `None` at the end of the connection, however it ends. Waits on no timer of its
/// own: `sweep` nudges a connection that idles or stalls.
async fn receive(shared: &Rc<Shared>, frames: &mut Frames) -> Option<Slice> {
    loop {
        shared.begun(frames.held_bytes());
        if shared.closing.get() || shared.broker.shard.is_stopping() {
            return None;
        }
        if shared.stream.pool_pressure() || shared.nudge.is_fired() || frames.is_scattered() {
            frames.settle();
        }
        shared.nudge.rearm();
        if let Some(received) = race(shared.stream.recv(), shared.nudge.wait()).await {
            shared.heard_ns.set(shared.broker.shard.env().monotonic_ns());
            return received.ok().flatten();
        }
    }
}

/// Starts one request; `false` when the connection is to be closed.
async fn take(shared: &Rc<Shared>, frame: Chain) -> bool {
    let mut body = Cursor::new(&frame);
    let Ok(header) = RequestHeader::read(&mut body) else { return false };
    let Some(row) = handler::row(header.key) else { return false };
    let kind = row.kind;
    let frame_bytes = frame.len();
    let queued = match kind {
        // What was sent before it is answered, or waits as it may: a Produce or a Fetch.
        handler::Kind::Produce => match produce::start(&shared.broker, frame).await {
            Ok(started) => Queued { bytes: started.held_bytes(), work: Work::Produce(started) },
            Err(_) => return false,
        },
        // Requests that wait their turn leave the shared receive buffers.
        handler::Kind::Fetch | handler::Kind::Plain => {
            let copy = moved_out(shared.broker.shard.pool(), frame);
            Queued { work: Work::Run(kind, copy), bytes: frame_bytes * row.memory_factor }
        }
    };
    if !shared.enqueue(queued) {
        return false;
    }
    let room = match kind {
        handler::Kind::Produce => limits::REQUESTS_OPEN_PER_CONNECTION,
        handler::Kind::Fetch if frame_bytes <= limits::WAITING_REQUEST_BYTES => {
            limits::REQUESTS_OPEN_PER_CONNECTION
        }
        // Anything else is answered before the next request is looked at.
        handler::Kind::Fetch | handler::Kind::Plain => 1,
    };
    wait_for(shared, || shared.open.get() < room).await
}

/// A copy of a request outside the shared receive buffers. Most are small and find a small buffer
/// in the pool; what finds none takes memory for itself.
fn moved_out(pool: &Pool, frame: Chain) -> Chain {
    let pooled = pool.take(frame.len()).filter(|buffer| buffer.spare() >= frame.len());
    let mut copy = pooled.unwrap_or_else(|| TailBuf::unpooled(frame.len()));
    copy.append_all(&frame);
    Chain::from(copy.freeze())
}

/// Waits for the writer until `holds`; `false` when the connection closes meanwhile.
async fn wait_for(shared: &Rc<Shared>, holds: impl Fn() -> bool) -> bool {
    while !holds() {
        if shared.closing.get() {
            return false;
        }
        shared.done.rearm();
        shared.done.wait().await;
    }
    !shared.closing.get()
}
