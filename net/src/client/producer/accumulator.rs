//! Records that wait to be sent, per partition, and what becomes of batches that were: sans-I/O.
//!
//! Owns the queues, the memory bound, the retry rule and the order of batches. Time comes in as an
//! argument. Knows neither sockets nor who leads what: a sender says which partitions it asks for.
//!
//! Invariant: the batches of a partition are sent in order of their serial numbers, retries
//! included, where the producer is idempotent or has one request in flight; every record's owner is
//! told exactly once.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use millrace_engine::batch::{BatchBuilder, Codec, NewRecord};

use super::{
    batch::{Appended, Batch, Callback, Pending},
    sequences::{OutOfOrder, Sequences},
};
use crate::{
    client::{
        config::ProducerConfig,
        error::{ClientError, Kind, Result},
        links::BACKOFF_MAX_MS,
    },
    wire::ErrorCode,
};

/// Builders kept for their memory.
const SPARE_BUILDERS: usize = 64;

/// How a batch fared on its way.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The broker has it.
    Appended(Appended),
    /// The broker answered, and does not have it (but for a duplicate).
    Refused(ClientError),
    /// No answer came: the broker may or may not have it.
    Lost(ClientError),
    /// It was not sent.
    Unsent(ClientError),
}

/// A batch that has come to its end, whose owners are to be told outside of any lock.
#[derive(Debug)]
pub struct Done {
    batch: Batch,
    topic: Arc<str>,
    partition: i32,
    result: Result<Appended>,
}

impl Done {
    /// Tells every record's owner; returns what [`Accumulator::told`] wants.
    pub fn tell(self) -> u64 {
        let serial = self.batch.serial;
        self.batch.finish(&self.topic, self.partition, &self.result);
        serial
    }
}

/// What adding a record came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It waits; `wake` says that a sender has something new to send or to wait for.
    Waiting {
        /// Whether to wake a sender.
        wake: bool,
    },
    /// There is no memory for it now.
    Full,
}

#[derive(Debug)]
struct Queue {
    topic: Arc<str>,
    partition: i32,
    batches: VecDeque<Batch>,
    in_flight: usize,
    sequences: Sequences,
}

/// The queues of a producer.
#[derive(Debug)]
pub struct Accumulator {
    batch_size: usize,
    linger: Duration,
    memory_bytes: usize,
    max_request_size: usize,
    retries: u32,
    retry_backoff_ms: u64,
    delivery_timeout: Duration,
    codec: Codec,
    idempotent: bool,
    /// One request in flight: a partition waits for its batch before the next is sent.
    strict_order: bool,
    queues: Vec<Queue>,
    used_bytes: usize,
    next_serial: u64,
    /// Open batches by serial: one, or the parts it was split into.
    incomplete: BTreeMap<u64, usize>,
    hurry: usize,
    spare: Vec<BatchBuilder>,
    /// Id and epoch that new partitions start with.
    producer: Option<(i64, i16)>,
}

impl Accumulator {
    /// Empty queues under `config`.
    #[must_use]
    pub fn new(config: &ProducerConfig) -> Self {
        Self {
            batch_size: config.batch_size,
            linger: Duration::from_millis(config.linger_ms),
            memory_bytes: config.buffer_memory,
            max_request_size: config.max_request_size,
            retries: config.retries,
            retry_backoff_ms: config.client.retry_backoff_ms,
            delivery_timeout: Duration::from_millis(config.delivery_timeout_ms),
            codec: config.compression_type,
            idempotent: config.idempotent(),
            strict_order: config.max_in_flight == 1,
            queues: Vec::new(),
            used_bytes: 0,
            next_serial: 0,
            incomplete: BTreeMap::new(),
            hurry: 0,
            spare: Vec::new(),
            producer: None,
        }
    }

    /// Adds a queue for a partition; returns its slot.
    pub fn add_partition(&mut self, topic: Arc<str>, partition: i32) -> usize {
        self.queues.push(Queue {
            topic,
            partition,
            batches: VecDeque::new(),
            in_flight: 0,
            sequences: Sequences::default(),
        });
        self.queues.len() - 1
    }

    /// Topic and partition of a slot.
    #[must_use]
    pub fn place(&self, slot: usize) -> (&Arc<str>, i32) {
        (&self.queues[slot].topic, self.queues[slot].partition)
    }

    /// Adds a record to a partition at `now`, and takes its callback when it does.
    ///
    /// # Errors
    /// `Invalid` when the record exceeds `max.request.size` or `buffer.memory`; nothing is added.
    pub fn add(
        &mut self,
        now: Instant,
        slot: usize,
        record: &NewRecord<'_>,
        callback: &mut Option<Callback>,
    ) -> Result<Added> {
        let queue = &mut self.queues[slot];
        let open = queue.batches.back_mut().filter(|batch| {
            !batch.is_sealed()
                && batch.stamp.is_none()
                && batch.builder.size_with_bytes(record) <= self.batch_size
        });
        let before = open.as_ref().map_or(0, |batch| batch.builder.size_bytes());
        let after = match &open {
            Some(batch) => batch.builder.size_with_bytes(record),
            None => BatchBuilder::new().size_with_bytes(record),
        };
        let charge = after - before;
        if after > self.max_request_size.min(self.memory_bytes) {
            return Err(ClientError::invalid(format!(
                "a record of {after} bytes is over the producer's bound; raise max.request.size \
                 ({}) or buffer.memory ({})",
                self.max_request_size, self.memory_bytes
            )));
        }
        if self.used_bytes + charge > self.memory_bytes {
            return Ok(Added::Full);
        }
        let mut wake = after >= self.batch_size;
        let batch = match open {
            Some(batch) => batch,
            None => {
                wake = true;
                let builder = self.spare.pop().unwrap_or_default();
                let batch = Batch::new(slot, self.next_serial, now, builder);
                self.incomplete.insert(self.next_serial, 1);
                self.next_serial += 1;
                queue.batches.push_back(batch);
                queue.batches.back_mut().expect("just pushed")
            }
        };
        batch.builder.push(record).map_err(|error| ClientError::invalid(error.to_string()))?;
        batch
            .pending
            .push(Pending { timestamp_ms: record.timestamp_ms, callback: callback.take() });
        batch.charged_bytes += charge;
        self.used_bytes += charge;
        Ok(Added::Waiting { wake })
    }

    /// When the next batch of a partition may be sent; `None` when there is none or it has to wait
    /// for an answer to another.
    #[must_use]
    pub fn sendable_at(&self, slot: usize) -> Option<Instant> {
        let queue = &self.queues[slot];
        let next = queue.batches.get(self.next_of(queue)?)?;
        if let Some(retry_at) = next.retry_at {
            return Some(retry_at);
        }
        let full = queue.batches.len() > 1 || next.size_bytes() >= self.batch_size;
        let due = full || self.hurry > 0 || self.is_crowded();
        Some(if due { next.created } else { next.created + self.linger })
    }

    /// Place of the batch that is to be sent next, if one may be.
    fn next_of(&self, queue: &Queue) -> Option<usize> {
        if self.strict_order && queue.in_flight > 0 {
            return None;
        }
        if !self.idempotent {
            return Some(0);
        }
        self.producer?;
        if let Some(sequence) = queue.sequences.first_of_gap() {
            return queue
                .batches
                .iter()
                .position(|it| it.stamp.is_some_and(|stamp| stamp.base_sequence == sequence));
        }
        let first = queue.batches.front()?;
        queue.sequences.may_send(first.stamp).then_some(0)
    }

    /// Whether less memory is left than a batch takes, so that waiting for more makes no sense.
    fn is_crowded(&self) -> bool {
        self.used_bytes + self.batch_size > self.memory_bytes
    }

    /// Takes the first batch of each of `slots`, if any of them may be sent at `now`, up to one
    /// request's size; adds them to `out`.
    pub fn drain(&mut self, now: Instant, slots: &[usize], out: &mut Vec<Batch>) {
        if !slots.iter().any(|&slot| self.sendable_at(slot).is_some_and(|at| at <= now)) {
            return;
        }
        let mut size = 0;
        for &slot in slots {
            let Some(at) = self.sendable_at(slot) else { continue };
            let Some(place) = self.next_of(&self.queues[slot]) else { continue };
            let queue = &mut self.queues[slot];
            let Some(next) = queue.batches.get(place) else { continue };
            // One that only lingers comes along: the request is going anyway.
            if next.retry_at.is_some() && at > now {
                continue;
            }
            size += next.size_bytes();
            if !out.is_empty() && size > self.max_request_size {
                return;
            }
            let Some(mut batch) = queue.batches.remove(place) else { continue };
            if let Some((producer_id, epoch)) = self.producer
                && batch.stamp.is_none()
            {
                batch.stamp = Some(queue.sequences.number(producer_id, epoch, batch.count()));
            }
            batch.attempts += 1;
            queue.in_flight += 1;
            out.push(batch);
        }
    }

    /// Takes back a batch that was drained. Returns it when it has come to its end.
    pub fn settle(&mut self, now: Instant, batch: Batch, verdict: Verdict) -> Option<Done> {
        let queue = &mut self.queues[batch.slot];
        queue.in_flight -= 1;
        match verdict {
            Verdict::Appended(appended) => Some(self.succeed(batch, appended)),
            Verdict::Refused(error) => self.refused(now, batch, error),
            Verdict::Lost(error) => self.try_again(now, batch, error),
            Verdict::Unsent(error) => {
                let mut batch = batch;
                batch.attempts -= 1;
                self.try_again(now, batch, error)
            }
        }
    }

    fn succeed(&mut self, batch: Batch, appended: Appended) -> Done {
        if let Some(stamp) = batch.stamp {
            self.queues[batch.slot].sequences.settled(stamp);
        }
        self.done(batch, Ok(appended))
    }

    fn refused(&mut self, now: Instant, mut batch: Batch, error: ClientError) -> Option<Done> {
        let sequences = &mut self.queues[batch.slot].sequences;
        match (error.code(), batch.stamp) {
            (ErrorCode::DuplicateSequenceNumber, Some(_)) => {
                return Some(self.succeed(batch, Appended::SOMEWHERE));
            }
            (ErrorCode::MessageTooLarge, _) if batch.pending.len() > 1 => {
                return self.split(batch);
            }
            (ErrorCode::OutOfOrderSequenceNumber, Some(stamp)) => {
                match sequences.out_of_order(stamp) {
                    OutOfOrder::WaitForEarlier => {}
                    OutOfOrder::Renumber => {
                        sequences.renumber(stamp);
                        batch.stamp = None;
                    }
                    OutOfOrder::Lost => return Some(self.fail(batch, error)),
                }
            }
            (ErrorCode::UnknownProducerId, Some(stamp)) => {
                sequences.renumber(stamp);
                batch.stamp = None;
            }
            (ErrorCode::InvalidProducerEpoch, Some(_)) => {
                // Another producer uses this id; what it did with it cannot be known.
                self.producer = None;
                return Some(self.fail(batch, error));
            }
            _ if error.is_retriable() => {}
            _ => return Some(self.fail(batch, error)),
        }
        self.try_again(now, batch, error)
    }

    fn try_again(&mut self, now: Instant, mut batch: Batch, error: ClientError) -> Option<Done> {
        let late = now >= batch.created + self.delivery_timeout;
        if late || batch.attempts > self.retries {
            return Some(self.fail(batch, error));
        }
        let doublings = batch.attempts.saturating_sub(1).min(16);
        let wait_ms = (self.retry_backoff_ms << doublings).min(BACKOFF_MAX_MS);
        batch.retry_at = Some(now + Duration::from_millis(wait_ms));
        self.requeue(batch);
        None
    }

    fn requeue(&mut self, batch: Batch) {
        let batches = &mut self.queues[batch.slot].batches;
        let at = batches.partition_point(|queued| queued.order() < batch.order());
        batches.insert(at, batch);
    }

    fn split(&mut self, batch: Batch) -> Option<Done> {
        let slot = batch.slot;
        match batch.split(self.codec) {
            Ok((mut first, mut second)) => {
                if let (Some(stamp), Some(next)) = (first.stamp, second.stamp) {
                    self.queues[slot].sequences.split(stamp, next.base_sequence);
                }
                *self.incomplete.entry(first.serial).or_default() += 1;
                (first.retry_at, second.retry_at) = (Some(first.created), Some(first.created));
                self.requeue(first);
                self.requeue(second);
                None
            }
            Err((batch, error)) => Some(self.fail(*batch, error)),
        }
    }

    fn fail(&mut self, batch: Batch, error: ClientError) -> Done {
        if let Some(stamp) = batch.stamp {
            let sequences = &mut self.queues[batch.slot].sequences;
            sequences.failed(stamp);
            if sequences.is_spent() {
                sequences.forget_producer();
                self.producer = None;
            }
        }
        self.done(batch, Err(error))
    }

    fn done(&mut self, mut batch: Batch, result: Result<Appended>) -> Done {
        self.used_bytes -= batch.charged_bytes;
        let queue = &self.queues[batch.slot];
        if self.spare.len() < SPARE_BUILDERS {
            let mut builder = batch.take_builder();
            builder.clear();
            self.spare.push(builder);
        }
        Done { batch, topic: queue.topic.clone(), partition: queue.partition, result }
    }

    /// The owners of a batch have been told; only then does it count as complete.
    pub fn told(&mut self, serial: u64) {
        if let Some(parts) = self.incomplete.get_mut(&serial) {
            *parts -= 1;
            if *parts == 0 {
                self.incomplete.remove(&serial);
            }
        }
    }

    /// Fails the waiting batches whose `delivery.timeout.ms` is over at `now`.
    pub fn expire(&mut self, now: Instant) -> Vec<Done> {
        let limit = self.delivery_timeout;
        self.fail_where(
            |batch| now >= batch.created + limit,
            |batch| {
                let message = format!(
                    "{} records were not acknowledged within delivery.timeout.ms ({} ms); is the \
                 broker reachable?",
                    batch.pending.len(),
                    limit.as_millis()
                );
                ClientError::new(Kind::TimedOut, message)
            },
        )
    }

    /// Fails everything that waits, with `error`.
    pub fn abort(&mut self, error: &ClientError) -> Vec<Done> {
        self.fail_where(|_| true, |_| error.clone())
    }

    fn fail_where(
        &mut self,
        ended: impl Fn(&Batch) -> bool,
        reason: impl Fn(&Batch) -> ClientError,
    ) -> Vec<Done> {
        let mut done = Vec::new();
        for slot in 0..self.queues.len() {
            while self.queues[slot].batches.front().is_some_and(&ended) {
                let Some(batch) = self.queues[slot].batches.pop_front() else { break };
                let error = reason(&batch);
                done.push(self.fail(batch, error));
            }
        }
        done
    }

    /// When the next waiting batch expires.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Instant> {
        let first = self.queues.iter().filter_map(|queue| queue.batches.front());
        first.map(|batch| batch.created + self.delivery_timeout).min()
    }

    /// Sends everything without waiting for `linger.ms` while somebody waits for it.
    pub fn set_hurry(&mut self, on: bool) {
        self.hurry = if on { self.hurry + 1 } else { self.hurry - 1 };
    }

    /// A mark behind every batch there is, for [`Accumulator::is_complete_below`].
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.next_serial
    }

    /// Whether every batch before `mark` has come to its end.
    #[must_use]
    pub fn is_complete_below(&self, mark: u64) -> bool {
        self.incomplete.first_key_value().is_none_or(|(&serial, _)| serial >= mark)
    }

    /// Whether records wait for a producer id.
    #[must_use]
    pub fn wants_producer_id(&self) -> bool {
        self.idempotent && self.producer.is_none() && !self.incomplete.is_empty()
    }

    /// Takes a fresh producer id.
    pub fn set_producer(&mut self, producer_id: i64, epoch: i16) {
        self.producer = Some((producer_id, epoch));
    }

    /// Bytes of `buffer.memory` in use.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Whether records wait in a partition.
    #[must_use]
    pub fn has_waiting(&self, slot: usize) -> bool {
        !self.queues[slot].batches.is_empty()
    }
}

#[cfg(test)]
mod tests;
