//! The producer's housekeeping thread: who leads what, producer ids, records that expire.

use std::{
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::{sender, state::Shared};
use crate::{
    client::{
        error::{ClientError, Result},
        links::{Backoff, Links},
    },
    wire::{ErrorCode, typed::init_producer_id::InitProducerIdRequest},
};

/// Longest sleep, so that a batch that came meanwhile expires in time.
const NAP_MAX_MS: u64 = 1_000;

/// Starts a thread of the producer.
///
/// # Errors
/// `Invalid` when the system has no thread left.
pub fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name)
        .spawn(body)
        .map_err(|error| ClientError::invalid(format!("cannot start a thread: {error}")))
}

enum Job {
    Refresh(Vec<Arc<str>>),
    ProducerId,
    Stop,
}

struct Control {
    shared: Arc<Shared>,
    links: Links,
    senders: Vec<JoinHandle<()>>,
    backoff: Backoff,
    not_before: Instant,
}

/// Runs until the producer stops; returns when every sender has returned.
pub fn run(shared: Arc<Shared>, links: Links) {
    let backoff = Backoff::new(shared.config.client.retry_backoff_ms);
    let mut control =
        Control { shared, links, senders: Vec::new(), backoff, not_before: Instant::now() };
    loop {
        let result = match control.next_job() {
            Job::Refresh(topics) => control.refresh(&topics),
            Job::ProducerId => control.find_producer_id(),
            Job::Stop => break,
        };
        let first_ms = control.shared.config.client.retry_backoff_ms;
        match result {
            Ok(()) => control.backoff = Backoff::new(first_ms),
            Err(error) if error.is_retriable() => {}
            Err(error) => control.give_up(&error),
        }
        // Success or not, the cluster is not asked twice within one backoff.
        control.not_before = Instant::now() + control.backoff.next_wait();
    }
    for sender in control.senders {
        // A sender that panicked has said so on standard error.
        let _ = sender.join();
    }
}

impl Control {
    fn next_job(&mut self) -> Job {
        let max_age = Duration::from_millis(self.shared.config.client.metadata_max_age_ms);
        let nap_ms = NAP_MAX_MS.min(self.shared.config.delivery_timeout_ms / 4).max(1);
        let mut state = self.shared.lock();
        loop {
            if state.stopped {
                return Job::Stop;
            }
            let now = Instant::now();
            let expired = state.queues.expire(now);
            if !expired.is_empty() {
                drop(state);
                self.shared.tell(expired);
                state = self.shared.lock();
                continue;
            }
            let aged = state.metadata_as_of.is_some_and(|at| now >= at + max_age);
            let wanted = state.metadata_wanted || aged;
            if now >= self.not_before {
                if state.queues.wants_producer_id() {
                    return Job::ProducerId;
                }
                if wanted {
                    return Job::Refresh(state.topics.keys().cloned().collect());
                }
            }
            let mut nap = Duration::from_millis(nap_ms);
            if wanted || state.queues.wants_producer_id() {
                nap = nap.min(self.not_before.saturating_duration_since(now));
            }
            state = self.shared.wait_as_control(state, nap);
        }
    }

    fn refresh(&mut self, topics: &[Arc<str>]) -> Result<()> {
        let names: Vec<&str> = topics.iter().map(|topic| &**topic).collect();
        let deadline = self.links.deadline();
        self.links.refresh(Some(&names), true, deadline)?;
        let mut state = self.shared.lock();
        let new = state.apply(self.links.cluster());
        self.shared.wake_callers(&state);
        self.shared.wake_senders(&state);
        drop(state);
        for node in new {
            let shared = self.shared.clone();
            let name = format!("producer-send-{node}");
            self.senders.push(spawn(name, move || sender::run(&shared, node))?);
        }
        Ok(())
    }

    fn find_producer_id(&mut self) -> Result<()> {
        let mut request = InitProducerIdRequest::default();
        request.transactional_id = None;
        request.transaction_timeout_ms = i32::MAX;
        request.producer_id = -1;
        request.producer_epoch = -1;
        let deadline = self.links.deadline();
        let response = self.links.call_any(&request, deadline)?;
        let code = ErrorCode::from_i16(response.error_code);
        if !code.is_none() {
            return Err(ClientError::refused(code, None).during("producer id"));
        }
        let mut state = self.shared.lock();
        state.queues.set_producer(response.producer_id, response.producer_epoch);
        self.shared.wake_senders(&state);
        Ok(())
    }

    /// Nothing can be sent: says so to everybody who waits.
    fn give_up(&self, error: &ClientError) {
        let mut state = self.shared.lock();
        for topic in state.topics.values_mut().filter(|topic| topic.slots.is_empty()) {
            topic.failure = Some(error.clone());
        }
        let done = state.queues.abort(error);
        self.shared.wake_callers(&state);
        drop(state);
        self.shared.tell(done);
    }
}
