//! What the recovery of a start's partitions came to, for one line to the operator.

use std::ops::AddAssign;

use crate::log::RecoveryReport;

/// Counts over the partitions that were opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Partitions with a torn tail, which was cut.
    pub cut_partitions: usize,
    /// Bytes that were cut, none of them acknowledged.
    pub cut_bytes: u64,
    /// Partitions with damage; each was reported by a line of its own and takes no appends.
    pub damaged_partitions: usize,
}

impl Recovered {
    pub(super) fn of(report: &RecoveryReport) -> Self {
        Self {
            cut_partitions: usize::from(report.cut_bytes > 0),
            cut_bytes: report.cut_bytes,
            damaged_partitions: usize::from(!report.damage.is_empty()),
        }
    }

    /// One line, unless there is nothing to say.
    #[must_use]
    pub fn summary(&self) -> Option<String> {
        let Self { cut_partitions, cut_bytes, damaged_partitions } = self;
        let cut = format!(
            "cut {cut_bytes} bytes of torn tails in {cut_partitions} partitions, none acknowledged"
        );
        let damaged = format!("{damaged_partitions} partitions are damaged and take no appends");
        match (*cut_partitions, *damaged_partitions) {
            (0, 0) => None,
            (_, 0) => Some(cut),
            (0, _) => Some(damaged),
            _ => Some(format!("{cut}; {damaged}")),
        }
    }
}

impl AddAssign for Recovered {
    fn add_assign(&mut self, other: Self) {
        self.cut_partitions += other.cut_partitions;
        self.cut_bytes += other.cut_bytes;
        self.damaged_partitions += other.damaged_partitions;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(cut_bytes: u64, damage: &[&str]) -> RecoveryReport {
        let damage = damage.iter().map(|line| (*line).to_owned()).collect();
        RecoveryReport { cut_bytes, damage, ..RecoveryReport::default() }
    }

    #[test]
    fn a_start_that_lost_nothing_says_nothing_and_any_other_one_line() {
        let mut all = Recovered::default();
        all += Recovered::of(&report(0, &[]));
        assert_eq!(all.summary(), None);
        all += Recovered::of(&report(7, &[]));
        all += Recovered::of(&report(5, &[]));
        let cut = "cut 12 bytes of torn tails in 2 partitions, none acknowledged";
        assert_eq!(all.summary().as_deref(), Some(cut));
        all += Recovered::of(&report(0, &["a line of its own"]));
        let damaged = "1 partitions are damaged and take no appends";
        assert_eq!(all.summary(), Some(format!("{cut}; {damaged}")));
    }
}
