//! Fetches in flight, one per broker.
//!
//! Owns connections of its own, so that a fetch that waits at the broker holds up no look-up.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use millrace_engine::io::buf::Chain;

use super::{
    decode::Fetched,
    positions::{Assigned, Positions},
};
use crate::{
    client::{
        cluster::Cluster,
        config::ConsumerConfig,
        error::{ClientError, Result},
        link::Link,
        links::{Backoff, Links},
    },
    wire::{
        ErrorCode, Grouped, Item, Topic,
        fetch::{FetchPartition, FetchRequest, PartitionData},
    },
};

/// The newest version that names topics; from 13 on they have ids, which a consumer that is told
/// names does not need.
const FETCH_VERSION_CAP: i16 = 12;

/// How long one of several brokers is waited for before the next gets its turn.
const TURN_MS: u64 = 2;

/// Where and from which offset a fetch reads.
type Asked = HashMap<(Arc<str>, i32), i64>;

#[derive(Debug)]
struct InFlight {
    id: i32,
    version: i16,
    asked: Asked,
    overdue: Instant,
}

#[derive(Debug)]
struct Fetcher {
    link: Link,
    in_flight: Option<InFlight>,
}

/// The fetching side of a consumer.
#[derive(Debug)]
pub struct Fetches {
    fetchers: BTreeMap<i32, Fetcher>,
    first_backoff_ms: u64,
    backoff: Backoff,
    not_before: Option<Instant>,
    /// Leaders as the last look at the cluster found them.
    leaders: HashMap<(Arc<str>, i32), i32>,
    stale: bool,
    as_of: Option<Instant>,
}

impl Fetches {
    /// None in flight; failures are followed by a wait of `first_backoff_ms` that doubles.
    pub fn new(first_backoff_ms: u64) -> Self {
        Self {
            fetchers: BTreeMap::new(),
            first_backoff_ms,
            backoff: Backoff::new(first_backoff_ms),
            not_before: None,
            leaders: HashMap::new(),
            stale: true,
            as_of: None,
        }
    }

    /// Sends a fetch to every broker that has none in flight and leads a partition to read.
    /// Looks for leaders first where that is due. What fails is tried again later.
    pub fn send(
        &mut self,
        config: &ConsumerConfig,
        links: &mut Links,
        positions: &mut Positions,
    ) -> Result<()> {
        if self.not_before.is_some_and(|at| Instant::now() < at) {
            // One broker's failure holds up no other.
            self.send_ahead(config, positions);
            return Ok(());
        }
        let aged = self.as_of.is_none_or(|at| {
            at.elapsed() >= Duration::from_millis(config.client.metadata_max_age_ms)
        });
        let known = &self.leaders;
        let missing =
            positions.iter_mut().any(|it| !known.contains_key(&(it.topic.clone(), it.partition)));
        if self.stale || aged || missing {
            match self.look_for_leaders(config, links, positions) {
                Err(error) if error.is_retriable() => return self.try_later(),
                result => result?,
            }
        }
        self.open_links(config, links.cluster());
        self.send_ahead(config, positions);
        Ok(())
    }

    fn look_for_leaders(
        &mut self,
        config: &ConsumerConfig,
        links: &mut Links,
        positions: &mut Positions,
    ) -> Result<()> {
        let mut topics: Vec<Arc<str>> = positions.iter_mut().map(|it| it.topic.clone()).collect();
        topics.sort_unstable();
        topics.dedup();
        let names: Vec<&str> = topics.iter().map(|topic| &**topic).collect();
        let deadline = links.deadline();
        links.refresh(Some(&names), config.allow_auto_create_topics, deadline)?;
        self.leaders.clear();
        self.stale = false;
        self.as_of = Some(Instant::now());
        let mut leaderless = false;
        for assigned in positions.iter_mut() {
            let info = links.cluster().topics.get(&*assigned.topic);
            let leader = info
                .and_then(|info| info.partition(assigned.partition))
                .map_or(-1, |info| info.leader);
            if leader >= 0 {
                self.leaders.insert((assigned.topic.clone(), assigned.partition), leader);
            } else {
                leaderless = true;
            }
        }
        if leaderless {
            self.failed();
        }
        Ok(())
    }

    /// Waits a while before the next look at the cluster.
    fn failed(&mut self) {
        self.stale = true;
        self.not_before = Some(Instant::now() + self.backoff.next_wait());
    }

    fn try_later(&mut self) -> Result<()> {
        self.failed();
        Ok(())
    }

    fn open_links(&mut self, config: &ConsumerConfig, cluster: &Cluster) {
        let mut nodes: Vec<i32> = self.leaders.values().copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            if self.fetchers.contains_key(&node) {
                continue;
            }
            let opened = cluster
                .brokers
                .get(&node)
                .map(|broker| Link::open(&broker.address(), &config.client));
            match opened {
                Some(Ok(link)) => {
                    self.fetchers.insert(node, Fetcher { link, in_flight: None });
                }
                Some(Err(_)) | None => self.failed(),
            }
        }
    }

    /// As [`Fetches::send`] over the links that are open, without looking for leaders.
    pub fn send_ahead(&mut self, config: &ConsumerConfig, positions: &mut Positions) {
        let mut lost = Vec::new();
        for (&node, fetcher) in &mut self.fetchers {
            if fetcher.in_flight.is_some() {
                continue;
            }
            let leaders = &self.leaders;
            let wanted: Vec<&mut Assigned> = positions
                .iter_mut()
                .filter(|it| {
                    it.is_known() && leaders.get(&(it.topic.clone(), it.partition)) == Some(&node)
                })
                .collect();
            if !wanted.is_empty() && fetcher.send(config, wanted).is_err() {
                lost.push(node);
            }
        }
        for node in lost {
            self.lose(node);
        }
    }

    /// Waits until `deadline` for an answer, and takes all that are there.
    ///
    /// # Errors
    /// A refusal that no retry can help.
    pub fn receive(
        &mut self,
        config: &ConsumerConfig,
        positions: &mut Positions,
        deadline: Instant,
    ) -> Result<Vec<Fetched>> {
        let waiting: Vec<i32> = self
            .fetchers
            .iter()
            .filter(|(_, fetcher)| fetcher.in_flight.is_some())
            .map(|(&node, _)| node)
            .collect();
        if waiting.is_empty() {
            let pause = Duration::from_millis(self.first_backoff_ms);
            let until = self.not_before.unwrap_or_else(|| Instant::now() + pause).min(deadline);
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            return Ok(Vec::new());
        }
        let turn = Duration::from_millis(TURN_MS);
        let mut received = Vec::new();
        for &node in &waiting {
            let until =
                if waiting.len() == 1 { deadline } else { deadline.min(Instant::now() + turn) };
            let Some(fetcher) = self.fetchers.get_mut(&node) else { continue };
            match fetcher.receive(until) {
                Ok(None) => {}
                Ok(Some((frame, in_flight))) => {
                    self.take(config, positions, node, &frame, &in_flight, &mut received)?;
                }
                Err(_) => self.lose(node),
            }
        }
        Ok(received)
    }

    fn lose(&mut self, node: i32) {
        self.fetchers.remove(&node);
        self.failed();
    }

    fn take(
        &mut self,
        config: &ConsumerConfig,
        positions: &mut Positions,
        node: i32,
        frame: &Chain,
        in_flight: &InFlight,
        received: &mut Vec<Fetched>,
    ) -> Result<()> {
        let Some(fetcher) = self.fetchers.get(&node) else { return Ok(()) };
        let response = fetcher.link.read::<FetchRequest<'_>>(frame, in_flight.version)?;
        if !response.error_code.is_none() {
            let error = ClientError::refused(response.error_code, None).during("fetch");
            return if error.is_retriable() { self.try_later() } else { Err(error) };
        }
        let mut topic: Arc<str> = "".into();
        for item in response.topics.iter() {
            match item {
                Item::Topic(next) => topic = (&*next.name).into(),
                Item::Partition(data) => {
                    let key = (topic.clone(), data.index);
                    let Some(&asked) = in_flight.asked.get(&key) else { continue };
                    let fetched = self.take_partition(config, positions, key, asked, data)?;
                    received.extend(fetched);
                }
            }
        }
        Ok(())
    }

    fn take_partition(
        &mut self,
        config: &ConsumerConfig,
        positions: &mut Positions,
        (topic, partition): (Arc<str>, i32),
        asked: i64,
        data: PartitionData<'_>,
    ) -> Result<Option<Fetched>> {
        let Some(assigned) = positions.get_mut(&topic, partition) else { return Ok(None) };
        // A seek since then makes the answer one to another question.
        if !assigned.is_known() || assigned.fetch_offset != asked {
            return Ok(None);
        }
        if !data.error_code.is_none() {
            return self.refused(config, assigned, data.error_code).map(|()| None);
        }
        self.backoff = Backoff::new(self.first_backoff_ms);
        assigned.saw_high_watermark(data.high_watermark);
        let aborted = data.aborted_transactions.map_or_else(Vec::new, |list| {
            list.iter().map(|it| (it.producer_id, it.first_offset)).collect()
        });
        let fetched =
            Fetched::new(topic.clone(), partition, data.records, config.check_crcs, aborted);
        let Some(end) = fetched.end() else { return Ok(None) };
        assigned.fetch_offset = end.max(asked);
        positions.move_last(&topic, partition);
        Ok(Some(fetched))
    }

    fn refused(
        &mut self,
        config: &ConsumerConfig,
        assigned: &mut Assigned,
        code: ErrorCode,
    ) -> Result<()> {
        let place = format!("{}-{}", assigned.topic, assigned.partition);
        let error = ClientError::refused(code, None).during(&place);
        match code {
            ErrorCode::OffsetOutOfRange => {
                if config.auto_offset_reset == crate::client::config::OffsetReset::None {
                    let at = assigned.fetch_offset;
                    return Err(error.during(&format!("offset {at} with auto.offset.reset=none")));
                }
                assigned.reset();
                Ok(())
            }
            // A broker that finds its own log corrupt will do so again.
            ErrorCode::CorruptMessage => Err(error),
            _ if error.is_retriable() => self.try_later(),
            _ => Err(error),
        }
    }
}

impl Fetcher {
    fn send(&mut self, config: &ConsumerConfig, wanted: Vec<&mut Assigned>) -> Result<()> {
        let mut topics: Vec<Topic<'_>> = Vec::new();
        let mut partitions = Vec::with_capacity(wanted.len());
        let mut asked = Asked::with_capacity(wanted.len());
        for assigned in wanted {
            let max_bytes = config.max_partition_fetch_bytes;
            let offset = assigned.fetch_offset;
            partitions.push(FetchPartition::new(assigned.partition, offset, max_bytes));
            asked.insert((assigned.topic.clone(), assigned.partition), offset);
            match topics.last_mut() {
                Some(last) if *last.name == *assigned.topic => last.partitions += 1,
                _ => topics.push(Topic {
                    name: assigned.topic.to_string().into(),
                    partitions: 1,
                    ..Topic::default()
                }),
            }
        }
        let request = FetchRequest {
            max_wait_ms: config.fetch_max_wait_ms,
            min_bytes: config.fetch_min_bytes,
            max_bytes: config.fetch_max_bytes,
            isolation_level: config.isolation_level.code(),
            topics: Grouped::Values { topics: &topics, partitions: &partitions },
            ..FetchRequest::default()
        };
        let (id, version) = self.link.send(&request, FETCH_VERSION_CAP)?;
        let patience = Duration::from_millis(config.client.request_timeout_ms);
        let overdue = Instant::now() + patience;
        self.in_flight = Some(InFlight { id, version, asked, overdue });
        Ok(())
    }

    /// The answer, if it begins to arrive before `until`.
    fn receive(&mut self, until: Instant) -> Result<Option<(Chain, InFlight)>> {
        let Some(overdue) = self.in_flight.as_ref().map(|it| it.overdue) else { return Ok(None) };
        if !self.link.wait_readable(until.min(overdue))? {
            return if Instant::now() < overdue { Ok(None) } else { Err(late()) };
        }
        let Some(in_flight) = self.in_flight.take() else { return Ok(None) };
        let frame = self.link.receive(in_flight.id, overdue + Duration::from_secs(1))?;
        Ok(Some((frame, in_flight)))
    }
}

fn late() -> ClientError {
    ClientError::new(crate::client::error::Kind::TimedOut, "a fetch was not answered in time")
}
