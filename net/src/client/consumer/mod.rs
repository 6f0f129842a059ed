//! Reading partitions from positions of the caller's choice.
//!
//! Owns positions, the fetches in flight and what they brought. Knows no group: partitions are
//! assigned by hand. One fetch per broker is in flight while the caller works through the last one.
//!
//! Failure behaviour: lost brokers, changed leaders and missing topics are looked for again, with a
//! doubling wait, for as long as the caller polls; a position outside of the log follows
//! `auto.offset.reset`; corrupt data and refusals that no retry can help fail the poll.

mod decode;
mod fetch;
mod positions;

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use decode::Fetched;
pub use decode::RecordView;
use fetch::Fetches;
use positions::{Position, Positions};

use super::{
    admin::{ListedOffset, OffsetSpec, list_offset},
    cluster::Cluster,
    config::{ConsumerConfig, OffsetReset},
    error::{ClientError, Result},
    links::Links,
};

/// A record of the caller's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Topic it is from.
    pub topic: Arc<str>,
    /// Partition it is from.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Its timestamp in ms since the epoch.
    pub timestamp_ms: i64,
    /// Its key; `None` is null.
    pub key: Option<Vec<u8>>,
    /// Its value; `None` is null.
    pub value: Option<Vec<u8>>,
    /// Its headers, in order.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// A consumer, for one thread at a time.
#[derive(Debug)]
pub struct Consumer {
    config: ConsumerConfig,
    links: Links,
    fetches: Fetches,
    positions: Positions,
    fetched: VecDeque<Fetched>,
    /// Records of a batch that was larger than a poll may return.
    ready: VecDeque<Record>,
}

impl Consumer {
    /// Connects to one bootstrap server; nothing is read before [`Consumer::assign`].
    ///
    /// # Errors
    /// At once, without retry, when no bootstrap server answers.
    pub fn connect(config: ConsumerConfig) -> Result<Self> {
        let mut links = Links::new(config.client.clone());
        let deadline = links.deadline();
        links.refresh(Some(&[]), false, deadline)?;
        let fetches = Fetches::new(config.client.retry_backoff_ms);
        Ok(Self {
            config,
            links,
            fetches,
            positions: Positions::default(),
            fetched: VecDeque::new(),
            ready: VecDeque::new(),
        })
    }

    /// The cluster with the topics named, or all of them.
    ///
    /// # Errors
    /// When no broker answers.
    pub fn metadata(&mut self, topics: Option<&[&str]>) -> Result<Cluster> {
        let deadline = self.links.deadline();
        let create = self.config.allow_auto_create_topics && topics.is_some();
        self.links.retry(deadline, |links| links.refresh(topics, create, deadline))?;
        Ok(self.links.cluster().clone())
    }

    /// Reads these partitions from now on and no others. Partitions that were assigned before keep
    /// their position, new ones start where `auto.offset.reset` says until [`Consumer::seek`].
    pub fn assign(&mut self, partitions: &[(&str, i32)]) {
        self.positions.assign(partitions);
        let positions = &self.positions;
        self.fetched.retain(|it| positions.contains(&it.topic, it.partition));
        self.ready.retain(|it| positions.contains(&it.topic, it.partition));
    }

    /// Goes on with `offset` in an assigned partition.
    ///
    /// # Errors
    /// `Invalid` when the partition is not assigned.
    pub fn seek(&mut self, topic: &str, partition: i32, offset: i64) -> Result<()> {
        self.moved(topic, partition, Position::At(offset))
    }

    /// Goes on with the first record of an assigned partition.
    ///
    /// # Errors
    /// `Invalid` when the partition is not assigned.
    pub fn seek_to_beginning(&mut self, topic: &str, partition: i32) -> Result<()> {
        self.moved(topic, partition, Position::Find(OffsetSpec::Earliest))
    }

    /// Goes on with records that come from now on.
    ///
    /// # Errors
    /// `Invalid` when the partition is not assigned.
    pub fn seek_to_end(&mut self, topic: &str, partition: i32) -> Result<()> {
        self.moved(topic, partition, Position::Find(OffsetSpec::Latest))
    }

    fn moved(&mut self, topic: &str, partition: i32, position: Position) -> Result<()> {
        self.positions.seek(topic, partition, position)?;
        self.fetched.retain(|it| !(&*it.topic == topic && it.partition == partition));
        self.ready.retain(|it| !(&*it.topic == topic && it.partition == partition));
        Ok(())
    }

    /// The offset of the next record that a poll will return; asks the broker where it is not
    /// known yet.
    ///
    /// # Errors
    /// When the partition is not assigned or its leader does not answer.
    pub fn position(&mut self, topic: &str, partition: i32) -> Result<i64> {
        let deadline = self.links.deadline();
        self.find_positions(deadline)?;
        if let Some(record) =
            self.ready.iter().find(|it| &*it.topic == topic && it.partition == partition)
        {
            return Ok(record.offset);
        }
        self.positions.offset(topic, partition)
    }

    /// The high watermark of the partition as the last fetch saw it; `None` before one did.
    #[must_use]
    pub fn high_watermark(&self, topic: &str, partition: i32) -> Option<i64> {
        self.positions.high_watermark(topic, partition)
    }

    /// The offset `spec` of a partition, assigned or not.
    ///
    /// # Errors
    /// When the partition is unknown or its leader does not answer.
    pub fn offset(
        &mut self,
        topic: &str,
        partition: i32,
        spec: OffsetSpec,
    ) -> Result<ListedOffset> {
        let level = self.config.isolation_level;
        let deadline = self.links.deadline();
        list_offset(&mut self.links, topic, partition, spec, level, deadline)
    }

    /// The next records, at most `max.poll.records`; empty when `timeout` passes without one.
    ///
    /// # Errors
    /// See the head of this module. The consumer can be used on after every error.
    pub fn poll(&mut self, timeout: Duration) -> Result<Vec<Record>> {
        if self.ready.is_empty() {
            let mut batch = Vec::new();
            self.poll_each(timeout, &mut |view| batch.push(Record::of(view)))?;
            self.ready.extend(batch);
        }
        let count = self.ready.len().min(self.config.max_poll_records);
        Ok(self.ready.drain(..count).collect())
    }

    /// Shows the records of the next batch that has any, without copying them; returns how many.
    /// 0 when `timeout` passes first.
    ///
    /// # Errors
    /// As [`Consumer::poll`].
    pub fn poll_each(
        &mut self,
        timeout: Duration,
        visit: &mut dyn FnMut(&RecordView<'_>),
    ) -> Result<usize> {
        let deadline = Instant::now() + timeout;
        loop {
            let count = self.show_fetched(visit)?;
            if count > 0 {
                return Ok(count);
            }
            self.find_positions(deadline)?;
            self.fetches.send(&self.config, &mut self.links, &mut self.positions)?;
            let received = self.fetches.receive(&self.config, &mut self.positions, deadline)?;
            self.fetched.extend(received);
            if self.fetched.is_empty() && Instant::now() >= deadline {
                return Ok(0);
            }
        }
    }

    /// Shows records of what was fetched; before the last batch goes out, asks for more.
    fn show_fetched(&mut self, visit: &mut dyn FnMut(&RecordView<'_>)) -> Result<usize> {
        let mut count = 0;
        while let Some(fetched) = self.fetched.front_mut() {
            self.fetches.send_ahead(&self.config, &mut self.positions);
            let from = self.positions.offset(&fetched.topic, fetched.partition)?;
            let next = fetched.next_batch(from, &mut |view| {
                count += 1;
                visit(view);
            })?;
            match next {
                Some(next) => self.positions.advance(&fetched.topic, fetched.partition, next),
                None => drop(self.fetched.pop_front()),
            }
            if count > 0 {
                break;
            }
        }
        Ok(count)
    }

    /// Asks for the offsets that positions without a number stand for.
    fn find_positions(&mut self, deadline: Instant) -> Result<()> {
        let unknown = OffsetSpec::from_reset(self.config.auto_offset_reset);
        for (topic, partition, spec) in self.positions.unknown() {
            let Some(spec) = spec.or(unknown) else {
                return Err(ClientError::invalid(format!(
                    "no position in {topic}-{partition} and auto.offset.reset=none; seek first"
                )));
            };
            let level = self.config.isolation_level;
            match list_offset(&mut self.links, &topic, partition, spec, level, deadline) {
                Ok(found) => {
                    self.positions.seek(&topic, partition, Position::At(found.offset.max(0)))?;
                }
                // The next poll asks again.
                Err(error) if error.is_retriable() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl OffsetSpec {
    fn from_reset(reset: OffsetReset) -> Option<Self> {
        match reset {
            OffsetReset::Earliest => Some(Self::Earliest),
            OffsetReset::Latest => Some(Self::Latest),
            OffsetReset::None => None,
        }
    }
}

impl Record {
    fn of(view: &RecordView<'_>) -> Self {
        Self {
            topic: view.topic.into(),
            partition: view.partition,
            offset: view.offset,
            timestamp_ms: view.timestamp_ms,
            key: view.key.map(<[u8]>::to_vec),
            value: view.value.map(<[u8]>::to_vec),
            headers: view
                .headers
                .map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))
                .collect(),
        }
    }
}
