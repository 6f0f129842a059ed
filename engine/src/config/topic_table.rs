//! Every topic setting of Apache Kafka 4.4 that is not internal, in Kafka's order of names.
//!
//! Types, bounds and defaults are Kafka's; the one default that differs is `flush.messages`, which
//! is 1 here: acknowledged means flushed.

use super::definition::{Definition, Rule, Synonym, Usage, ValueType::Int, ValueType::Long};

const MAX: i64 = i64::MAX;
const INT_MAX: i64 = i32::MAX as i64;
const HOURS: i64 = 3_600_000;
const MINUTES: i64 = 60_000;

/// Names of `compression.type`.
pub(super) const COMPRESSION_TYPES: &[&str] =
    &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];
/// Names of `cleanup.policy`.
pub(super) const CLEANUP_POLICIES: &[&str] = &["compact", "delete"];
/// Names of `message.timestamp.type`.
pub(super) const TIMESTAMP_TYPES: &[&str] = &["CreateTime", "LogAppendTime"];
/// Largest decompressed record that a JVM could hold, Kafka's bound.
pub(super) const DECOMPRESSED_MAX: i64 = 2_147_483_639;
/// Least `segment.bytes` (KIP-1030).
pub(super) const SEGMENT_BYTES_MIN: i64 = 1 << 20;

const fn same(name: &'static str) -> Synonym {
    Synonym { name, factor: 1 }
}

const fn times(name: &'static str, factor: i64) -> Synonym {
    Synonym { name, factor }
}

const fn row(
    name: &'static str,
    rule: Rule,
    default: &'static str,
    synonyms: &'static [Synonym],
    usage: Usage,
    doc: &'static str,
) -> Definition {
    Definition { name, rule, default: Some(default), synonyms, usage, doc }
}

const YES: Usage = Usage::Honoured;
const NO: Usage = Usage::Accepted;

/// The topic settings, sorted by name.
pub static TOPIC_DEFINITIONS: &[Definition] = &[
    row(
        "cleanup.policy",
        Rule::ListOf(CLEANUP_POLICIES),
        "delete",
        &[same("log.cleanup.policy")],
        YES,
        "What happens to old segments: `delete` drops them by age and size, `compact` keeps the \
         last record of each key, both may be given, an empty list keeps everything. Millrace \
         keeps every record of a topic without `delete`; it does not compact yet.",
    ),
    row(
        "compression.gzip.level",
        Rule::IntegerOr(1, 9, -1),
        "-1",
        &[same("compression.gzip.level")],
        YES,
        "Level used where `compression.type` is `gzip`; -1 is the library's own default.",
    ),
    row(
        "compression.lz4.level",
        Rule::Integer(Int, 1, 17),
        "9",
        &[same("compression.lz4.level")],
        NO,
        "Level used where `compression.type` is `lz4`. Millrace has one level of lz4.",
    ),
    row(
        "compression.type",
        Rule::OneOf(COMPRESSION_TYPES),
        "producer",
        &[same("compression.type")],
        YES,
        "Codec that batches are stored with: `producer` keeps each as it was sent, \
         `uncompressed` stores them plain, a codec's name recompresses those sent otherwise.",
    ),
    row(
        "compression.zstd.level",
        Rule::Integer(Int, -131_072, 22),
        "3",
        &[same("compression.zstd.level")],
        YES,
        "Level used where `compression.type` is `zstd`.",
    ),
    row(
        "delete.retention.ms",
        Rule::Integer(Long, 0, MAX),
        "86400000",
        &[same("log.cleaner.delete.retention.ms")],
        NO,
        "How long a compacted topic keeps the mark that a key was deleted.",
    ),
    row(
        "errors.deadletterqueue.group.enable",
        Rule::Boolean,
        "false",
        &[],
        NO,
        "Whether share groups may write records that they cannot deliver to this topic.",
    ),
    row(
        "file.delete.delay.ms",
        Rule::Integer(Long, 0, MAX),
        "60000",
        &[same("log.segment.delete.delay.ms")],
        YES,
        "How long the file of a dropped segment stays before it is removed or reused.",
    ),
    row(
        "flush.messages",
        Rule::Integer(Long, 1, MAX),
        "1",
        &[same("log.flush.interval.messages")],
        YES,
        "Records that may be acknowledged before they are flushed. 1, the default here, means \
         that an acknowledged record is on stable storage; a larger number gives Kafka's relaxed \
         behaviour. Kafka's own default is 9223372036854775807.",
    ),
    row(
        "flush.ms",
        Rule::Integer(Long, 0, MAX),
        "9223372036854775807",
        &[same("log.flush.interval.ms"), same("log.flush.scheduler.interval.ms")],
        YES,
        "Longest time that a written record waits for its flush where `flush.messages` is above 1.",
    ),
    row(
        "follower.replication.throttled.replicas",
        Rule::ThrottledReplicas,
        "",
        &[],
        NO,
        "Replicas whose followers are throttled, as partition:broker pairs, or `*` for all.",
    ),
    row(
        "index.interval.bytes",
        Rule::Integer(Int, 0, INT_MAX),
        "4096",
        &[same("log.index.interval.bytes")],
        YES,
        "Bytes of log between two entries of the offset index.",
    ),
    row(
        "leader.replication.throttled.replicas",
        Rule::ThrottledReplicas,
        "",
        &[],
        NO,
        "Replicas whose leader is throttled, as partition:broker pairs, or `*` for all.",
    ),
    row(
        "local.retention.bytes",
        Rule::Integer(Long, -2, MAX),
        "-2",
        &[same("log.local.retention.bytes")],
        NO,
        "Bytes kept on the broker where older segments lie in tiered storage; -2 follows \
         `retention.bytes`.",
    ),
    row(
        "local.retention.ms",
        Rule::Integer(Long, -2, MAX),
        "-2",
        &[same("log.local.retention.ms")],
        NO,
        "Time that segments stay on the broker where older ones lie in tiered storage; -2 \
         follows `retention.ms`.",
    ),
    row(
        "max.compaction.lag.ms",
        Rule::Integer(Long, 1, MAX),
        "9223372036854775807",
        &[same("log.cleaner.max.compaction.lag.ms")],
        NO,
        "Longest time that a record of a compacted topic may wait for compaction.",
    ),
    row(
        "max.decompressed.message.bytes",
        Rule::Integer(Int, 1, DECOMPRESSED_MAX),
        "2147483639",
        &[same("max.decompressed.message.bytes")],
        YES,
        "Largest single record, in bytes after decompression, that is accepted.",
    ),
    row(
        "max.message.bytes",
        Rule::Integer(Int, 0, INT_MAX),
        "1048588",
        &[same("message.max.bytes")],
        YES,
        "Largest record batch, in bytes as sent, that is accepted.",
    ),
    row(
        "message.timestamp.after.max.ms",
        Rule::Integer(Long, 0, MAX),
        "3600000",
        &[same("log.message.timestamp.after.max.ms")],
        YES,
        "How far a producer's timestamp may lie ahead of the broker's clock; a record further \
         ahead is refused. Of no effect with LogAppendTime.",
    ),
    row(
        "message.timestamp.before.max.ms",
        Rule::Integer(Long, 0, MAX),
        "9223372036854775807",
        &[same("log.message.timestamp.before.max.ms")],
        YES,
        "How far a producer's timestamp may lie behind the broker's clock; a record further \
         behind is refused. Of no effect with LogAppendTime.",
    ),
    row(
        "message.timestamp.type",
        Rule::OneOf(TIMESTAMP_TYPES),
        "CreateTime",
        &[same("log.message.timestamp.type")],
        YES,
        "Whose clock stamps a record: the producer's (CreateTime) or the broker's \
         (LogAppendTime).",
    ),
    row(
        "min.cleanable.dirty.ratio",
        Rule::Double(0.0, 1.0),
        "0.5",
        &[same("log.cleaner.min.cleanable.ratio")],
        NO,
        "Share of a compacted topic's log that must be uncompacted before it is compacted again.",
    ),
    row(
        "min.compaction.lag.ms",
        Rule::Integer(Long, 0, MAX),
        "0",
        &[same("log.cleaner.min.compaction.lag.ms")],
        NO,
        "Shortest time that a record of a compacted topic stays uncompacted.",
    ),
    row(
        "min.insync.replicas",
        Rule::Integer(Int, 1, INT_MAX),
        "1",
        &[same("min.insync.replicas")],
        YES,
        "In-sync replicas, the leader among them, without which a write with acks=all is refused.",
    ),
    row(
        "preallocate",
        Rule::Boolean,
        "false",
        &[same("log.preallocate")],
        NO,
        "Whether a new segment takes its whole space at once. Millrace writes space ahead in \
         small steps in any case.",
    ),
    row(
        "remote.copy.lag.bytes",
        Rule::Integer(Long, -1, MAX),
        "-1",
        &[same("log.remote.copy.lag.bytes")],
        NO,
        "Bytes of newer log after which a segment may be copied to tiered storage.",
    ),
    row(
        "remote.copy.lag.ms",
        Rule::Integer(Long, -1, MAX),
        "0",
        &[same("log.remote.copy.lag.ms")],
        NO,
        "Age after which a segment may be copied to tiered storage.",
    ),
    row(
        "remote.log.copy.disable",
        Rule::Boolean,
        "false",
        &[],
        NO,
        "Whether the topic's tiered data is read only.",
    ),
    row(
        "remote.log.delete.on.disable",
        Rule::Boolean,
        "false",
        &[],
        NO,
        "Whether the topic's tiered data is deleted when tiered storage is turned off for it.",
    ),
    row(
        "remote.storage.enable",
        Rule::Boolean,
        "false",
        &[],
        NO,
        "Whether older segments move to tiered storage, which Millrace does not have: `true` is \
         refused, as by a Kafka broker without it.",
    ),
    row(
        "retention.bytes",
        Rule::Integer(Long, i64::MIN, MAX),
        "-1",
        &[same("log.retention.bytes")],
        YES,
        "Bytes of each partition beyond which its oldest segments are deleted; -1 is no limit.",
    ),
    row(
        "retention.ms",
        Rule::Integer(Long, -1, MAX),
        "604800000",
        &[
            same("log.retention.ms"),
            times("log.retention.minutes", MINUTES),
            times("log.retention.hours", HOURS),
        ],
        YES,
        "Age beyond which the oldest segments are deleted, by their newest record; -1 keeps them \
         for ever.",
    ),
    row(
        "segment.bytes",
        Rule::Integer(Int, SEGMENT_BYTES_MIN, INT_MAX),
        "1073741824",
        &[same("log.segment.bytes")],
        YES,
        "Size at which a segment is sealed and the next one begun. Retention works in whole \
         segments.",
    ),
    row(
        "segment.index.bytes",
        Rule::Integer(Int, 4, INT_MAX),
        "10485760",
        &[same("log.index.size.max.bytes")],
        YES,
        "Largest offset index of a segment; a full index seals the segment.",
    ),
    row(
        "segment.jitter.ms",
        Rule::Integer(Long, 0, MAX),
        "0",
        &[same("log.roll.jitter.ms"), times("log.roll.jitter.hours", HOURS)],
        NO,
        "Random time taken off `segment.ms`, so that segments are not all sealed at once.",
    ),
    row(
        "segment.ms",
        Rule::Integer(Long, 1, MAX),
        "604800000",
        &[same("log.roll.ms"), times("log.roll.hours", HOURS)],
        YES,
        "Age at which a segment is sealed even if it is not full.",
    ),
    row(
        "unclean.leader.election.enable",
        Rule::Boolean,
        "false",
        &[same("unclean.leader.election.enable")],
        NO,
        "Whether a replica that may miss acknowledged records can become leader when no other is \
         left.",
    ),
];
