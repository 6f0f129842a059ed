//! Where each assigned partition is read: sans-I/O.
//!
//! Two offsets per partition: the next one to hand out, and the next one to fetch, which is ahead
//! of it while fetched batches wait.

use std::sync::Arc;

use crate::client::{
    admin::OffsetSpec,
    error::{ClientError, Result},
};

/// A position, known or to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Where `auto.offset.reset` says.
    Unset,
    /// What a look-up finds.
    Find(OffsetSpec),
    /// At this offset.
    At(i64),
}

/// An assigned partition.
#[derive(Debug)]
pub struct Assigned {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its index.
    pub partition: i32,
    position: Position,
    /// Offset to fetch from next; means nothing before the position is known.
    pub fetch_offset: i64,
    /// Last seen, or -1.
    high_watermark: i64,
}

impl Assigned {
    /// Whether there is an offset to fetch from.
    #[must_use]
    pub fn is_known(&self) -> bool {
        matches!(self.position, Position::At(_))
    }

    /// Takes the position as lost, to be found by `auto.offset.reset`.
    pub fn reset(&mut self) {
        self.position = Position::Unset;
    }

    /// Takes over what a fetch says about the log.
    pub fn saw_high_watermark(&mut self, high_watermark: i64) {
        self.high_watermark = high_watermark;
    }
}

/// All assigned partitions.
#[derive(Debug, Default)]
pub struct Positions {
    assigned: Vec<Assigned>,
}

impl Positions {
    /// Keeps what stays, drops what goes, adds what is new.
    pub fn assign(&mut self, partitions: &[(&str, i32)]) {
        self.assigned.retain(|it| partitions.contains(&(&*it.topic, it.partition)));
        for &(topic, partition) in partitions {
            if !self.contains(topic, partition) {
                self.assigned.push(Assigned {
                    topic: topic.into(),
                    partition,
                    position: Position::Unset,
                    fetch_offset: 0,
                    high_watermark: -1,
                });
            }
        }
    }

    /// Whether a partition is assigned.
    #[must_use]
    pub fn contains(&self, topic: &str, partition: i32) -> bool {
        self.get(topic, partition).is_some()
    }

    fn get(&self, topic: &str, partition: i32) -> Option<&Assigned> {
        self.assigned.iter().find(|it| it.partition == partition && &*it.topic == topic)
    }

    /// The assigned partition, if it is one.
    pub fn get_mut(&mut self, topic: &str, partition: i32) -> Option<&mut Assigned> {
        self.assigned.iter_mut().find(|it| it.partition == partition && &*it.topic == topic)
    }

    /// All of them, in the order of fetching.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Assigned> {
        self.assigned.iter_mut()
    }

    /// Puts the partition last, so that one that always has data starves no other.
    pub fn move_last(&mut self, topic: &str, partition: i32) {
        let at =
            self.assigned.iter().position(|it| it.partition == partition && &*it.topic == topic);
        if let Some(at) = at {
            self.assigned[at..].rotate_left(1);
        }
    }

    /// Moves a position; a fetch in flight for the old one is ignored when it comes.
    ///
    /// # Errors
    /// `Invalid` when the partition is not assigned.
    pub fn seek(&mut self, topic: &str, partition: i32, position: Position) -> Result<()> {
        let Some(assigned) = self.get_mut(topic, partition) else {
            return Err(not_assigned(topic, partition));
        };
        assigned.position = position;
        if let Position::At(offset) = position {
            assigned.fetch_offset = offset;
        }
        Ok(())
    }

    /// The next offset to hand out.
    ///
    /// # Errors
    /// `Invalid` when the partition is not assigned or the offset is not known yet.
    pub fn offset(&self, topic: &str, partition: i32) -> Result<i64> {
        match self.get(topic, partition).map(|it| it.position) {
            Some(Position::At(offset)) => Ok(offset),
            Some(_) => Err(ClientError::invalid(format!(
                "the position in {topic}-{partition} is not known yet; its leader does not answer"
            ))),
            None => Err(not_assigned(topic, partition)),
        }
    }

    /// Records up to `next` were handed out.
    pub fn advance(&mut self, topic: &str, partition: i32, next: i64) {
        if let Some(assigned) = self.get_mut(topic, partition) {
            assigned.position = Position::At(next);
        }
    }

    /// Partitions whose offset has to be asked for, and which one.
    #[must_use]
    pub fn unknown(&self) -> Vec<(Arc<str>, i32, Option<OffsetSpec>)> {
        self.assigned
            .iter()
            .filter_map(|it| match it.position {
                Position::Unset => Some((it.topic.clone(), it.partition, None)),
                Position::Find(spec) => Some((it.topic.clone(), it.partition, Some(spec))),
                Position::At(_) => None,
            })
            .collect()
    }

    /// The high watermark as last seen.
    #[must_use]
    pub fn high_watermark(&self, topic: &str, partition: i32) -> Option<i64> {
        self.get(topic, partition).map(|it| it.high_watermark).filter(|&mark| mark >= 0)
    }
}

fn not_assigned(topic: &str, partition: i32) -> ClientError {
    ClientError::invalid(format!("{topic}-{partition} is not assigned to this consumer; assign it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_an_assignment_that_keeps_them() {
        let mut positions = Positions::default();
        positions.assign(&[("a", 0), ("a", 1)]);
        positions.seek("a", 0, Position::At(5)).expect("assigned");
        positions.assign(&[("a", 0), ("b", 0)]);
        assert_eq!(positions.offset("a", 0).expect("kept"), 5);
        assert!(positions.offset("a", 1).is_err());
        assert_eq!(positions.unknown(), [("b".into(), 0, None)]);
    }

    #[test]
    fn a_served_partition_goes_last() {
        let mut positions = Positions::default();
        positions.assign(&[("a", 0), ("a", 1), ("a", 2)]);
        positions.move_last("a", 0);
        let order: Vec<i32> = positions.iter_mut().map(|it| it.partition).collect();
        assert_eq!(order, [1, 2, 0]);
    }
}
