//! What the threads of a producer share: the queues, and who leads each partition.
//!
//! One mutex around all of it, held for moves between queues and never while a byte is encoded,
//! sent or waited for, nor while a callback runs.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{
    accumulator::{Accumulator, Done, Verdict},
    batch::Batch,
};
use crate::client::{
    cluster::Cluster,
    config::ProducerConfig,
    error::{ClientError, Kind},
    partitioner::Partitioner,
};

/// A topic that records are sent to.
#[derive(Debug)]
pub struct TopicState {
    /// Slot of each partition, by index; empty until the cluster was asked.
    pub slots: Vec<usize>,
    /// Partitions with a leader.
    pub available: Vec<i32>,
    /// Chooses among them.
    pub partitioner: Partitioner,
    /// Why the broker does not describe it, as of the last answer.
    pub failure: Option<ClientError>,
}

/// A broker and what is under way to it.
#[derive(Debug, Default)]
pub struct Node {
    /// `host:port`.
    pub address: String,
    /// Partitions it leads.
    pub slots: Vec<usize>,
    /// When each unanswered request was sent, in order.
    pub sent: VecDeque<Instant>,
    /// Whether a sender runs for it.
    pub has_sender: bool,
}

/// Everything behind the mutex.
#[derive(Debug)]
pub struct State {
    /// The queues.
    pub queues: Accumulator,
    /// Topics by name.
    pub topics: HashMap<Arc<str>, TopicState>,
    /// Brokers by node id.
    pub nodes: BTreeMap<i32, Node>,
    /// The cluster is to be asked again soon.
    pub metadata_wanted: bool,
    /// When the cluster was last asked.
    pub metadata_as_of: Option<Instant>,
    /// Set at the end: threads return.
    pub stopped: bool,
    idle_senders: usize,
    waiting_callers: usize,
    seed: u64,
}

/// What a sender is to do.
#[derive(Debug)]
pub enum Work {
    /// Send these.
    Send(Vec<Batch>),
    /// The oldest request was not answered in time: give the connection up.
    Overdue,
    /// Return.
    Stop,
}

/// Shared by all threads of a producer.
#[derive(Debug)]
pub struct Shared {
    /// The settings.
    pub config: ProducerConfig,
    state: Mutex<State>,
    /// Senders wait here.
    work: Condvar,
    /// The control thread waits here.
    control: Condvar,
    /// Callers wait here, for memory, metadata or completion.
    progress: Condvar,
}

impl Shared {
    /// Nothing sent yet.
    pub fn new(config: ProducerConfig, seed: u64) -> Self {
        let state = State {
            queues: Accumulator::new(&config),
            topics: HashMap::new(),
            nodes: BTreeMap::new(),
            metadata_wanted: false,
            metadata_as_of: None,
            stopped: false,
            idle_senders: 0,
            waiting_callers: 0,
            seed,
        };
        Self {
            config,
            state: Mutex::new(state),
            work: Condvar::new(),
            control: Condvar::new(),
            progress: Condvar::new(),
        }
    }

    /// The state. A panicking callback poisons nothing: it runs outside of the lock.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets senders look again, if one waits.
    pub fn wake_senders(&self, state: &State) {
        if state.idle_senders > 0 {
            self.work.notify_all();
        }
    }

    /// Lets the control thread look again.
    pub fn wake_control(&self) {
        self.control.notify_all();
    }

    /// Lets callers look again, if one waits.
    pub fn wake_callers(&self, state: &State) {
        if state.waiting_callers > 0 {
            self.progress.notify_all();
        }
    }

    /// Waits for progress until `deadline`; false when it has passed.
    pub fn wait_as_caller<'s>(
        &self,
        mut state: MutexGuard<'s, State>,
        deadline: Instant,
    ) -> (MutexGuard<'s, State>, bool) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return (state, false);
        }
        state.waiting_callers += 1;
        let (mut state, _) =
            self.progress.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        state.waiting_callers -= 1;
        (state, true)
    }

    /// Waits as the control thread, at most `limit`.
    pub fn wait_as_control<'s>(
        &self,
        state: MutexGuard<'s, State>,
        limit: Duration,
    ) -> MutexGuard<'s, State> {
        self.control.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    /// The next thing for the sender of `node` to do; waits for it.
    pub fn next_work(&self, node: i32) -> Work {
        let patience = Duration::from_millis(self.config.client.request_timeout_ms);
        let mut state = self.lock();
        loop {
            if state.stopped {
                return Work::Stop;
            }
            let now = Instant::now();
            if let Some(work) = state.work_of(node, now, self.config.max_in_flight, patience) {
                return work;
            }
            let until = state.next_event(node, self.config.max_in_flight, patience);
            state.idle_senders += 1;
            state = match until {
                None => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(now);
                    self.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.idle_senders -= 1;
        }
    }

    /// Takes batches of one request back from `node`, tells owners whose batch has come to its end,
    /// and lets everybody look again.
    pub fn settle(&self, node: i32, outcomes: Vec<(Batch, Verdict)>) {
        let now = Instant::now();
        let mut state = self.lock();
        if let Some(node) = state.nodes.get_mut(&node) {
            node.sent.pop_front();
        }
        let mut done = Vec::with_capacity(outcomes.len());
        for (batch, verdict) in outcomes {
            state.metadata_wanted |= hints_at_change(&verdict);
            done.extend(state.queues.settle(now, batch, verdict));
        }
        self.wake_senders(&state);
        let wanted = state.metadata_wanted || state.queues.wants_producer_id();
        drop(state);
        if wanted {
            self.wake_control();
        }
        self.tell(done);
    }

    /// Tells the owners of batches, outside of the lock, and counts the batches as complete.
    pub fn tell(&self, done: Vec<Done>) {
        if done.is_empty() {
            return;
        }
        let serials: Vec<u64> = done.into_iter().map(Done::tell).collect();
        let mut state = self.lock();
        serials.into_iter().for_each(|serial| state.queues.told(serial));
        self.wake_callers(&state);
    }
}

impl State {
    fn work_of(
        &mut self,
        id: i32,
        now: Instant,
        max_in_flight: usize,
        patience: Duration,
    ) -> Option<Work> {
        let node = self.nodes.get_mut(&id)?;
        if node.sent.front().is_some_and(|&at| now >= at + patience) {
            return Some(Work::Overdue);
        }
        if node.sent.len() >= max_in_flight {
            return None;
        }
        let mut batches = Vec::new();
        self.queues.drain(now, &node.slots, &mut batches);
        if batches.is_empty() {
            return None;
        }
        node.sent.push_back(now);
        // Another partition is first the next time, so that none starves when requests are full.
        if !node.slots.is_empty() {
            node.slots.rotate_left(1);
        }
        Some(Work::Send(batches))
    }

    fn next_event(&self, id: i32, max_in_flight: usize, patience: Duration) -> Option<Instant> {
        let node = self.nodes.get(&id)?;
        let overdue = node.sent.front().map(|&at| at + patience);
        let sendable = if node.sent.len() < max_in_flight {
            node.slots.iter().filter_map(|&slot| self.queues.sendable_at(slot)).min()
        } else {
            None
        };
        [overdue, sendable].into_iter().flatten().min()
    }

    /// The topic, made known if it is not; the control thread then asks for it.
    pub fn topic(&mut self, name: &str, config: &ProducerConfig) -> &mut TopicState {
        if !self.topics.contains_key(name) {
            self.metadata_wanted = true;
            self.seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
            let topic = TopicState {
                slots: Vec::new(),
                available: Vec::new(),
                partitioner: Partitioner::new(config.partitioner, config.batch_size, self.seed),
                failure: None,
            };
            self.topics.insert(name.into(), topic);
        }
        self.topics.get_mut(name).expect("just inserted when it was missing")
    }

    /// Takes over who leads what. Returns the nodes that need a sender.
    pub fn apply(&mut self, cluster: &Cluster) -> Vec<i32> {
        for node in self.nodes.values_mut() {
            node.slots.clear();
        }
        for (id, broker) in &cluster.brokers {
            self.nodes.entry(*id).or_default().address = broker.address();
        }
        let mut leaderless = false;
        for (name, topic) in &mut self.topics {
            let Some(info) = cluster.topics.get(&**name) else { continue };
            topic.failure = info.failure();
            topic.available.clear();
            for partition in &info.partitions {
                let index = usize::try_from(partition.partition).unwrap_or(usize::MAX);
                if index == topic.slots.len() {
                    let slot = self.queues.add_partition(name.clone(), partition.partition);
                    topic.slots.push(slot);
                }
                let (Some(&slot), Some(node)) =
                    (topic.slots.get(index), self.nodes.get_mut(&partition.leader))
                else {
                    leaderless = true;
                    continue;
                };
                node.slots.push(slot);
                topic.available.push(partition.partition);
            }
            leaderless |= topic.slots.is_empty();
        }
        self.metadata_wanted = leaderless;
        self.metadata_as_of = Some(Instant::now());
        let mut new = Vec::new();
        for (id, node) in &mut self.nodes {
            if !node.slots.is_empty() && !node.has_sender {
                node.has_sender = true;
                new.push(*id);
            }
        }
        new
    }
}

/// Whether an outcome says that what is known of the cluster may be out of date.
fn hints_at_change(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Appended(_) => false,
        Verdict::Lost(_) | Verdict::Unsent(_) => true,
        Verdict::Refused(error) => error.kind() == Kind::Refused && error.is_retriable(),
    }
}
