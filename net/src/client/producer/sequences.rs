//! Sequence numbers of one partition: no duplicate and no gap through retries (KIP-98, KIP-360).
//!
//! Sans-I/O. A batch gets its number when it is first sent and keeps it until the broker is known
//! to have it or to have refused it. When a batch fails for good, those behind it would meet a gap
//! for ever: then no new number is given, the batches already numbered are settled one by one, and
//! those that the broker certainly does not have go out again under the next epoch, from 0.

use std::collections::VecDeque;

use super::batch::Stamp;
use crate::client::config::IDEMPOTENT_IN_FLIGHT_MAX;

/// What to do with a batch that the broker found out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfOrder {
    /// An earlier batch is on its way again: send this one again behind it.
    WaitForEarlier,
    /// The gap is one we know of: number it anew.
    Renumber,
    /// Records that were acknowledged are gone: fail.
    Lost,
}

/// Numbers of one partition.
#[derive(Debug, Default)]
pub struct Sequences {
    producer: Option<(i64, i16)>,
    next: i32,
    /// First numbers of batches whose fate is open, in order.
    open: VecDeque<i32>,
    gap: bool,
}

impl Sequences {
    /// Whether a batch may be sent now: one with a number only as the first that is open (so
    /// retries go one at a time), one without only while there is room behind the open ones and no
    /// gap.
    #[must_use]
    pub fn may_send(&self, stamp: Option<Stamp>) -> bool {
        match stamp {
            Some(stamp) => self.open.front() == Some(&stamp.base_sequence),
            None => !self.gap && self.open.len() < IDEMPOTENT_IN_FLIGHT_MAX,
        }
    }

    /// While there is a gap, the only number that may be sent: batches with it go out from behind
    /// others that have none.
    #[must_use]
    pub fn first_of_gap(&self) -> Option<i32> {
        if self.gap { self.open.front().copied() } else { None }
    }

    /// The stamp of the next batch, of `count` records, for the producer `producer_id`.
    pub fn number(&mut self, producer_id: i64, epoch: i16, count: i32) -> Stamp {
        debug_assert!(!self.gap, "no number is given while there is a gap");
        if self.producer.is_none_or(|(known, _)| known != producer_id) {
            self.producer = Some((producer_id, epoch));
            self.next = 0;
        }
        let (producer_id, epoch) = self.producer.unwrap_or((producer_id, epoch));
        let stamp = Stamp { producer_id, epoch, base_sequence: self.next };
        self.next = sequence_plus(self.next, count);
        self.open.push_back(stamp.base_sequence);
        stamp
    }

    /// The broker has the batch.
    pub fn settled(&mut self, stamp: Stamp) {
        self.close(stamp);
    }

    /// The batch was given up; whether the broker has it does not matter any more.
    pub fn failed(&mut self, stamp: Stamp) {
        self.gap = true;
        self.close(stamp);
    }

    /// The broker certainly does not have the batch, and its number is of no use.
    pub fn renumber(&mut self, stamp: Stamp) {
        self.gap = true;
        self.close(stamp);
    }

    /// The batch is split in two: the second half begins with `second`.
    pub fn split(&mut self, stamp: Stamp, second: i32) {
        if let Some(at) = self.open.iter().position(|&open| open == stamp.base_sequence) {
            self.open.insert(at + 1, second);
        }
    }

    /// The broker says that numbers before this batch's are missing.
    #[must_use]
    pub fn out_of_order(&self, stamp: Stamp) -> OutOfOrder {
        if self.open.front() != Some(&stamp.base_sequence) {
            return OutOfOrder::WaitForEarlier;
        }
        if self.gap { OutOfOrder::Renumber } else { OutOfOrder::Lost }
    }

    /// Whether the producer id is used up here and another is needed: its last epoch ended in a
    /// gap.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.gap && self.open.is_empty()
    }

    /// Begins anew under whatever producer id comes next.
    pub fn forget_producer(&mut self) {
        if self.open.is_empty() {
            *self = Self::default();
        }
    }

    fn close(&mut self, stamp: Stamp) {
        self.open.retain(|&open| open != stamp.base_sequence);
        if self.gap
            && self.open.is_empty()
            && let Some((producer_id, epoch)) = self.producer
            && epoch < i16::MAX
        {
            self.producer = Some((producer_id, epoch + 1));
            self.next = 0;
            self.gap = false;
        }
    }
}

/// `count` numbers on, wrapping from `i32::MAX` to 0 as the broker does.
#[must_use]
pub fn sequence_plus(sequence: i32, count: i32) -> i32 {
    let sum = i64::from(sequence) + i64::from(count);
    i32::try_from(sum.rem_euclid(1 << 31)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_each_other_and_wrap() {
        let mut sequences = Sequences::default();
        assert_eq!(sequences.number(7, 0, 3).base_sequence, 0);
        assert_eq!(sequences.number(7, 0, 2).base_sequence, 3);
        assert_eq!(sequence_plus(i32::MAX, 1), 0);
        assert_eq!(sequence_plus(i32::MAX - 1, 3), 1);
    }

    #[test]
    fn five_are_open_and_no_more() {
        let mut sequences = Sequences::default();
        let stamps: Vec<Stamp> = (0..5).map(|_| sequences.number(7, 0, 1)).collect();
        assert!(!sequences.may_send(None));
        sequences.settled(stamps[0]);
        assert!(sequences.may_send(None));
    }

    #[test]
    fn retries_go_one_at_a_time_in_order() {
        let mut sequences = Sequences::default();
        let first = sequences.number(7, 0, 1);
        let second = sequences.number(7, 0, 1);
        assert!(sequences.may_send(Some(first)) && !sequences.may_send(Some(second)));
        assert_eq!(sequences.out_of_order(second), OutOfOrder::WaitForEarlier);
        sequences.settled(first);
        assert!(sequences.may_send(Some(second)));
    }

    #[test]
    fn a_gap_is_closed_by_the_next_epoch() {
        let mut sequences = Sequences::default();
        let first = sequences.number(7, 0, 4);
        let second = sequences.number(7, 0, 4);
        let third = sequences.number(7, 0, 4);
        sequences.failed(first);
        assert!(!sequences.may_send(None), "nothing new before the open ones are settled");
        assert_eq!(sequences.out_of_order(second), OutOfOrder::Renumber);
        sequences.renumber(second);
        assert_eq!(sequences.out_of_order(third), OutOfOrder::Renumber);
        sequences.renumber(third);
        let again = sequences.number(7, 0, 4);
        assert_eq!(again, Stamp { producer_id: 7, epoch: 1, base_sequence: 0 });
    }

    #[test]
    fn a_gap_that_nobody_made_is_lost_data() {
        let mut sequences = Sequences::default();
        let first = sequences.number(7, 0, 1);
        assert_eq!(sequences.out_of_order(first), OutOfOrder::Lost);
    }

    #[test]
    fn the_last_epoch_asks_for_another_id() {
        let mut sequences = Sequences::default();
        let stamp = sequences.number(7, i16::MAX, 1);
        sequences.failed(stamp);
        assert!(sequences.is_spent());
        sequences.forget_producer();
        assert_eq!(sequences.number(8, 0, 1).base_sequence, 0);
    }
}
