//! What a log remembers of idempotent producers (KIP-98; protocol section 4.1): the last five
//! batches of each, so that a repeated one is recognised and a gap is refused.
//!
//! Invariant: the state follows from the batch headers in order alone, so recovery rebuilds it.
//! A producer unknown here may start at any sequence: retention may have removed its past.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::{
    batch::Header,
    limits::{PRODUCER_BATCHES_KEPT, PRODUCERS_PER_LOG},
    types::{Offset, ProducerId},
};

/// One remembered batch of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProducerBatch {
    pub(super) first_sequence: i32,
    pub(super) last_sequence: i32,
    pub(super) base_offset: Offset,
    pub(super) last_offset: Offset,
    pub(super) timestamp_ms: i64,
}

/// What is known of one producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Producer {
    pub(super) epoch: i16,
    /// Epoch of the transaction coordinator that wrote its last marker; -1 until there is one.
    pub(super) coordinator_epoch: i32,
    /// First offset of its open transaction.
    pub(super) transaction_start: Option<Offset>,
    /// Largest timestamp of its last batch; silence counts from here.
    pub(super) last_timestamp_ms: i64,
    /// Oldest first.
    pub(super) batches: SmallVec<[ProducerBatch; PRODUCER_BATCHES_KEPT]>,
}

impl Producer {
    /// Offset of its last record; before all others where no batch is remembered.
    fn last_offset(&self) -> Offset {
        self.batches.last().map_or(Offset(-1), |batch| batch.last_offset)
    }
}

/// What an arriving batch is to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Append it.
    New,
    /// Already here: answer with the offsets it got then.
    Duplicate(ProducerBatch),
    /// Sequence number is neither the next one nor that of a remembered batch.
    OutOfOrder {
        /// The sequence number that the log waits for.
        expected: i32,
    },
    /// The producer's epoch is older than the one known.
    OldEpoch {
        /// The epoch in force.
        current: i16,
    },
}

/// The producers of one log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Producers {
    known: HashMap<ProducerId, Producer>,
}

impl Producers {
    /// Judges a batch that would be appended next. `header.base_offset` is not looked at.
    pub(super) fn judge(&self, header: &Header) -> Verdict {
        if !header.is_idempotent() || header.is_control() {
            return Verdict::New;
        }
        let Some(producer) = self.known.get(&header.producer_id) else { return Verdict::New };
        if header.producer_epoch < producer.epoch {
            return Verdict::OldEpoch { current: producer.epoch };
        }
        if header.producer_epoch > producer.epoch {
            return if header.base_sequence == 0 {
                Verdict::New
            } else {
                Verdict::OutOfOrder { expected: 0 }
            };
        }
        let (first, last) = (header.base_sequence, header.last_sequence());
        let same =
            |batch: &&ProducerBatch| batch.first_sequence == first && batch.last_sequence == last;
        if let Some(batch) = producer.batches.iter().find(same) {
            return Verdict::Duplicate(*batch);
        }
        match producer.batches.last().map(|batch| next_sequence(batch.last_sequence)) {
            Some(expected) if expected != first => Verdict::OutOfOrder { expected },
            _ => Verdict::New,
        }
    }

    /// Remembers a batch just appended (or found at recovery), its header as stored.
    pub(super) fn remember(&mut self, header: &Header) {
        if !header.is_idempotent() || header.is_control() {
            return;
        }
        if self.known.len() >= PRODUCERS_PER_LOG && !self.known.contains_key(&header.producer_id) {
            self.forget_oldest();
        }
        let producer = self.known.entry(header.producer_id).or_insert_with(|| Producer {
            epoch: header.producer_epoch,
            coordinator_epoch: -1,
            transaction_start: None,
            last_timestamp_ms: -1,
            batches: SmallVec::new(),
        });
        if producer.epoch != header.producer_epoch {
            producer.epoch = header.producer_epoch;
            producer.batches.clear();
        }
        if producer.batches.len() == PRODUCER_BATCHES_KEPT {
            producer.batches.remove(0);
        }
        let in_order =
            producer.batches.last().is_none_or(|last| last.last_offset < header.base_offset);
        assert!(in_order, "batches are remembered in the order of their offsets");
        producer.last_timestamp_ms = header.max_timestamp_ms;
        producer.batches.push(ProducerBatch {
            first_sequence: header.base_sequence,
            last_sequence: header.last_sequence(),
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            timestamp_ms: header.max_timestamp_ms,
        });
    }

    /// Forgets producers silent for `expiration_ms`, but none with an open transaction.
    pub(super) fn expire(&mut self, now_ms: i64, expiration_ms: i64) {
        self.known.retain(|_, producer| {
            producer.transaction_start.is_some()
                || now_ms.saturating_sub(producer.last_timestamp_ms) < expiration_ms
        });
    }

    /// Forgets the eighth of the producers that has been silent longest, but none with an open
    /// transaction; so many at once that the search is rare. The order is that of the log: clients
    /// choose their timestamps, and may all choose the same.
    fn forget_oldest(&mut self) {
        let idle = self.known.iter().filter(|(_, producer)| producer.transaction_start.is_none());
        let mut ranks: Vec<_> = idle.map(|(id, producer)| (producer.last_offset(), *id)).collect();
        if ranks.is_empty() {
            return;
        }
        let eighth = ranks.len() / 8;
        let (older, newest_to_go, _) = ranks.select_nth_unstable(eighth);
        for (_, id) in older.iter().chain([&*newest_to_go]) {
            self.known.remove(id);
        }
    }

    /// Number of producers known.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// All producers, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ProducerId, &Producer)> {
        self.known.iter().map(|(id, producer)| (*id, producer))
    }

    /// Puts a producer back as a snapshot has it.
    pub(super) fn restore(&mut self, id: ProducerId, producer: Producer) {
        self.known.insert(id, producer);
    }
}

/// The sequence behind `last`: wraps from `i32::MAX` to 0.
fn next_sequence(last: i32) -> i32 {
    last.checked_add(1).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::HEADER_BYTES;

    fn batch(producer: i64, offset: i64, timestamp_ms: i64) -> Header {
        let mut header = Header::parse(&[0; HEADER_BYTES]);
        header.producer_id = ProducerId(producer);
        header.base_offset = Offset(offset);
        header.max_timestamp_ms = timestamp_ms;
        header.record_count = 1;
        header
    }

    /// With one timestamp for all, or with ones that run backwards, the bound once dropped every
    /// producer or the newest ones, and what they sent again was appended twice.
    #[test]
    fn the_bound_forgets_an_eighth_by_place_in_the_log_whatever_the_timestamps() {
        let most = i64::try_from(PRODUCERS_PER_LOG).expect("a small number");
        for step_ms in [0, -1, 1] {
            let mut producers = Producers::default();
            for at in 0..most {
                producers.remember(&batch(at, at, 1_000_000 + at * step_ms));
            }
            producers.remember(&batch(most, most, 1_000_000));
            let gone = most / 8 + 1;
            assert_eq!(i64::try_from(producers.len()).expect("small"), most - gone + 1);
            for at in [gone, most - 1, most] {
                let verdict = producers.judge(&batch(at, 0, 0));
                assert!(matches!(verdict, Verdict::Duplicate(_)), "{at}: {verdict:?}");
            }
            assert_eq!(producers.judge(&batch(gone - 1, 0, 0)), Verdict::New);
        }
    }

    #[test]
    fn the_bound_forgets_no_open_transaction() {
        let most = i64::try_from(PRODUCERS_PER_LOG).expect("a small number");
        let mut producers = Producers::default();
        for at in 0..most {
            producers.remember(&batch(at, at, 0));
        }
        let open = producers.known.get_mut(&ProducerId(0)).expect("remembered");
        open.transaction_start = Some(Offset(0));
        producers.remember(&batch(most, most, 0));
        assert!(matches!(producers.judge(&batch(0, 0, 0)), Verdict::Duplicate(_)));
        assert_eq!(producers.judge(&batch(1, 0, 0)), Verdict::New);
    }
}
