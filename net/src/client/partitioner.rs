//! Chooses the partition of a record.
//!
//! Owns the rules of Kafka's Java producer: an explicit partition wins, then the murmur2 of the
//! key, then a sticky partition that changes once about `batch.size` bytes went to it (KIP-480,
//! KIP-794), or strict rotation. Knows nothing of batches, time or sockets; randomness comes in as
//! a seed.

use super::murmur2::{murmur2, to_positive};

/// Kafka's `partitioner.class`, for records without an explicit partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// By key hash; records without a key stay on one partition for about a batch (the default).
    #[default]
    Sticky,
    /// Each record to the next partition, whatever its key (`RoundRobinPartitioner`).
    RoundRobin,
}

/// The partition choice of one topic.
#[derive(Debug)]
pub struct Partitioner {
    strategy: Strategy,
    sticky_bytes: usize,
    current: Option<u32>,
    bytes_on_current: usize,
    random: u64,
}

impl Partitioner {
    /// A partitioner that leaves a sticky partition after `sticky_bytes`; `seed` is any number.
    #[must_use]
    pub fn new(strategy: Strategy, sticky_bytes: usize, seed: u64) -> Self {
        Self { strategy, sticky_bytes, current: None, bytes_on_current: 0, random: seed | 1 }
    }

    /// The partition for a record with `key` and of `size_bytes`, out of `partitions` of the topic,
    /// of which `available` have a leader (records with a key go to their partition regardless).
    ///
    /// `None` when the topic has no partition.
    pub fn choose(
        &mut self,
        key: Option<&[u8]>,
        size_bytes: usize,
        partitions: u32,
        available: &[i32],
    ) -> Option<i32> {
        if partitions == 0 {
            return None;
        }
        match (self.strategy, key) {
            (Strategy::Sticky, Some(key)) => {
                i32::try_from(to_positive(murmur2(key)) % partitions).ok()
            }
            (Strategy::Sticky, None) => self.sticky(size_bytes, partitions, available),
            (Strategy::RoundRobin, _) => self.rotate(partitions, available),
        }
    }

    fn sticky(&mut self, size_bytes: usize, partitions: u32, available: &[i32]) -> Option<i32> {
        let stale = self.bytes_on_current >= self.sticky_bytes;
        if stale || self.current.is_none_or(|current| current >= partitions) {
            self.current = Some(self.draw(partitions, available));
            self.bytes_on_current = 0;
        }
        self.bytes_on_current += size_bytes;
        self.current.and_then(|current| i32::try_from(current).ok())
    }

    fn draw(&mut self, partitions: u32, available: &[i32]) -> u32 {
        // xorshift64: spreads topics and producers, which is all that is asked of it.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let among = u32::try_from(available.len()).unwrap_or(0);
        let span = if among == 0 { partitions } else { among };
        let drawn = u32::try_from((self.random >> 32) % u64::from(span)).unwrap_or(0);
        let index = usize::try_from(drawn).unwrap_or(0);
        available.get(index).and_then(|&partition| u32::try_from(partition).ok()).unwrap_or(drawn)
    }

    fn rotate(&mut self, partitions: u32, available: &[i32]) -> Option<i32> {
        let turn = self.current.map_or(0, |current| current.wrapping_add(1));
        self.current = Some(turn);
        let among = u32::try_from(available.len()).unwrap_or(0);
        if among == 0 {
            return i32::try_from(turn % partitions).ok();
        }
        available.get(usize::try_from(turn % among).unwrap_or(0)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_partition_whatever_is_available() {
        let mut partitioner = Partitioner::new(Strategy::Sticky, 100, 7);
        // toPositive(murmur2("foobar")) = 1357151166
        let expected = i32::try_from(1_357_151_166_u32 % 12).expect("below 12");
        assert_eq!(partitioner.choose(Some(b"foobar"), 10, 12, &[0]), Some(expected));
        assert_eq!(partitioner.choose(Some(b"foobar"), 10, 12, &[]), Some(expected));
    }

    #[test]
    fn records_without_key_stay_until_about_a_batch_is_full() {
        let mut partitioner = Partitioner::new(Strategy::Sticky, 100, 7);
        let available: Vec<i32> = (0..12).collect();
        let mut runs = Vec::new();
        for _ in 0..200 {
            let chosen = partitioner.choose(None, 10, 12, &available).expect("has partitions");
            match runs.last_mut() {
                Some((partition, length)) if *partition == chosen => *length += 1,
                _ => runs.push((chosen, 1)),
            }
        }
        assert!(runs.iter().all(|(_, length)| length % 10 == 0), "{runs:?}");
        assert!(runs.len() > 5, "moves on: {runs:?}");
    }

    #[test]
    fn a_sticky_partition_is_one_with_a_leader() {
        let mut partitioner = Partitioner::new(Strategy::Sticky, 1, 99);
        for _ in 0..100 {
            let chosen = partitioner.choose(None, 10, 12, &[3, 5]).expect("has partitions");
            assert!(chosen == 3 || chosen == 5);
        }
    }

    #[test]
    fn round_robin_takes_turns_and_ignores_keys() {
        let mut partitioner = Partitioner::new(Strategy::RoundRobin, 100, 7);
        let chosen: Vec<_> =
            (0..5).filter_map(|_| partitioner.choose(Some(b"k"), 10, 3, &[0, 1, 2])).collect();
        assert_eq!(chosen, [0, 1, 2, 0, 1]);
    }

    #[test]
    fn no_partition_is_no_choice() {
        assert_eq!(Partitioner::new(Strategy::Sticky, 1, 1).choose(None, 1, 0, &[]), None);
    }
}
