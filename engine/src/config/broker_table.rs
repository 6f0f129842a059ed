//! The broker settings that Millrace acts on, and its own, which start with `millrace.`.
//!
//! Kafka's other broker settings, known but not acted on, are in `accepted_table`.

use super::{
    definition::{Definition, Rule, Usage, ValueType::Int, ValueType::Long},
    topic_table::{
        CLEANUP_POLICIES, COMPRESSION_TYPES, DECOMPRESSED_MAX, SEGMENT_BYTES_MIN, TIMESTAMP_TYPES,
    },
};
use crate::limits;

const MAX: i64 = i64::MAX;
const INT_MAX: i64 = i32::MAX as i64;
const INT_MIN: i64 = i32::MIN as i64;

const SHARDS_MAX: i64 = 256;
const _: () = assert!(limits::SHARDS_MAX == 256);

const fn row(
    name: &'static str,
    rule: Rule,
    default: Option<&'static str>,
    doc: &'static str,
) -> Definition {
    Definition { name, rule, default, synonyms: &[], usage: Usage::Honoured, doc }
}

/// Broker settings that are acted on, sorted by name.
pub static BROKER_DEFINITIONS: &[Definition] = &[
    row(
        "advertised.listeners",
        Rule::List,
        None,
        "Addresses that clients are told to connect to, one per listener. Needed where a listener \
         binds every address; otherwise the bound address is told.",
    ),
    row(
        "auto.create.topics.enable",
        Rule::Boolean,
        Some("true"),
        "Whether a client that asks for an absent topic makes it.",
    ),
    row(
        "broker.id",
        Rule::Integer(Int, -1, INT_MAX),
        Some("-1"),
        "Old name of `node.id`, taken where that is not set.",
    ),
    row("broker.rack", Rule::Text, None, "Rack of this broker, as clients are told it."),
    row(
        "compression.gzip.level",
        Rule::IntegerOr(1, 9, -1),
        Some("-1"),
        "Default of the topic setting of the same name.",
    ),
    row(
        "compression.type",
        Rule::OneOf(COMPRESSION_TYPES),
        Some("producer"),
        "Default of the topic setting of the same name.",
    ),
    row(
        "compression.zstd.level",
        Rule::Integer(Int, -131_072, 22),
        Some("3"),
        "Default of the topic setting of the same name.",
    ),
    row(
        "connections.max.idle.ms",
        Rule::Integer(Long, i64::MIN, MAX),
        Some("600000"),
        "Time without a request after which a connection is closed; negative is never.",
    ),
    row(
        "controller.listener.names",
        Rule::List,
        Some(""),
        "Listeners meant for a controller. Millrace has no controller port and does not bind them.",
    ),
    row(
        "default.replication.factor",
        Rule::Integer(Int, 1, 32_767),
        Some("1"),
        "Replicas of a new topic where its maker does not say.",
    ),
    row(
        "delete.topic.enable",
        Rule::Boolean,
        Some("true"),
        "Whether topics can be deleted at all.",
    ),
    row(
        "fetch.max.bytes",
        Rule::Integer(Int, 1024, INT_MAX),
        Some("57671680"),
        "Most bytes that one answer to a Fetch carries, whatever the client asks for.",
    ),
    row(
        "listener.security.protocol.map",
        Rule::Text,
        Some("SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"),
        "Security protocol of each listener's name. Only PLAINTEXT is supported so far.",
    ),
    row(
        "listeners",
        Rule::List,
        Some("PLAINTEXT://127.0.0.1:9092"),
        "Addresses to bind, each NAME://HOST:PORT. An empty host or 0.0.0.0 binds every address \
         and needs `advertised.listeners`. Kafka's default binds every address; ours is loopback.",
    ),
    row(
        "log.cleanup.policy",
        Rule::ListOf(CLEANUP_POLICIES),
        Some("delete"),
        "Default of the topic setting `cleanup.policy`.",
    ),
    row(
        "log.dir",
        Rule::List,
        Some("millrace-data"),
        "Directory of the data where `log.dirs` is not set.",
    ),
    row(
        "log.dirs",
        Rule::List,
        None,
        "Directories of the data, best one per disk; each is flushed on its own. The first also \
         holds the metadata log.",
    ),
    row(
        "log.flush.interval.messages",
        Rule::Integer(Long, 1, MAX),
        Some("1"),
        "Default of the topic setting `flush.messages`: 1 acknowledges only what is on stable \
         storage.",
    ),
    row(
        "log.flush.interval.ms",
        Rule::Integer(Long, i64::MIN, MAX),
        None,
        "Default of the topic setting `flush.ms`.",
    ),
    row(
        "log.flush.scheduler.interval.ms",
        Rule::Integer(Long, i64::MIN, MAX),
        Some("9223372036854775807"),
        "Taken as `flush.ms` where `log.flush.interval.ms` is not set.",
    ),
    row(
        "log.index.interval.bytes",
        Rule::Integer(Int, 0, INT_MAX),
        Some("4096"),
        "Default of the topic setting `index.interval.bytes`.",
    ),
    row(
        "log.index.size.max.bytes",
        Rule::Integer(Int, 4, INT_MAX),
        Some("10485760"),
        "Default of the topic setting `segment.index.bytes`.",
    ),
    row(
        "log.message.timestamp.after.max.ms",
        Rule::Integer(Long, 0, MAX),
        Some("3600000"),
        "Default of the topic setting `message.timestamp.after.max.ms`.",
    ),
    row(
        "log.message.timestamp.before.max.ms",
        Rule::Integer(Long, 0, MAX),
        Some("9223372036854775807"),
        "Default of the topic setting `message.timestamp.before.max.ms`.",
    ),
    row(
        "log.message.timestamp.type",
        Rule::OneOf(TIMESTAMP_TYPES),
        Some("CreateTime"),
        "Default of the topic setting `message.timestamp.type`.",
    ),
    row(
        "log.retention.bytes",
        Rule::Integer(Long, i64::MIN, MAX),
        Some("-1"),
        "Default of the topic setting `retention.bytes`.",
    ),
    row(
        "log.retention.check.interval.ms",
        Rule::Integer(Long, 1, MAX),
        Some("300000"),
        "Time between two looks for segments that retention lets go.",
    ),
    row(
        "log.retention.hours",
        Rule::Integer(Int, INT_MIN, INT_MAX),
        Some("168"),
        "Default of the topic setting `retention.ms`, in hours.",
    ),
    row(
        "log.retention.minutes",
        Rule::Integer(Int, INT_MIN, INT_MAX),
        None,
        "Default of the topic setting `retention.ms`, in minutes; wins over the hours.",
    ),
    row(
        "log.retention.ms",
        Rule::Integer(Long, i64::MIN, MAX),
        None,
        "Default of the topic setting `retention.ms`; wins over minutes and hours; negative keeps \
         for ever.",
    ),
    row(
        "log.roll.hours",
        Rule::Integer(Int, 1, INT_MAX),
        Some("168"),
        "Default of the topic setting `segment.ms`, in hours.",
    ),
    row(
        "log.roll.ms",
        Rule::Integer(Long, 1, MAX),
        None,
        "Default of the topic setting `segment.ms`; wins over the hours.",
    ),
    row(
        "log.segment.bytes",
        Rule::Integer(Int, SEGMENT_BYTES_MIN, INT_MAX),
        Some("1073741824"),
        "Default of the topic setting `segment.bytes`.",
    ),
    row(
        "log.segment.delete.delay.ms",
        Rule::Integer(Long, 0, MAX),
        Some("60000"),
        "Default of the topic setting `file.delete.delay.ms`.",
    ),
    row(
        "max.connections",
        Rule::Integer(Int, 0, INT_MAX),
        Some("2147483647"),
        "Connections beyond which a new one is closed at once.",
    ),
    row(
        "max.decompressed.message.bytes",
        Rule::Integer(Int, 1, DECOMPRESSED_MAX),
        Some("2147483639"),
        "Default of the topic setting of the same name.",
    ),
    row(
        "message.max.bytes",
        Rule::Integer(Int, 0, INT_MAX),
        Some("1048588"),
        "Default of the topic setting `max.message.bytes`.",
    ),
    row(
        "millrace.buffer.bytes",
        Rule::Integer(Long, 4 << 20, 1 << 40),
        Some("268435456"),
        "Memory of each shard for receive, append, tail and cold-read buffers, in bytes.",
    ),
    row(
        "millrace.shards",
        Rule::Integer(Int, 0, SHARDS_MAX),
        Some("0"),
        "Shards, each a pinned core of its own; 0 takes every CPU that the process may use.",
    ),
    row(
        "millrace.shards.share.cpus",
        Rule::Boolean,
        Some("false"),
        "Start even with more shards than CPUs, and pin none: for tests of many shards.",
    ),
    row(
        "millrace.spin.us",
        Rule::Integer(Int, 0, 1_000_000),
        Some("20"),
        "Longest time that an idle shard looks for work before it sleeps, in microseconds; it \
         does so only while that pays. 0 sleeps at once.",
    ),
    row(
        "min.insync.replicas",
        Rule::Integer(Int, 1, INT_MAX),
        Some("1"),
        "Default of the topic setting of the same name.",
    ),
    row(
        "node.id",
        Rule::Integer(Int, 0, INT_MAX),
        None,
        "Number of this node in the cluster. Kept in the data directory; 1 where neither that nor \
         this setting gives one.",
    ),
    row(
        "num.partitions",
        Rule::Integer(Int, 1, INT_MAX),
        Some("1"),
        "Partitions of a new topic where its maker does not say.",
    ),
    row(
        "producer.id.expiration.ms",
        Rule::Integer(Int, 1, INT_MAX),
        Some("86400000"),
        "Time without a write after which a producer's sequence numbers are forgotten.",
    ),
    row(
        "socket.listen.backlog.size",
        Rule::Integer(Int, 1, INT_MAX),
        Some("4096"),
        "Connections that wait in the kernel to be accepted; it cuts this to `net.core.somaxconn`. \
         Kafka's default is 50, beyond which a rush of clients waits a second to try again.",
    ),
    row(
        "socket.request.max.bytes",
        Rule::Integer(Int, 1, INT_MAX),
        Some("104857600"),
        "Largest request that is read; a larger one closes its connection.",
    ),
];
