//! Messages between shards, and from other threads to shards.
//!
//! One bounded queue for each ordered pair of shards, so that a busy pair never takes another's
//! room, and one per shard for all threads that are no shard. Messages of one sender arrive in
//! order; none is dropped but with its receiver. A sleeping receiver is woken once for all that
//! waits for it.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    fmt,
    future::poll_fn,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering, fence},
    },
    task::{Context, Poll},
    thread,
    time::Duration,
};

use crossbeam::queue::ArrayQueue;

use super::{local::Local, port::Port};
use crate::{limits::MAILBOX_DEPTH, types::ShardId};

/// Messages taken from one queue before the next one's turn.
const BATCH: usize = 64;

/// Depth of each queue where there are many shards.
const DEPTH_MIN: usize = 64;

/// How long a thread that is no shard waits for room before it looks again.
const ROOM_RETRY: Duration = Duration::from_micros(200);

/// The messages on their way from one sender to one shard.
struct Lane<M> {
    queue: ArrayQueue<M>,
    /// A shard waits for room here.
    wanted: AtomicBool,
}

/// All lanes: row by sender, the last row for threads that are no shard.
struct Fabric<M> {
    lanes: Vec<Lane<M>>,
    ports: Vec<Arc<Port>>,
}

impl<M> Fabric<M> {
    fn lane(&self, from: usize, to: usize) -> &Lane<M> {
        assert!(to < self.ports.len(), "messages go to shards that exist");
        &self.lanes[from * self.ports.len() + to]
    }

    fn try_send(&self, from: usize, to: usize, message: M) -> Result<(), M> {
        if self.ports[to].is_closed() {
            return Err(message);
        }
        self.lane(from, to).queue.push(message)?;
        self.ports[to].ring();
        if self.ports[to].is_closed() {
            // The shard ended meanwhile: nobody else would drop what waits in the lane.
            while self.lane(from, to).queue.pop().is_some() {}
        }
        Ok(())
    }

    /// Ends shard `to`: refuses messages from now on, drops those on their way, and wakes
    /// the shards that wait for room.
    fn close(&self, to: usize) {
        self.ports[to].close();
        fence(Ordering::SeqCst);
        for from in 0..=self.ports.len() {
            let lane = self.lane(from, to);
            while lane.queue.pop().is_some() {}
            if lane.wanted.swap(false, Ordering::AcqRel)
                && let Some(port) = self.ports.get(from)
            {
                port.ring();
            }
        }
    }
}

/// Makes the queues between the shards of `ports`.
pub(super) fn weave<M: Send>(ports: &[Arc<Port>]) -> Remote<M> {
    // Queues are memory in use from the start, and there are as many as pairs of shards.
    let depth = (MAILBOX_DEPTH / ports.len()).max(DEPTH_MIN);
    let lanes = (0..(ports.len() + 1) * ports.len())
        .map(|_| Lane { queue: ArrayQueue::new(depth), wanted: AtomicBool::new(false) })
        .collect();
    Remote { fabric: Arc::new(Fabric { lanes, ports: ports.to_vec() }) }
}

/// A shard's end of the mesh; clones share it and stay on the shard.
pub struct Mesh<M: Send> {
    end: Rc<MeshEnd<M>>,
}

struct MeshEnd<M> {
    fabric: Arc<Fabric<M>>,
    me: usize,
    inbox: RefCell<VecDeque<M>>,
    /// The sender whose queue is looked at first next time.
    turn: Cell<usize>,
}

impl<M: Send> Clone for Mesh<M> {
    fn clone(&self) -> Self {
        Self { end: self.end.clone() }
    }
}

impl<M: Send> fmt::Debug for Mesh<M> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Mesh(shard {} of {})", self.end.me, self.end.fabric.ports.len())
    }
}

impl<M: Send> Mesh<M> {
    /// Puts a message into the queue to shard `to` (one's own is allowed). Gives it back when the
    /// queue is full or the shard has ended. Panics when there is no such shard.
    pub fn try_send(&self, to: ShardId, message: M) -> Result<(), M> {
        let to = usize::from(to.0);
        if to != self.end.me {
            return self.end.fabric.try_send(self.end.me, to, message);
        }
        self.end.fabric.lane(to, to).queue.push(message)?;
        Local::current().wake_bell_waiters();
        Ok(())
    }

    /// As [`Mesh::try_send`], but waits for room; gives the message back only when the shard has
    /// ended. Waiting senders of one shard may overtake each other.
    pub async fn send(&self, to: ShardId, message: M) -> Result<(), M> {
        let mut message = Some(message);
        poll_fn(|cx| self.poll_send(cx, to, &mut message)).await
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        to: ShardId,
        message: &mut Option<M>,
    ) -> Poll<Result<(), M>> {
        let (fabric, me, target) = (&self.end.fabric, self.end.me, usize::from(to.0));
        let mut unsent = message.take().expect("a future is not polled after it is ready");
        match self.try_send(to, unsent) {
            Ok(()) => return Poll::Ready(Ok(())),
            Err(back) => unsent = back,
        }
        if fabric.ports[target].is_closed() {
            return Poll::Ready(Err(unsent));
        }
        // Pairs with the fence in `take_from`: either the room made there is seen by the attempt
        // below, or the receiver sees that it is wanted and rings.
        fabric.lane(me, target).wanted.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        match self.try_send(to, unsent) {
            Ok(()) => Poll::Ready(Ok(())),
            // Whoever ended it since the look above may not have seen that room is wanted.
            Err(back) if fabric.ports[target].is_closed() => Poll::Ready(Err(back)),
            Err(back) => {
                *message = Some(back);
                Local::current().wait_for_bell(cx.waker());
                Poll::Pending
            }
        }
    }

    /// The next message from any shard or thread. One task receives.
    pub async fn recv(&self) -> M {
        poll_fn(|cx| {
            if let Some(message) = self.try_recv() {
                return Poll::Ready(message);
            }
            Local::current().wait_for_bell(cx.waker());
            Poll::Pending
        })
        .await
    }

    /// The next message if one is there.
    pub fn try_recv(&self) -> Option<M> {
        let mut inbox = self.end.inbox.borrow_mut();
        if inbox.is_empty() {
            self.collect(&mut inbox);
        }
        inbox.pop_front()
    }

    fn collect(&self, inbox: &mut VecDeque<M>) {
        let senders = self.end.fabric.ports.len() + 1;
        let first = self.end.turn.get();
        for step in 0..senders {
            self.take_from((first + step) % senders, inbox);
        }
        self.end.turn.set((first + 1) % senders);
    }

    fn take_from(&self, from: usize, inbox: &mut VecDeque<M>) {
        let lane = self.end.fabric.lane(from, self.end.me);
        let before = inbox.len();
        inbox.extend(std::iter::from_fn(|| lane.queue.pop()).take(BATCH));
        if inbox.len() == before {
            return;
        }
        // Senders wait for half a queue of room, as waking them for less costs more than it gives.
        if lane.queue.len() > lane.queue.capacity() / 2 {
            return;
        }
        fence(Ordering::SeqCst);
        if lane.wanted.load(Ordering::Relaxed) && lane.wanted.swap(false, Ordering::AcqRel) {
            match self.end.fabric.ports.get(from) {
                Some(_) if from == self.end.me => Local::current().wake_bell_waiters(),
                Some(port) => port.ring(),
                None => {}
            }
        }
    }
}

/// Sends to shards from threads that are no shard; clones share the queues.
pub struct Remote<M: Send> {
    fabric: Arc<Fabric<M>>,
}

impl<M: Send> Clone for Remote<M> {
    fn clone(&self) -> Self {
        Self { fabric: self.fabric.clone() }
    }
}

impl<M: Send> fmt::Debug for Remote<M> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Remote({} shards)", self.fabric.ports.len())
    }
}

impl<M: Send> Remote<M> {
    /// How many shards there are.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.fabric.ports.len()
    }

    /// Puts a message into the queue to shard `to`. Gives it back when the queue is full or the
    /// shard has ended. Panics when there is no such shard.
    pub fn try_send(&self, to: ShardId, message: M) -> Result<(), M> {
        self.fabric.try_send(self.fabric.ports.len(), usize::from(to.0), message)
    }

    /// As [`Remote::try_send`], but blocks the thread for room; gives the message back only when
    /// the shard has ended. Not for a shard's own thread.
    pub fn send(&self, to: ShardId, message: M) -> Result<(), M> {
        let mut message = message;
        loop {
            match self.try_send(to, message) {
                Ok(()) => return Ok(()),
                Err(back) if self.fabric.ports[usize::from(to.0)].is_closed() => return Err(back),
                Err(back) => message = back,
            }
            #[expect(clippy::disallowed_methods, reason = "the thread is no shard")]
            thread::sleep(ROOM_RETRY);
        }
    }

    /// Ends shard `me`, on its thread.
    pub(super) fn close(&self, me: usize) {
        self.fabric.close(me);
    }

    /// The mesh of shard `me`, to be made once, on its thread.
    pub(super) fn end(&self, me: usize) -> Mesh<M> {
        let fabric = self.fabric.clone();
        Mesh { end: Rc::new(MeshEnd { fabric, me, inbox: RefCell::default(), turn: Cell::new(0) }) }
    }
}
