//! The shape that Produce and Fetch share in both directions: topics, each with its partitions.
//!
//! Kept flat, as one row of topics that count their partitions and one row of partitions, so that
//! neither side needs a vector per topic.

use std::{borrow::Cow, marker::PhantomData};

use millrace_engine::{limits::PARTITIONS_MAX, types::TopicId};

use super::{Cursor, DecodeError, Element, EncodeError, Field, Sink};

/// From this version on, Produce and Fetch name topics by id (KIP-516).
const TOPIC_ID_SINCE: i16 = 13;

/// Least bytes of a topic: an empty compact name, an empty array, no tags.
const TOPIC_MIN_BYTES: usize = 3;

/// A topic, of which `partitions` entries follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topic<'a> {
    /// The name; empty from version 13 on.
    pub name: Cow<'a, str>,
    /// The id; [`TopicId::NONE`] up to version 12.
    pub topic_id: TopicId,
    /// Entries that belong to it.
    pub partitions: usize,
}

impl<'a> Topic<'a> {
    fn read(cursor: &mut Cursor<'a>, version: i16, min_bytes: usize) -> Result<Self, DecodeError> {
        let (name, topic_id) = if version >= TOPIC_ID_SINCE {
            (Cow::Borrowed(""), cursor.topic_id()?)
        } else {
            (cursor.string()?, TopicId::NONE)
        };
        Ok(Self { name, topic_id, partitions: cursor.array_length(min_bytes)? })
    }

    fn write<S: Sink>(&self, out: &mut S, version: i16) {
        if version >= TOPIC_ID_SINCE {
            out.topic_id(self.topic_id);
        } else {
            out.string(&self.name);
        }
        out.length(Some(self.partitions));
    }
}

/// What a walk over topics and partitions meets: each topic before its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a, P> {
    /// A topic begins.
    Topic(Topic<'a>),
    /// A partition of the last topic.
    Partition(P),
}

/// Topics with their partitions, either as values to write or as bytes to read.
#[derive(Clone, Debug)]
pub enum Grouped<'a, P> {
    /// Values of the writer's own.
    Values {
        /// The topics.
        topics: &'a [Topic<'a>],
        /// The partitions of all topics, in order; as many as the topics claim together.
        partitions: &'a [P],
    },
    /// Bytes of a received message, read whenever it is walked.
    Encoded(Walk<'a, P>),
}

impl<P> Default for Grouped<'_, P> {
    fn default() -> Self {
        Self::Values { topics: &[], partitions: &[] }
    }
}

impl<'a, P: Element<'a>> Grouped<'a, P> {
    /// Reads an array of topics, and checks every topic and partition of it. More partitions than
    /// there may be are refused before they are counted, and so are more topics.
    pub(super) fn read(cursor: &mut Cursor<'a>, version: i16) -> Result<Self, DecodeError> {
        let topics = cursor.array_length(TOPIC_MIN_BYTES)?;
        if topics > PARTITIONS_MAX {
            return Err(DecodeError::Length);
        }
        let mut left = PARTITIONS_MAX;
        let mut walk = Walk {
            cursor: *cursor,
            version,
            topics,
            partitions: 0,
            in_topic: false,
            of: PhantomData,
        };
        let start = walk.clone();
        loop {
            match walk.step()? {
                Step::Topic(topic) => {
                    left = left.checked_sub(topic.partitions).ok_or(DecodeError::Length)?;
                }
                Step::Partition => P::skip(&mut walk.cursor, version)?,
                Step::End => break,
            }
        }
        *cursor = walk.cursor;
        Ok(Self::Encoded(start))
    }

    /// Number of topics.
    #[must_use]
    pub fn topics(&self) -> usize {
        match self {
            Self::Values { topics, .. } => topics.len(),
            Self::Encoded(walk) => walk.topics,
        }
    }

    /// Whether there is no topic.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.topics() == 0
    }

    /// Topics and partitions in the order they are written in.
    #[must_use]
    pub fn iter(&self) -> Items<'a, P> {
        match self {
            Self::Values { topics, partitions } => Items::Values { topics, partitions, left: 0 },
            Self::Encoded(walk) => Items::Encoded(walk.clone()),
        }
    }
}

impl<'a, P: Element<'a>> Field for Grouped<'a, P> {
    fn write<S: Sink>(&self, out: &mut S, version: i16) {
        out.length(Some(self.topics()));
        match self {
            Self::Values { topics, partitions } => {
                let claimed = topics.iter().map(|topic| topic.partitions).sum::<usize>();
                if claimed != partitions.len() {
                    return out.fail(EncodeError::PartitionCount);
                }
                let mut partitions = partitions.iter();
                for topic in *topics {
                    topic.write(out, version);
                    for partition in partitions.by_ref().take(topic.partitions) {
                        partition.write(out, version);
                    }
                    out.tag_count(0);
                }
            }
            Self::Encoded(walk) => rewrite(walk.clone(), out, version),
        }
    }
}

/// Writes what was received, maybe in another version.
fn rewrite<'a, P: Element<'a>, S: Sink>(walk: Walk<'a, P>, out: &mut S, version: i16) {
    let mut left = 0_usize;
    for item in walk {
        match item {
            Item::Topic(topic) => {
                topic.write(out, version);
                left = topic.partitions;
            }
            Item::Partition(partition) => {
                partition.write(out, version);
                left = left.saturating_sub(1);
            }
        }
        if left == 0 {
            out.tag_count(0);
        }
    }
}

/// Iterator over a [`Grouped`].
#[derive(Clone, Debug)]
pub enum Items<'a, P> {
    /// Over values.
    Values {
        /// Topics to come.
        topics: &'a [Topic<'a>],
        /// Partitions to come.
        partitions: &'a [P],
        /// Partitions to come of the last topic.
        left: usize,
    },
    /// Over received bytes.
    Encoded(Walk<'a, P>),
}

impl<'a, P: Element<'a>> Iterator for Items<'a, P> {
    type Item = Item<'a, P>;

    fn next(&mut self) -> Option<Item<'a, P>> {
        match self {
            Self::Encoded(walk) => walk.next(),
            Self::Values { topics, partitions, left } => match left.checked_sub(1) {
                Some(fewer) => {
                    *left = fewer;
                    let (partition, rest) = partitions.split_first()?;
                    *partitions = rest;
                    Some(Item::Partition(partition.clone()))
                }
                None => {
                    let (topic, rest) = topics.split_first()?;
                    (*topics, *left) = (rest, topic.partitions);
                    Some(Item::Topic(topic.clone()))
                }
            },
        }
    }
}

enum Step<'a> {
    Topic(Topic<'a>),
    /// A partition lies under the cursor, to be read or skipped by the caller.
    Partition,
    End,
}

/// A position in received topics and partitions.
#[derive(Debug)]
pub struct Walk<'a, P> {
    cursor: Cursor<'a>,
    version: i16,
    topics: usize,
    partitions: usize,
    in_topic: bool,
    of: PhantomData<fn() -> P>,
}

impl<P> Clone for Walk<'_, P> {
    fn clone(&self) -> Self {
        Self { of: PhantomData, ..*self }
    }
}

impl<'a, P: Element<'a>> Walk<'a, P> {
    fn step(&mut self) -> Result<Step<'a>, DecodeError> {
        if let Some(fewer) = self.partitions.checked_sub(1) {
            self.partitions = fewer;
            return Ok(Step::Partition);
        }
        if self.in_topic {
            self.cursor.skip_tags()?;
            self.in_topic = false;
        }
        let Some(fewer) = self.topics.checked_sub(1) else { return Ok(Step::End) };
        self.topics = fewer;
        let topic = Topic::read(&mut self.cursor, self.version, P::MIN_BYTES)?;
        self.partitions = topic.partitions;
        self.in_topic = true;
        Ok(Step::Topic(topic))
    }
}

impl<'a, P: Element<'a>> Iterator for Walk<'a, P> {
    type Item = Item<'a, P>;

    /// The whole was checked when it was received, so an error here cannot happen and ends the
    /// walk.
    fn next(&mut self) -> Option<Item<'a, P>> {
        match self.step().ok()? {
            Step::Topic(topic) => Some(Item::Topic(topic)),
            Step::Partition => P::read(&mut self.cursor, self.version).ok().map(Item::Partition),
            Step::End => None,
        }
    }
}
