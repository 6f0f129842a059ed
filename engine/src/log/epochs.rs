//! The leader epoch cache (KIP-101): at which offset each leader epoch began, in Kafka's own file
//! `leader-epoch-checkpoint`.
//!
//! Invariant: epochs and start offsets both ascend strictly. Bad text is `None`; the entries of the
//! unsealed part are found again by recovery.

use crate::types::{LeaderEpoch, Offset};

/// Kafka's file name.
pub(super) const FILE_NAME: &str = "leader-epoch-checkpoint";

/// Epochs and where each began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Epochs {
    entries: Vec<(LeaderEpoch, Offset)>,
}

impl Epochs {
    /// Takes note of a batch of `epoch` at `offset`; whether that began an epoch.
    pub(super) fn note(&mut self, epoch: LeaderEpoch, offset: Offset) -> bool {
        let newer = epoch.0 >= 0 && self.latest().is_none_or(|latest| epoch > latest);
        if newer {
            // A new epoch that starts where an older one did replaces it: that one had no record.
            self.cut(offset);
            self.entries.push((epoch, offset));
        }
        newer
    }

    /// The newest epoch with a record.
    pub(super) fn latest(&self) -> Option<LeaderEpoch> {
        self.entries.last().map(|entry| entry.0)
    }

    /// The largest epoch at or below `epoch` and the offset behind its last record; for the newest
    /// epoch that is `log_end`. `None` when no epoch so old is known.
    pub(super) fn end_of(
        &self,
        epoch: LeaderEpoch,
        log_end: Offset,
    ) -> Option<(LeaderEpoch, Offset)> {
        let next = self.entries.partition_point(|entry| entry.0 <= epoch);
        let found = self.entries.get(next.checked_sub(1)?)?;
        Some((found.0, self.entries.get(next).map_or(log_end, |entry| entry.1)))
    }

    /// Epoch of the record at `offset`.
    pub(super) fn at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let next = self.entries.partition_point(|entry| entry.1 <= offset);
        self.entries.get(next.checked_sub(1)?).map(|entry| entry.0)
    }

    /// Forgets what began at or behind `end`.
    pub(super) fn cut(&mut self, end: Offset) {
        self.entries.retain(|entry| entry.1 < end);
    }

    /// Forgets epochs that ended before `log_start`; the one in force there starts there.
    pub(super) fn start_at(&mut self, log_start: Offset) {
        let in_force = self.entries.partition_point(|entry| entry.1 <= log_start);
        if in_force > 0 {
            self.entries.drain(..in_force - 1);
            self.entries[0].1 = self.entries[0].1.max(log_start);
        }
    }

    /// The file's text: version 0, count, one line "epoch offset" each.
    pub(super) fn encode(&self) -> String {
        let mut text = format!("0\n{}\n", self.entries.len());
        for (epoch, offset) in &self.entries {
            text.push_str(&format!("{} {}\n", epoch.0, offset.0));
        }
        text
    }

    /// The entries of a file's text; `None` when it is not of this format.
    pub(super) fn decode(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let version = lines.next()?;
        let count: usize = lines.next()?.parse().ok()?;
        let entries: Vec<_> = lines.map(parse_line).collect::<Option<_>>()?;
        let ascends =
            entries.is_sorted_by(|earlier, later| earlier.0 < later.0 && earlier.1 < later.1);
        (version == "0" && entries.len() == count && ascends).then_some(Self { entries })
    }
}

fn parse_line(line: &str) -> Option<(LeaderEpoch, Offset)> {
    let (epoch, offset) = line.split_once(' ')?;
    Some((LeaderEpoch(epoch.parse().ok()?), Offset(offset.parse().ok()?)))
}
