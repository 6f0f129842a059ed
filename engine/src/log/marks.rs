//! The six positions that say what of a log exists, is durable, acknowledged and visible.
//!
//! Invariant, asserted at every move:
//! `log_start <= last_stable_offset <= high_watermark <= ack_end <= log_end` and
//! `durable_end <= log_end`. All but a truncation (which none of these methods is) move forward.

use crate::types::Offset;

/// The marks of one log. A copy is a consistent picture of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    log_start: Offset,
    last_stable_offset: Offset,
    high_watermark: Offset,
    ack_end: Offset,
    durable_end: Offset,
    log_end: Offset,
}

impl Marks {
    /// The marks of a log found on disk: all of it is durable, acknowledged and visible.
    ///
    /// Panics when `log_start` lies behind `log_end`.
    #[must_use]
    pub fn recovered(log_start: Offset, log_end: Offset) -> Self {
        let marks = Self {
            log_start,
            last_stable_offset: log_end,
            high_watermark: log_end,
            ack_end: log_end,
            durable_end: log_end,
            log_end,
        };
        marks.assert_order();
        marks
    }

    /// First offset that may be read.
    #[must_use]
    pub fn log_start(&self) -> Offset {
        self.log_start
    }

    /// End of what a `read_committed` consumer sees; the high watermark until transactions land.
    #[must_use]
    pub fn last_stable_offset(&self) -> Offset {
        self.last_stable_offset
    }

    /// End of what consumers see.
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// End of what this replica may acknowledge: `durable_end` where `flush.messages` is 1, else
    /// the end of what the device has taken.
    #[must_use]
    pub fn ack_end(&self) -> Offset {
        self.ack_end
    }

    /// End of what survives a power cut.
    #[must_use]
    pub fn durable_end(&self) -> Offset {
        self.durable_end
    }

    /// Offset of the next record.
    #[must_use]
    pub fn log_end(&self) -> Offset {
        self.log_end
    }

    pub(super) fn append_to(&mut self, log_end: Offset) {
        assert!(log_end > self.log_end, "an append adds at least one offset");
        self.log_end = log_end;
        self.assert_order();
    }

    pub(super) fn set_durable(&mut self, durable_end: Offset) {
        assert!(durable_end >= self.durable_end, "durable bytes stay durable");
        self.durable_end = durable_end;
        self.assert_order();
    }

    /// Moves the acknowledged end, never back, and with it the marks of a sole replica.
    pub(super) fn acknowledge(&mut self, ack_end: Offset) {
        self.ack_end = self.ack_end.max(ack_end);
        self.high_watermark = self.ack_end;
        self.last_stable_offset = self.ack_end;
        self.assert_order();
    }

    pub(super) fn set_log_start(&mut self, log_start: Offset) {
        assert!(log_start >= self.log_start, "deleted records stay deleted");
        self.log_start = log_start;
        self.assert_order();
    }

    fn assert_order(&self) {
        assert!(self.log_start <= self.last_stable_offset, "log start passes stable: {self:?}");
        assert!(self.last_stable_offset <= self.high_watermark, "unstable beyond hw: {self:?}");
        assert!(self.high_watermark <= self.ack_end, "visible but not acknowledged: {self:?}");
        assert!(self.ack_end <= self.log_end, "acknowledged beyond the end: {self:?}");
        assert!(self.durable_end <= self.log_end, "durable beyond the end: {self:?}");
    }
}
