//! The nouns of the engine: offsets, epochs and identities, each a type of its own so that none
//! can be passed for another.
//!
//! Knows nothing: no I/O, no protocol, no other module.

use std::fmt;

/// Position of a record in a partition, from 0. `Offset(-1)` never occurs in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub i64);

impl Offset {
    /// The offset `count` records further on. Panics on overflow of `i64`, which no log reaches.
    #[must_use]
    pub fn plus(self, count: i64) -> Self {
        Self(self.0.checked_add(count).expect("an offset stays below i64::MAX"))
    }

    /// Records from `earlier` up to `self`; negative when `earlier` is ahead.
    #[must_use]
    pub fn distance_from(self, earlier: Self) -> i64 {
        self.0 - earlier.0
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// Leader epoch of a partition (KIP-101): grows by one with each new leader, never falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaderEpoch(pub i32);

/// Topic id (KIP-516): 16 random bytes given at creation, never used again; zero means "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub [u8; 16]);

impl TopicId {
    /// The id that stands for "no id given".
    pub const NONE: Self = Self([0; 16]);
}

impl fmt::Display for TopicId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// The digits of base64url (RFC 4648, section 5).
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The UUID in the text that [`uuid_text`] makes of it; `None` for any other text.
#[must_use]
pub fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let mut value: u128 = 0;
    for (at, digit) in text.bytes().enumerate() {
        let digit = DIGITS.iter().position(|known| *known == digit)?;
        let digit = u128::try_from(digit).ok()?;
        // The last of 22 digits has two bits of the UUID and four that are zero.
        value = match at {
            0..21 => value << 6 | digit,
            21 => value << 2 | digit >> 4,
            _ => return None,
        };
    }
    let uuid = value.to_be_bytes();
    (uuid_text(&uuid) == text).then_some(uuid)
}

/// The 22 characters of base64url by which Kafka shows a UUID.
#[must_use]
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    let mut out = String::with_capacity(22);
    for chunk in uuid.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            let value = (bits >> (18 - 6 * digit)) & 63;
            let digit = usize::try_from(value).ok().and_then(|value| DIGITS.get(value));
            out.push(char::from(*digit.expect("six bits")));
        }
    }
    out
}

/// Index of a partition in its topic, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionIndex(pub i32);

/// One partition of one topic, the key of every partition table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicId,
    /// The partition in it.
    pub partition: PartitionIndex,
}

/// Kafka's `node.id` of a broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub i32);

/// A shard of this process, from 0. Appears nowhere on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

/// Producer id (KIP-98), or -1 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(pub i64);

impl ProducerId {
    /// No producer id: the batch is neither idempotent nor transactional.
    pub const NONE: Self = Self(-1);
}
