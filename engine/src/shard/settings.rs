//! From a topic's typed configuration to what its logs obey.

use crate::{config::TopicConfig, log::Settings};

/// The log settings of a topic; `None` of the configuration is Kafka's -1 or "never".
pub(super) fn of_topic(config: &TopicConfig, producer_id_expiration_ms: i64) -> Settings {
    let or = |value: Option<u64>, none: i64| {
        value.map_or(none, |value| i64::try_from(value).unwrap_or(i64::MAX))
    };
    Settings {
        segment_bytes: config.segment_bytes,
        segment_ms: or(Some(config.segment_ms), i64::MAX),
        segment_index_bytes: config.segment_index_bytes,
        index_interval_bytes: config.index_interval_bytes,
        retention_ms: if config.cleanup_policy.delete { or(config.retention_ms, -1) } else { -1 },
        retention_bytes: if config.cleanup_policy.delete {
            or(config.retention_bytes, -1)
        } else {
            -1
        },
        flush_messages: or(Some(config.flush_messages), i64::MAX),
        flush_ms: or(config.flush_ms, i64::MAX),
        producer_id_expiration_ms,
        file_delete_delay_ms: or(Some(config.file_delete_delay_ms), i64::MAX),
    }
}
