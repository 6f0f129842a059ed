//! The tables against themselves, the layers, and the values against Kafka's.

mod document;

use std::collections::{BTreeMap, BTreeSet};

use super::*;

fn load(text: &str) -> Result<BrokerConfig, String> {
    let file = Some(("server.properties".to_owned(), text.to_owned()));
    BrokerConfig::load(&Sources { file, ..Sources::default() }).map_err(|error| error.to_string())
}

fn refusal(text: &str) -> String {
    load(text).expect_err("this file is refused")
}

fn overrides(pairs: &[(&str, &str)]) -> Overrides {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn tables_are_sorted_and_their_defaults_valid() {
    for table in [TOPIC_DEFINITIONS, BROKER_DEFINITIONS, ACCEPTED_DEFINITIONS] {
        for pair in table.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} before {}", pair[0].name, pair[1].name);
        }
        for row in table {
            if let Some(default) = row.default {
                assert!(row.rule.check(default).is_ok(), "default of {}", row.name);
            }
            assert!(!row.doc.is_empty(), "{} has a text", row.name);
        }
    }
    let broker: BTreeSet<_> = BROKER_DEFINITIONS.iter().map(|row| row.name).collect();
    assert!(ACCEPTED_DEFINITIONS.iter().all(|row| !broker.contains(row.name)));
}

#[test]
fn a_topic_falls_back_to_known_settings_with_the_same_default() {
    for row in TOPIC_DEFINITIONS {
        for synonym in row.synonyms {
            let broker = broker_definition(synonym.name);
            assert!(broker.is_some() || synonym.name.starts_with("log."), "{}", synonym.name);
            let Some(default) = broker.and_then(|broker| broker.default) else { continue };
            let scaled = default.parse::<i64>().map(|value| (value * synonym.factor).to_string());
            let scaled = scaled.unwrap_or_else(|_| default.to_owned());
            assert_eq!(Some(scaled.as_str()), row.default, "{} of {}", synonym.name, row.name);
        }
    }
}

#[test]
fn environment_names_are_unique() {
    let names: Vec<_> = BROKER_DEFINITIONS
        .iter()
        .chain(ACCEPTED_DEFINITIONS)
        .map(|row| environment_name(row.name))
        .collect();
    let unique: BTreeSet<_> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
    assert_eq!(environment_name("log.retention.ms"), "MILLRACE_LOG_RETENTION_MS");
    assert_eq!(environment_name("millrace.shards"), "MILLRACE_SHARDS");
}

#[test]
fn defaults_are_kafkas_but_for_the_flush_and_the_address() {
    let broker = BrokerConfig::default();
    assert_eq!(broker.node_id, None);
    assert_eq!(broker.listeners[0].to_string(), "PLAINTEXT://127.0.0.1:9092");
    let topic = TopicConfig::default();
    assert_eq!(topic, *broker.topic_defaults);
    assert_eq!(topic.flush_messages, 1);
    assert_eq!(topic.flush_ms, None);
    assert_eq!(topic.retention_ms, Some(604_800_000));
    assert_eq!(topic.retention_bytes, None);
    assert_eq!(topic.segment_bytes, 1 << 30);
    assert_eq!(topic.max_message_bytes, 1_048_588);
    assert!(topic.cleanup_policy.delete && !topic.cleanup_policy.compact);
}

#[test]
fn layers_win_in_order() {
    let owned = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let mut sources = Sources {
        file: Some(owned("a.properties", "num.partitions=2\nnum.partitions=3\n")),
        ..Sources::default()
    };
    let check = |sources: &Sources, partitions: i32, origin: &str| {
        let broker = BrokerConfig::load(sources).expect("valid");
        assert_eq!(broker.num_partitions, partitions);
        let row = broker.explain().into_iter().find(|row| row.name == "num.partitions");
        assert_eq!(row.expect("explained").origin.to_string(), origin);
    };
    check(&Sources::default(), 1, "default");
    check(&sources, 3, "a.properties:2");
    sources.environment = vec![owned("MILLRACE_NUM_PARTITIONS", "4"), owned("HOME", "/")];
    check(&sources, 4, "MILLRACE_NUM_PARTITIONS");
    sources.set = vec!["num.partitions=5".to_owned()];
    check(&sources, 5, "--set");
    sources.flags = vec![Flag {
        flag: "--partitions".to_owned(),
        name: "num.partitions".to_owned(),
        value: "6".to_owned(),
    }];
    check(&sources, 6, "--partitions");
}

#[test]
fn a_wrong_setting_is_one_line_with_origin_and_nearest_name() {
    for (text, expected) in [
        ("a=1\n", "server.properties:1: unknown setting a"),
        (
            "\n\nlog.retention.mss = 5",
            "server.properties:3: unknown setting log.retention.mss; the nearest known one is \
             log.retention.ms",
        ),
        ("num.partitions=two", "server.properties:1: num.partitions=two: Not a number of type INT"),
        (
            "log.segment.bytes=10",
            "server.properties:1: log.segment.bytes=10: Value must be at least 1048576",
        ),
        (
            "ssl.key.password=secret\nnode.id=x",
            "server.properties:2: node.id=x: Not a number of type INT",
        ),
        ("k\\u12=1", "server.properties:1: malformed \\uXXXX escape"),
        (
            "authorizer.class.name=a.B",
            "server.properties:1: authorizer.class.name: authorization is not supported yet; take \
             it out to start",
        ),
        (
            "broker.id=1\nnode.id=2",
            "server.properties:1: broker.id is 1 but node.id is 2; set node.id alone",
        ),
        ("log.dirs=/a,/b,/a", "server.properties:1: log.dirs: /a is named twice"),
    ] {
        assert_eq!(refusal(text), expected);
    }
    let environment = vec![("MILLRACE_LOG_RETENTION_SM".to_owned(), "1".to_owned())];
    let sources = Sources { environment, ..Sources::default() };
    assert_eq!(
        BrokerConfig::load(&sources).expect_err("unknown").to_string(),
        "MILLRACE_LOG_RETENTION_SM: no setting has this variable; the nearest known one is \
         MILLRACE_LOG_RETENTION_MS"
    );
    let environment = vec![("MILLRACE_FUZZ_RUNS".to_owned(), "1".to_owned())];
    BrokerConfig::load(&Sources { environment, ..Sources::default() }).expect("not a setting");
    let set = vec!["num.partitions".to_owned()];
    let error = BrokerConfig::load(&Sources { set, ..Sources::default() }).expect_err("no value");
    assert_eq!(error.to_string(), "--set num.partitions: expected name=value");
}

/// The file that Apache Kafka 4.4 ships, shortened: it must start Millrace, with a word on what
/// has no effect.
const SHIPPED: &str = "
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
#log.flush.interval.messages=10000
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
";

#[test]
fn kafkas_own_file_starts() {
    let broker = load(SHIPPED).expect("Kafka's own file is valid");
    assert_eq!(broker.node_id, Some(crate::types::NodeId(1)));
    assert_eq!(broker.listeners.len(), 1);
    assert_eq!(broker.listeners[0].to_string(), "PLAINTEXT://0.0.0.0:9092");
    assert_eq!(broker.listeners[0].advertised_host, "localhost");
    assert!(
        broker
            .warnings()
            .contains(&"server.properties:2: process.roles has no effect in Millrace".to_owned())
    );
    assert!(!broker.warnings().iter().any(|line| line.contains("log.segment.bytes")));
}

#[test]
fn listeners_that_cannot_work_are_refused_in_one_line() {
    for (text, expected) in [
        (
            "listeners=PLAINTEXT://:9092",
            "listeners: PLAINTEXT binds every address, so clients must be told one: set \
             advertised.listeners=PLAINTEXT://HOST:9092 (or --advertise HOST:9092)",
        ),
        (
            "listeners=PLAINTEXT://[::]:9092",
            "listeners: PLAINTEXT binds every address, so clients must be told one: set \
             advertised.listeners=PLAINTEXT://HOST:9092 (or --advertise HOST:9092)",
        ),
        (
            "listeners=SSL://localhost:9093",
            "listeners: SSL asks for SSL; only PLAINTEXT is supported so far",
        ),
        ("listeners=localhost:9092", "listeners: localhost:9092 is not NAME://HOST:PORT"),
        ("listeners=PLAINTEXT://h:99999", "listeners: PLAINTEXT://h:99999 is not NAME://HOST:PORT"),
        ("listeners=PLAINTEXT://a:b:1", "listeners: PLAINTEXT://a:b:1 is not NAME://HOST:PORT"),
        ("listeners=", "listeners: name at least one as NAME://HOST:PORT"),
        ("listeners=PLAINTEXT://a:1,PLAINTEXT://b:2", "listeners: PLAINTEXT is named twice"),
        (
            "listeners=A://h:1,B://h:1\nlistener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT",
            "listeners: port 1 is bound twice",
        ),
    ] {
        assert_eq!(refusal(text), format!("server.properties:1: {expected}"));
    }
    assert_eq!(
        refusal("listeners=INTERNAL://h:1"),
        "listener.security.protocol.map: no protocol for listener INTERNAL"
    );
    assert_eq!(
        refusal("advertised.listeners=OTHER://h:1"),
        "server.properties:1: advertised.listeners: OTHER is not among listeners"
    );
    assert_eq!(
        refusal("advertised.listeners=PLAINTEXT://0.0.0.0:1"),
        "server.properties:1: advertised.listeners: PLAINTEXT://0.0.0.0 is every address; clients \
         need one that they can reach"
    );
    let broker = load("listeners=PLAINTEXT://[::1]:0").expect("valid");
    assert_eq!(broker.listeners[0].to_string(), "PLAINTEXT://[::1]:0");
    assert_eq!(broker.listeners[0].advertised_host, "::1");
}

#[test]
fn topic_settings_resolve_over_the_brokers() {
    let broker = load("log.retention.hours=2\nlog.segment.bytes=2097152").expect("valid");
    let topic = TopicConfig::resolve(&broker, &Overrides::new()).expect("valid");
    assert_eq!(topic.retention_ms, Some(7_200_000));
    assert_eq!(topic.segment_bytes, 2 << 20);
    let given = overrides(&[
        ("retention.ms", "-1"),
        ("segment.bytes", " 1048576 "),
        ("cleanup.policy", "compact , delete"),
        ("compression.type", "zstd"),
        ("message.timestamp.type", "LogAppendTime"),
    ]);
    let topic = TopicConfig::resolve(&broker, &given).expect("valid");
    assert_eq!(topic.retention_ms, None);
    assert_eq!(topic.segment_bytes, 1 << 20);
    assert!(topic.cleanup_policy.compact && topic.cleanup_policy.delete);
    assert_eq!(topic.compression_type, CompressionType::Zstd);
    assert_eq!(topic.message_timestamp_type, TimestampType::LogAppendTime);
    let broker = load("log.retention.minutes=3\nlog.retention.hours=2").expect("valid");
    assert_eq!(broker.topic_defaults.retention_ms, Some(180_000));
    let broker = load("log.retention.hours=-1").expect("valid");
    assert_eq!(broker.topic_defaults.retention_ms, None);
}

/// A topic setting, a text, and what Apache Kafka 4.4 says of it, the hint aside.
const REFUSED: [(&str, &str, &str); 9] = [
    ("nope", "1", "Unknown topic config name: nope"),
    (
        "retention.msec",
        "1",
        "Unknown topic config name: retention.msec (nearest known: retention.ms)",
    ),
    (
        "segment.bytes",
        "1",
        "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576",
    ),
    (
        "segment.bytes",
        "x",
        "Invalid value x for configuration segment.bytes: Not a number of type INT",
    ),
    (
        "max.message.bytes",
        "2147483648",
        "Invalid value 2147483648 for configuration max.message.bytes: Not a number of type \
         INT",
    ),
    (
        "cleanup.policy",
        "keep",
        "Invalid value keep for configuration cleanup.policy: String must be one of: compact, \
         delete",
    ),
    (
        "compression.type",
        "none",
        "Invalid value none for configuration compression.type: String must be one of: \
         uncompressed, zstd, lz4, snappy, gzip, producer",
    ),
    (
        "preallocate",
        "maybe",
        "Invalid value maybe for configuration preallocate: Expected value to be either true \
         or false",
    ),
    (
        "min.compaction.lag.ms",
        "9223372036854775807x",
        "Invalid value 9223372036854775807x for configuration min.compaction.lag.ms: Not a \
         number of type LONG",
    ),
];

#[test]
fn topic_settings_are_refused_as_kafka_does() {
    let broker = BrokerConfig::default();
    for (name, text, expected) in REFUSED {
        let error = TopicConfig::resolve(&broker, &overrides(&[(name, text)]));
        let error = error.expect_err("refused");
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.name(), name);
    }
    let crossed = overrides(&[("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "8")]);
    TopicConfig::resolve(&broker, &crossed).expect_err("least above most");
    let remote = overrides(&[("remote.storage.enable", "true")]);
    TopicConfig::resolve(&broker, &remote).expect_err("there is no tiered storage");
    for (name, text) in [
        ("cleanup.policy", ""),
        ("cleanup.policy", "compact,compact"),
        ("preallocate", "TRUE"),
        ("retention.bytes", "-5"),
        ("segment.bytes", "+2000000"),
        ("compression.gzip.level", "-1"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1,1:1"),
    ] {
        TopicConfig::resolve(&broker, &overrides(&[(name, text)])).expect(name);
    }
}

#[test]
fn describe_names_source_and_synonyms_as_kafka_does() {
    let broker = load("log.retention.hours=2").expect("valid");
    let given = overrides(&[("retention.ms", "5000"), ("cleanup.policy", "compact")]);
    let rows = TopicConfig::describe(&broker, &given).expect("valid");
    assert_eq!(rows.len(), TOPIC_DEFINITIONS.len());
    let rows: BTreeMap<_, _> = rows.iter().map(|row| (row.name, row)).collect();
    let shown = |name: &str| {
        let synonyms = rows[name].synonyms.iter();
        synonyms
            .map(|it| {
                let value = it.value.as_deref().unwrap_or("null");
                format!("{}={value} {:?}", it.name, it.source)
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        shown("retention.ms"),
        [
            "retention.ms=5000 DynamicTopic",
            "log.retention.hours=2 StaticBroker",
            "log.retention.hours=168 Default"
        ]
    );
    assert_eq!(rows["retention.ms"].source, EntrySource::DynamicTopic);
    assert_eq!(
        shown("cleanup.policy"),
        ["cleanup.policy=compact DynamicTopic", "log.cleanup.policy=delete Default"]
    );
    assert_eq!(rows["segment.bytes"].source, EntrySource::Default);
    assert_eq!(rows["min.cleanable.dirty.ratio"].value.as_deref(), Some("0.5"));
    let rows = TopicConfig::describe(&broker, &Overrides::new()).expect("valid");
    let retention = rows.iter().find(|row| row.name == "retention.ms").expect("there");
    assert_eq!(retention.value.as_deref(), Some("7200000"));
    assert_eq!(retention.source, EntrySource::StaticBroker);
}

#[test]
fn a_broker_describes_itself_without_secrets() {
    let broker = load("ssl.key.password=secret\nadvertised.listeners=PLAINTEXT://h:1").expect("ok");
    let rows: BTreeMap<_, _> = broker.describe().into_iter().map(|row| (row.name, row)).collect();
    assert_eq!(rows["ssl.key.password"].value, None);
    assert!(rows["ssl.key.password"].sensitive);
    assert_eq!(rows["advertised.listeners"].value.as_deref(), Some("PLAINTEXT://h:1"));
    assert_eq!(rows["advertised.listeners"].source, EntrySource::StaticBroker);
    assert!(!format!("{rows:?}{:?}", broker.explain()).contains("secret"));
}

#[test]
fn changes_apply_to_overrides() {
    let broker = BrokerConfig::default();
    let change = |name: &str, operation| Change { name: name.to_owned(), operation };
    let text = str::to_owned;
    let before = overrides(&[("retention.ms", "5")]);
    let after = apply(
        &broker,
        &before,
        &[
            change("cleanup.policy", Operation::Append(text("compact,delete"))),
            change("retention.ms", Operation::Delete),
            change("segment.bytes", Operation::Set(text("2000000"))),
            change("unknown.but.deleted", Operation::Delete),
        ],
    )
    .expect("valid");
    let expected = overrides(&[("cleanup.policy", "delete,compact"), ("segment.bytes", "2000000")]);
    assert_eq!(after, expected);
    let fewer = [change("cleanup.policy", Operation::Subtract(text("delete")))];
    let after = apply(&broker, &after, &fewer).expect("valid");
    assert_eq!(after["cleanup.policy"], "compact");
    for (changes, expected) in [
        (
            vec![change("retention.ms", Operation::Append(text("1")))],
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (vec![change("nope", Operation::Set(text("1")))], "Unknown topic config name: nope"),
        (
            vec![
                change("retention.ms", Operation::Delete),
                change("retention.ms", Operation::Set(text("1"))),
            ],
            "Error due to duplicate config keys: retention.ms",
        ),
    ] {
        let error = apply(&broker, &before, &changes).expect_err("refused");
        assert_eq!(error.to_string(), expected);
    }
}
