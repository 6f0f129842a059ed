//! The topic settings that a log obeys, under Kafka's names and in Kafka's units.
//!
//! Knows neither where they come from nor how they are written; the shard converts.

use crate::{error::Kind, error::Result};

/// Settings of one log; the defaults are Kafka's but for `flush_messages`, which is 1 here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `segment.bytes`: size of a segment beyond which a new one starts.
    pub segment_bytes: u64,
    /// `segment.ms`: age, by record timestamps, beyond which the next append starts a segment.
    pub segment_ms: i64,
    /// `segment.index.bytes`: size of an index at which a new segment starts.
    pub segment_index_bytes: u64,
    /// `index.interval.bytes`: bytes of batches between two index entries.
    pub index_interval_bytes: u64,
    /// `retention.ms`: age of a segment's newest record beyond which it goes; -1 for ever.
    pub retention_ms: i64,
    /// `retention.bytes`: size of the log beyond which its oldest segments go; -1 for any.
    pub retention_bytes: i64,
    /// `flush.messages`: 1 acknowledges flushed records only; more acknowledges written ones and
    /// flushes at the latest when so many are unflushed.
    pub flush_messages: i64,
    /// `flush.ms`: longest time that an acknowledged record stays unflushed, when relaxed.
    pub flush_ms: i64,
    /// `producer.id.expiration.ms`: silence after which a producer's sequence is forgotten.
    pub producer_id_expiration_ms: i64,
    /// `file.delete.delay.ms`: how long a file renamed to `.deleted` stays.
    pub file_delete_delay_ms: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 3_600_000,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            retention_ms: 7 * 24 * 3_600_000,
            retention_bytes: -1,
            flush_messages: 1,
            flush_ms: i64::MAX,
            producer_id_expiration_ms: 86_400_000,
            file_delete_delay_ms: 60_000,
        }
    }
}

impl Settings {
    /// Whether an acknowledgement waits for the flush.
    #[must_use]
    pub fn flushes_every_message(&self) -> bool {
        self.flush_messages <= 1
    }

    /// Refuses values that no log can obey.
    ///
    /// # Errors
    /// `Invalid` when a segment could not be addressed by Kafka's 31-bit index positions.
    pub fn check(&self) -> Result<()> {
        if self.segment_bytes == 0 || self.segment_bytes > i32::MAX as u64 {
            let text = format!("segment.bytes={} is not in 1..=2147483647", self.segment_bytes);
            return Err(crate::error::Error::new(Kind::Invalid, text));
        }
        Ok(())
    }
}
