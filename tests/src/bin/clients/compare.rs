//! The one comparison: what a client reports against what the corpus says.
//!
//! Owns the expectations and the planted errors that prove that each of them can fail. Does not
//! know clients. Records of acknowledged topics must have exactly the offsets 0, 1, 2 ... of
//! their lane; records sent with `acks=0` must have the content and the order, and offsets that
//! rise. The first difference ends the comparison.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::Outcome;
use crate::corpus::{ACKED_TOPIC, Corpus, PARTITIONS, Profile, Record, TOPICS};
use crate::dump::{DumpReader, Entry, Phase};
use crate::job::{MIDDLE_RECORDS, TAIL_RECORDS};

/// An error put into the expectation on purpose; the comparison has to find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Plant {
    /// One bit of one value.
    Flip,
    /// One bit of one value that was sent with `acks=0`.
    FlipUnacked,
    /// One key null instead of empty, or one byte longer.
    Key,
    /// One header less.
    Header,
    /// One create time a millisecond later.
    Timestamp,
    /// One record less.
    Drop,
    /// Two neighbours of one lane exchanged.
    Swap,
    /// One acknowledged offset one higher.
    Offset,
}

impl Plant {
    /// All plants.
    pub const ALL: [Self; 8] = [
        Self::Flip,
        Self::FlipUnacked,
        Self::Key,
        Self::Header,
        Self::Timestamp,
        Self::Drop,
        Self::Swap,
        Self::Offset,
    ];
}

/// What must come back.
pub struct Expected<'a> {
    corpus: &'a Corpus,
    profile: Profile,
    started_ms: i64,
    lanes: HashMap<(u8, i32), Vec<usize>>,
    /// Corpus index to offset, acknowledged records only.
    offsets: HashMap<usize, i64>,
    /// Records in which something was planted.
    planted: HashMap<usize, Record>,
}

impl<'a> Expected<'a> {
    /// The expectation for a corpus that was produced after `started_ms`.
    #[must_use]
    pub fn new(corpus: &'a Corpus, profile: Profile, started_ms: i64) -> Self {
        let mut lanes = HashMap::new();
        let mut offsets = HashMap::new();
        for topic in 0..TOPICS {
            for partition in 0..PARTITIONS {
                let lane = corpus.lane(topic, partition);
                if topic == ACKED_TOPIC {
                    offsets.extend(lane.iter().copied().zip(0..));
                }
                lanes.insert((topic, partition), lane);
            }
        }
        Self { corpus, profile, started_ms, lanes, offsets, planted: HashMap::new() }
    }

    /// Puts an error in; `false` when this client's records have no such field.
    ///
    /// # Errors
    /// A corpus too small to hold the error.
    pub fn plant(&mut self, plant: Plant) -> Outcome<bool> {
        if plant == Plant::Timestamp && !self.profile.has_timestamps() {
            return Ok(false);
        }
        let topic = if plant == Plant::FlipUnacked { 1 } else { ACKED_TOPIC };
        let lane = self.lanes.get(&(topic, 2)).ok_or("no lane to plant in")?;
        let suits = |index: &usize| {
            let record = self.corpus.records.get(*index);
            record.is_some_and(|r| {
                r.value.as_ref().is_some_and(|v| !v.is_empty()) && !r.headers.is_empty()
            })
        };
        let start = lane.len() / 3;
        let at = (start..lane.len()).find(|&at| lane.get(at).is_some_and(suits));
        let at = at.ok_or("the corpus is too small to plant in")?;
        let index = lane.get(at).copied().unwrap_or(0);
        let mut record = self.corpus.records.get(index).ok_or("no record to plant in")?.clone();
        match plant {
            Plant::Flip | Plant::FlipUnacked => {
                if let Some(byte) = record.value.as_mut().and_then(|value| value.last_mut()) {
                    *byte ^= 1;
                }
            }
            Plant::Key => match &mut record.key {
                Some(key) if !key.is_empty() => key.push(0),
                Some(_) => record.key = None,
                None => record.key = Some(Vec::new()),
            },
            Plant::Header => drop(record.headers.pop()),
            Plant::Timestamp => record.timestamp_ms += 1,
            Plant::Drop => drop(self.lane_mut(topic).remove(at)),
            Plant::Swap => self.lane_mut(topic).swap(at - 1, at),
            Plant::Offset => *self.offsets.entry(index).or_default() += 1,
        }
        self.planted.insert(index, record);
        Ok(true)
    }

    /// Checks the acknowledgements: each acknowledged record exactly once, at its offset.
    ///
    /// # Errors
    /// The first difference.
    pub fn check_produced(&self, dump: &Path) -> Outcome<()> {
        let mut reader = DumpReader::open(dump)?;
        let mut seen = HashSet::new();
        while let Some(entry) = reader.next_entry()? {
            match entry {
                Entry::Acked { index, partition, offset } => {
                    let wanted = self.offsets.get(&index);
                    let wanted =
                        wanted.ok_or_else(|| format!("record {index} was not to be acked"))?;
                    let sent_to = self.record(index)?.partition;
                    if (sent_to, *wanted) != (partition, offset) {
                        return Err(format!(
                            "record {index} was to get partition {sent_to} offset {wanted}, \
                             acknowledged as partition {partition} offset {offset}"
                        )
                        .into());
                    }
                    if !seen.insert(index) {
                        return Err(format!("record {index} was acknowledged twice").into());
                    }
                }
                Entry::Ends { topic, partition, low, high } => {
                    self.check_ends(topic, partition, low, high)?;
                }
                Entry::Read { .. } => return Err("a producer does not read".into()),
            }
        }
        if seen.len() == self.offsets.len() {
            return Ok(());
        }
        Err(format!("{} of {} records acknowledged", seen.len(), self.offsets.len()).into())
    }

    /// Checks what was read: each lane from its beginning, and of the acknowledged topic the
    /// middle, the tail and the ends.
    ///
    /// # Errors
    /// The first difference.
    pub fn check_consumed(&self, dump: &Path) -> Outcome<()> {
        let mut reader = DumpReader::open(dump)?;
        let mut cursors = self.cursors();
        let mut ends = HashSet::new();
        while let Some(entry) = reader.next_entry()? {
            match entry {
                Entry::Read { phase, topic, offset, record } => {
                    let place = (phase, topic, record.partition);
                    let cursor = cursors.get_mut(&place);
                    let cursor = cursor.ok_or_else(|| format!("{place:?} was not to be read"))?;
                    self.check_read(cursor, place, offset, &record)
                        .map_err(|error| format!("{place:?} at offset {offset}: {error}"))?;
                }
                Entry::Ends { topic, partition, low, high } => {
                    self.check_ends(topic, partition, low, high)?;
                    ends.insert((topic, partition));
                }
                Entry::Acked { .. } => return Err("a consumer gets no acknowledgement".into()),
            }
        }
        if let Some((place, cursor)) = cursors.iter().find(|(_, cursor)| cursor.next < cursor.end) {
            return Err(format!("{place:?} ended at {} of {}", cursor.next, cursor.end).into());
        }
        match (0..PARTITIONS).find(|&partition| !ends.contains(&(ACKED_TOPIC, partition))) {
            Some(partition) => Err(format!("no ends of partition {partition} told").into()),
            None => Ok(()),
        }
    }

    fn cursors(&self) -> HashMap<(Phase, u8, i32), Cursor> {
        let mut cursors = HashMap::new();
        for (&(topic, partition), lane) in &self.lanes {
            let count = lane.len();
            let mut put = |phase, next, end| {
                let cursor = Cursor { next, end, last_offset: -1 };
                cursors.insert((phase, topic, partition), cursor);
            };
            put(Phase::Beginning, 0, count);
            if topic == ACKED_TOPIC {
                put(Phase::Tail, count.saturating_sub(TAIL_RECORDS), count);
                put(Phase::Middle, count / 2, count.min(count / 2 + MIDDLE_RECORDS));
            }
        }
        cursors
    }

    fn check_read(
        &self,
        cursor: &mut Cursor,
        (_, topic, partition): (Phase, u8, i32),
        offset: i64,
        read: &Record,
    ) -> Outcome<()> {
        if cursor.next >= cursor.end {
            return Err("one record too many".into());
        }
        let lane = self.lanes.get(&(topic, partition)).ok_or("no such lane")?;
        let index = *lane.get(cursor.next).ok_or("no such record")?;
        if topic == ACKED_TOPIC && i64::try_from(cursor.next)? != offset {
            return Err(format!("expected offset {}", cursor.next).into());
        }
        if offset <= cursor.last_offset {
            return Err(format!("came after offset {}", cursor.last_offset).into());
        }
        self.check_content(self.record(index)?, read)
            .map_err(|difference| format!("record {index}: {difference}"))?;
        cursor.next += 1;
        cursor.last_offset = offset;
        Ok(())
    }

    fn check_content(&self, wanted: &Record, read: &Record) -> Result<(), String> {
        if wanted.value != read.value {
            return Err(difference("value", wanted.value.as_deref(), read.value.as_deref()));
        }
        if wanted.key != read.key {
            return Err(difference("key", wanted.key.as_deref(), read.key.as_deref()));
        }
        if wanted.headers != read.headers {
            return Err(format!("headers {:?}, expected {:?}", read.headers, wanted.headers));
        }
        // Without a time of the corpus the client takes the clock: any time of this run is right.
        let right = if self.profile.has_timestamps() {
            wanted.timestamp_ms == read.timestamp_ms
        } else {
            (self.started_ms - 1..self.started_ms + 3_600_000).contains(&read.timestamp_ms)
        };
        if right {
            return Ok(());
        }
        Err(format!("timestamp {}, expected {}", read.timestamp_ms, wanted.timestamp_ms))
    }

    fn check_ends(&self, topic: u8, partition: i32, low: i64, high: i64) -> Outcome<()> {
        let lane = self.lanes.get(&(topic, partition)).ok_or("ends of an unknown lane")?;
        if low == 0 && usize::try_from(high).is_ok_and(|high| high == lane.len()) {
            return Ok(());
        }
        Err(format!("partition {partition}: ends {low} to {high}, expected 0 to {}", lane.len())
            .into())
    }

    fn record(&self, index: usize) -> Outcome<&Record> {
        let record = self.planted.get(&index).or_else(|| self.corpus.records.get(index));
        Ok(record.ok_or_else(|| format!("there is no record {index}"))?)
    }

    fn lane_mut(&mut self, topic: u8) -> &mut Vec<usize> {
        self.lanes.entry((topic, 2)).or_default()
    }
}

/// Where the reader of one lane is in one phase.
struct Cursor {
    next: usize,
    end: usize,
    last_offset: i64,
}

fn difference(what: &str, wanted: Option<&[u8]>, read: Option<&[u8]>) -> String {
    match (wanted, read) {
        (Some(wanted), Some(read)) => {
            let at = wanted.iter().zip(read).position(|(a, b)| a != b);
            let at = at.unwrap_or(wanted.len().min(read.len()));
            format!(
                "{what} of {} bytes, expected {}, differs from byte {at}",
                read.len(),
                wanted.len()
            )
        }
        (None, Some(read)) => format!("{what} of {} bytes, expected null", read.len()),
        (Some(wanted), None) => format!("{what} null, expected {} bytes", wanted.len()),
        (None, None) => unreachable!("two nulls are equal"),
    }
}
