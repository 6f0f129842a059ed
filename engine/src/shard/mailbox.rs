//! What a shard does with the messages that reach it.

use std::collections::VecDeque;

use super::{
    Asked, Partition, ProduceReply, Produced, Shard,
    failure::Failure,
    frame::{Header, ProducedCode},
    images::Work,
    message::{Arrival, Message},
    partition_of,
};
use crate::{
    batch::{self, Accepted},
    io::{Env, buf::Chain},
    log::Appended,
    types::{Offset, ShardId},
};

impl<E: Env> Shard<E> {
    /// Takes messages in order for as long as the shard lives.
    pub(super) async fn run_mailbox(self) {
        loop {
            match self.inner.mesh.recv().await {
                Message::Data { from, frame, payload } => {
                    let header = frame.decode().expect("frames are made in this process");
                    self.take(from, header, payload);
                }
                Message::Image(image) => self.queue_work(Work::Image(image)),
                Message::Connection(arrival) => self.connection_came(arrival),
                Message::Stop => self.begin_stop(),
            }
        }
    }

    fn take(&self, from: ShardId, header: Header, payload: Chain) {
        assert_ne!(from, self.id(), "a shard sends no data to itself");
        match header {
            Header::Produce { token, partition, acks, now_ms, batch } => {
                let reply = ProduceReply::Remote(from, token);
                let batch = Accepted { header: batch::Header::parse(&batch), payload };
                let partition = partition_of(partition);
                match self.find(partition) {
                    Some(found) => found.produce(batch, acks, now_ms, reply),
                    None => self.post_produced(from, token, &Err(self.absence(partition))),
                }
            }
            Header::Produced { token, result } => self.produced(token, result),
            Header::Read { token, partition, read, counts, watch } => {
                self.answer_read(from, token, partition_of(partition), read, counts, watch);
            }
            Header::ReadDone { token, result } => self.read_done(token, result, payload),
            Header::Moved { watch } => self.moved(watch),
            Header::Unwatch { watch, partition } => {
                if let Some(found) = self.find(partition_of(partition)) {
                    Partition::unwatch(&found, from, watch);
                }
            }
            Header::Call { token, partition, call, argument } => {
                self.answer_call(from, token, partition_of(partition), call, argument);
            }
            Header::CallDone { token, result } => self.call_done(token, result),
            Header::Drained { shard } => self.other_drained(ShardId(shard)),
            Header::Retired { shard, version } => self.other_retired(ShardId(shard), version),
            Header::Applied { shard, version } => self.other_applied(ShardId(shard), version),
        }
    }

    fn produced(&self, token: u64, result: ProducedCode) {
        if let Some(Asked::Produce(slot)) = self.inner.asked.borrow_mut().take(token) {
            slot.fulfil(produced_of(result));
        }
    }

    pub(super) fn post_message(&self, to: ShardId, message: Message) {
        assert!(to.0 < self.count(), "there is such a shard");
        let mut outbox = self.inner.outbox.borrow_mut();
        let waiting: &mut VecDeque<_> = &mut outbox[usize::from(to.0)];
        if !waiting.is_empty() {
            waiting.push_back(message);
            return;
        }
        let Err(message) = self.inner.mesh.try_send(to, message) else { return };
        waiting.push_back(message);
        drop(outbox);
        let shard = self.clone();
        self.inner.env.spawn(async move { shard.empty_outbox(to).await });
    }

    async fn empty_outbox(&self, to: ShardId) {
        loop {
            // The entry stays in place while it is sent, so that nothing overtakes it.
            let Some(message) = self.take_outbox(to) else { return };
            // An answer to a shard that has ended is wanted by nobody.
            let _ = self.inner.mesh.send(to, message).await;
            self.inner.outbox.borrow_mut()[usize::from(to.0)].pop_front();
        }
    }

    /// The next message for `to`, with a placeholder left in its place.
    fn take_outbox(&self, to: ShardId) -> Option<Message> {
        let mut outbox = self.inner.outbox.borrow_mut();
        let front = outbox[usize::from(to.0)].front_mut()?;
        Some(std::mem::replace(front, Message::Stop))
    }

    fn connection_came(&self, arrival: Arrival) {
        self.inner.connections.borrow_mut().push_back(arrival);
        self.inner.connection_came.fire();
    }

    /// Hands a connection to the shard that is to serve it; this one included.
    pub fn give_connection(&self, to: ShardId, arrival: Arrival) {
        if to == self.id() {
            self.connection_came(arrival);
        } else {
            self.post_message(to, Message::Connection(arrival));
        }
    }

    /// The next connection to serve; `None` once the shard is stopping.
    pub async fn next_connection(&self) -> Option<Arrival> {
        loop {
            if self.inner.stopping.get() {
                return None;
            }
            if let Some(arrival) = self.inner.connections.borrow_mut().pop_front() {
                return Some(arrival);
            }
            self.inner.connection_came.rearm();
            self.inner.connection_came.wait().await;
        }
    }

    /// Stops taking connections and tells all who wait for the end.
    pub(super) fn begin_stop(&self) {
        self.inner.stopping.set(true);
        self.inner.stop.fire();
        self.inner.connection_came.fire();
    }

    /// Completes when the shard is told to stop.
    pub async fn stopped(&self) {
        self.inner.stop.wait().await;
    }

    /// Whether the shard was told to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.inner.stopping.get()
    }
}

fn produced_of(result: ProducedCode) -> Produced {
    match Failure::from_code(result.failure) {
        Some(failure) => Err(failure),
        None => Ok(Appended {
            base_offset: Offset(result.base_offset),
            last_offset: Offset(result.last_offset),
            log_append_time_ms: result.log_append_time_ms,
            log_start: Offset(result.log_start),
            duplicate: result.duplicate,
        }),
    }
}
