//! Writing records: batched per partition, pipelined per broker, retried in order.
//!
//! Owns the threads around the [`accumulator`]: one that watches the cluster, and two per broker.
//! `send` only copies the record; its fate comes to a callback, on a thread of the producer.
//!
//! Failure behaviour: retried until `delivery.timeout.ms`, then the callback gets the reason. With
//! idempotence (the default) a retry neither repeats nor reorders records.

pub mod accumulator;
pub mod batch;
mod control;
mod sender;
pub mod sequences;
mod state;

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, MutexGuard, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use accumulator::Added;
pub use batch::{Callback, RecordMetadata};
use millrace_engine::batch::{NewRecord, NewRecordHeader};
use state::{Shared, State};

use super::{
    config::ProducerConfig,
    error::{ClientError, Kind, Result},
    links::Links,
};
use crate::wire::ErrorCode;

/// A record to be sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProducerRecord<'a> {
    /// Its topic.
    pub topic: &'a str,
    /// Its partition; `None` leaves the choice to the partitioner.
    pub partition: Option<i32>,
    /// Its timestamp in ms since the epoch; `None` is now.
    pub timestamp_ms: Option<i64>,
    /// Its key; `None` is null.
    pub key: Option<&'a [u8]>,
    /// Its value; `None` is null.
    pub value: Option<&'a [u8]>,
    /// Its headers, in order.
    pub headers: &'a [NewRecordHeader<'a>],
}

/// A producer; may be shared between threads.
#[derive(Debug)]
pub struct Producer {
    shared: Arc<Shared>,
    control: Option<JoinHandle<()>>,
}

impl Producer {
    /// Connects to one bootstrap server and starts the producer's threads.
    ///
    /// # Errors
    /// `Invalid` when settings contradict each other; at once when no bootstrap server answers.
    pub fn connect(config: ProducerConfig) -> Result<Self> {
        config.validate()?;
        let mut links = Links::new(config.client.clone());
        let deadline = links.deadline();
        links.refresh(Some(&[]), false, deadline)?;
        let seed = RandomState::new().hash_one(0);
        let shared = Arc::new(Shared::new(config, seed));
        let theirs = shared.clone();
        let control =
            control::spawn("producer-control".to_owned(), move || control::run(theirs, links))?;
        Ok(Self { shared, control: Some(control) })
    }

    /// Queues a record. `callback` is called exactly once if this succeeds, and never if it fails.
    ///
    /// Blocks for at most `max.block.ms`, while the topic is not known or `buffer.memory` is full.
    ///
    /// # Errors
    /// `Invalid` for a record too large or a partition that does not exist; `TimedOut` after
    /// `max.block.ms`; the broker's refusal to describe the topic.
    pub fn send(&self, record: &ProducerRecord<'_>, callback: Option<Callback>) -> Result<()> {
        let mut callback = callback;
        let config = &self.shared.config;
        let deadline = Instant::now() + Duration::from_millis(config.max_block_ms);
        let encoded = NewRecord {
            timestamp_ms: record.timestamp_ms.unwrap_or_else(wall_ms),
            key: record.key,
            value: record.value,
            headers: record.headers,
        };
        let mut state = self.known_topic(record.topic, deadline)?;
        let slot = slot_of(&mut state, record)?;
        loop {
            if state.stopped {
                return Err(closed());
            }
            match state.queues.add(Instant::now(), slot, &encoded, &mut callback)? {
                Added::Waiting { wake } => {
                    if wake {
                        self.shared.wake_senders(&state);
                        if state.queues.wants_producer_id() {
                            self.shared.wake_control();
                        }
                    }
                    return Ok(());
                }
                Added::Full => {
                    self.shared.wake_senders(&state);
                    let (next, in_time) = self.shared.wait_as_caller(state, deadline);
                    if !in_time {
                        return Err(ClientError::new(
                            Kind::TimedOut,
                            format!(
                                "buffer.memory stayed full for max.block.ms ({} ms); send slower \
                                 or raise it",
                                config.max_block_ms
                            ),
                        ));
                    }
                    state = next;
                }
            }
        }
    }

    /// Queues a record and waits for its fate.
    ///
    /// # Errors
    /// Those of [`Producer::send`] and of the delivery.
    pub fn send_and_wait(&self, record: &ProducerRecord<'_>) -> Result<RecordMetadata> {
        let (tell, told) = mpsc::sync_channel(1);
        let callback: Callback = Box::new(move |result| {
            // Nobody listens only if the waiting thread is gone.
            let _ = tell.send(result);
        });
        self.send(record, Some(callback))?;
        self.hurry(|| told.recv().unwrap_or_else(|_| Err(closed())))
    }

    /// Number of partitions of a topic, once it is known.
    ///
    /// # Errors
    /// As [`Producer::send`].
    pub fn partitions(&self, topic: &str) -> Result<usize> {
        let deadline = Instant::now() + Duration::from_millis(self.shared.config.max_block_ms);
        let state = self.known_topic(topic, deadline)?;
        Ok(state.topics.get(topic).map_or(0, |found| found.slots.len()))
    }

    /// Sends everything queued so far, whatever `linger.ms`, and waits until all of it has come to
    /// its end and every callback has returned. Failures are the callbacks' to see.
    pub fn flush(&self) {
        let far = Instant::now() + Duration::from_secs(u64::from(u32::MAX));
        self.flush_until(far);
    }

    /// As [`Producer::flush`] until `deadline`; whether all came to its end.
    fn flush_until(&self, deadline: Instant) -> bool {
        self.hurry(|| {
            let mut state = self.shared.lock();
            let mark = state.queues.mark();
            while !state.queues.is_complete_below(mark) {
                let (next, in_time) = self.shared.wait_as_caller(state, deadline);
                if !in_time {
                    return false;
                }
                state = next;
            }
            true
        })
    }

    fn hurry<T>(&self, wait: impl FnOnce() -> T) -> T {
        let mut state = self.shared.lock();
        state.queues.set_hurry(true);
        self.shared.wake_senders(&state);
        drop(state);
        let waited = wait();
        self.shared.lock().queues.set_hurry(false);
        waited
    }

    /// Flushes for at most `timeout`, fails what is then left, and stops the threads.
    ///
    /// # Errors
    /// `TimedOut` when records were left.
    pub fn close(mut self, timeout: Duration) -> Result<()> {
        let all = self.flush_until(Instant::now() + timeout);
        self.stop();
        if all {
            return Ok(());
        }
        let message = format!("records were left unsent after {} ms", timeout.as_millis());
        Err(ClientError::new(Kind::TimedOut, message))
    }

    fn stop(&mut self) {
        let Some(control) = self.control.take() else { return };
        let mut state = self.shared.lock();
        state.stopped = true;
        self.shared.wake_senders(&state);
        drop(state);
        self.shared.wake_control();
        // A control thread that panicked has said so on standard error.
        let _ = control.join();
        let mut state = self.shared.lock();
        let done = state.queues.abort(&closed());
        self.shared.wake_callers(&state);
        drop(state);
        self.shared.tell(done);
    }

    /// The state, once the topic's partitions are known.
    fn known_topic(&self, topic: &str, deadline: Instant) -> Result<MutexGuard<'_, State>> {
        let mut state = self.shared.lock();
        loop {
            if state.stopped {
                return Err(closed());
            }
            if state.topics.get(topic).is_some_and(|found| !found.slots.is_empty()) {
                return Ok(state);
            }
            let failure = state.topic(topic, &self.shared.config).failure.clone();
            if let Some(error) = failure.clone().filter(|error| !error.is_retriable()) {
                return Err(error);
            }
            self.shared.wake_control();
            let (next, in_time) = self.shared.wait_as_caller(state, deadline);
            if !in_time {
                return Err(unknown_topic(topic, failure, self.shared.config.max_block_ms));
            }
            state = next;
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn slot_of(state: &mut State, record: &ProducerRecord<'_>) -> Result<usize> {
    let Some(topic) = state.topics.get_mut(record.topic) else { return Err(closed()) };
    let count = topic.slots.len();
    let chosen = record.partition.or_else(|| {
        let size = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
        let partitions = u32::try_from(count).unwrap_or(u32::MAX);
        topic.partitioner.choose(record.key, size, partitions, &topic.available)
    });
    let index = chosen.and_then(|partition| usize::try_from(partition).ok());
    index.and_then(|index| topic.slots.get(index)).copied().ok_or_else(|| {
        ClientError::invalid(format!(
            "topic {} has {count} partitions, so none with number {}",
            record.topic,
            chosen.unwrap_or(-1),
        ))
    })
}

fn unknown_topic(topic: &str, failure: Option<ClientError>, max_block_ms: u64) -> ClientError {
    let waited = format!("after max.block.ms ({max_block_ms} ms)");
    match failure {
        Some(error) if error.code() == ErrorCode::UnknownTopicOrPartition => ClientError::new(
            Kind::TimedOut,
            format!("topic {topic} does not exist {waited}; create it first"),
        ),
        Some(error) => error.during(&waited),
        None => ClientError::new(
            Kind::TimedOut,
            format!("no broker described topic {topic} {waited}; is the cluster reachable?"),
        ),
    }
}

fn closed() -> ClientError {
    ClientError::new(Kind::Closed, "the producer is closed")
}

fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
