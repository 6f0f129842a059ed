//! Our reading, writing and judging of batches against Apache Kafka's own, kept as fixtures.
//!
//! `fixtures/README.md` says how they were made. Where Millrace differs on purpose, the difference
//! is spelled out here.

use std::path::Path;

use super::*;
use crate::{io::buf::Slice, types::ProducerId};

const NOW_MS: i64 = 1_700_000_000_000;

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/batch/fixtures").join(name);
    std::fs::read(path).expect("the fixture is in the repository")
}

fn large_value() -> Vec<u8> {
    (b'a'..=b'z').cycle().take(100_000).collect()
}

/// The records that `Golden.java` calls its sample.
fn build(large: bool, options: &BatchOptions) -> Vec<u8> {
    let headers: [NewRecordHeader<'_>; 4] =
        [(b"h", Some(b"1")), (b"h", None), (b"", Some(b"")), ("\u{e9}".as_bytes(), Some(b"2"))];
    let value = large_value();
    let records = [
        NewRecord {
            timestamp_ms: NOW_MS - 10,
            key: Some(b"k1"),
            value: Some(b"v1"),
            headers: &headers,
        },
        NewRecord { timestamp_ms: NOW_MS - 2000, key: None, value: Some(b""), headers: &[] },
        NewRecord { timestamp_ms: NOW_MS, key: Some(b""), value: None, headers: &[] },
        NewRecord { timestamp_ms: NOW_MS, key: Some(b"large"), value: Some(&value), headers: &[] },
    ];
    let count = if large { 4 } else { 3 };
    let mut builder = BatchBuilder::new();
    for record in records.iter().take(count) {
        builder.push(record).expect("fits");
    }
    let mut out = Vec::new();
    builder.finish(options, &mut out).expect("builds");
    out
}

#[derive(Debug, PartialEq)]
struct Read {
    offset: i64,
    timestamp_ms: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn read(batch: &[u8]) -> Vec<Read> {
    let header = Header::from_prefix(batch).expect("a header");
    let payload = Slice::copy_of(&batch[HEADER_BYTES..]).into();
    let bytes = record_bytes(&header, &payload, 1 << 20).expect("decompresses");
    let records = Records::new(&header, &bytes).map(|record| {
        let record = record.expect("well formed");
        Read {
            offset: record.offset(&header).0,
            timestamp_ms: record.timestamp_ms(&header),
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: record
                .headers
                .map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))
                .collect(),
        }
    });
    records.collect()
}

#[test]
fn we_read_what_java_wrote() {
    for codec in Codec::ALL {
        let name = codec.name();
        let plain = fixture(&format!("{name}.batch"));
        let large = codec != Codec::None;
        let ours = build(large, &BatchOptions::default());
        let records = read(&plain);
        assert_eq!(records, read(&ours), "{name}");
        assert_eq!(records.len(), if large { 4 } else { 3 });
        assert_eq!(records[0].headers.len(), 4);
        assert!(records[1].key.is_none() && records[2].value.is_none());
        let rules = Rules { strict: true, ..Rules::default() };
        check(&Slice::copy_of(&plain).into(), &rules, NOW_MS).expect("passes");
    }
}

#[test]
fn we_write_what_java_writes() {
    let idempotent = BatchOptions {
        producer_id: ProducerId(4711),
        producer_epoch: 3,
        base_sequence: 77,
        ..BatchOptions::default()
    };
    assert_eq!(build(false, &BatchOptions::default()), fixture("none.batch"));
    assert_eq!(build(false, &idempotent), fixture("none-idempotent.batch"));
    let transactional = BatchOptions { transactional: true, base_sequence: 0, ..idempotent };
    assert_eq!(build(false, &transactional), fixture("transactional.batch"));
    for codec in Codec::ALL {
        let theirs = fixture(&format!("{}-idempotent.batch", codec.name()));
        let ours = build(false, &BatchOptions { codec, ..idempotent });
        let same = |bytes: &[u8]| {
            let header = Header::from_prefix(bytes).expect("a header");
            Header { crc: 0, batch_length: 0, ..header }
        };
        assert_eq!(same(&ours), same(&theirs), "{codec:?}");
        assert_eq!(read(&ours), read(&theirs), "{codec:?}");
    }
}

#[test]
fn a_commit_marker_reads_as_one() {
    let bytes = fixture("commit.batch");
    let header = Header::from_prefix(&bytes).expect("a header");
    assert!(header.is_control() && header.is_transactional());
    assert_eq!((header.producer_id, header.base_sequence), (ProducerId(4711), -1));
    let records = read(&bytes);
    assert_eq!(records[0].key.as_deref(), Some(&[0, 0, 0, 1][..]));
    let refused = check(&Slice::copy_of(&bytes).into(), &Rules::default(), NOW_MS);
    assert!(matches!(refused, Err(Rejection::InvalidRecord { .. })));
}

/// A line of `verdicts.txt`.
struct Verdict {
    name: String,
    rules: Rules,
    batch: Vec<u8>,
    outcome: String,
    stored: Vec<u8>,
}

fn verdicts() -> Vec<Verdict> {
    let text = String::from_utf8(fixture("verdicts.txt")).expect("text");
    let lines = text.lines().map(|line| {
        let fields: Vec<&str> = line.split('|').collect();
        let [name, version, settings, batch, outcome, stored] = fields[..] else {
            panic!("six fields: {line}");
        };
        let allow_zstd = version.parse::<i32>().expect("a number") >= 7;
        let mut rules = Rules { allow_zstd, ..Rules::default() };
        settings.split(',').filter(|setting| !setting.is_empty()).for_each(|setting| {
            apply(&mut rules, setting);
        });
        Verdict {
            name: name.into(),
            rules,
            batch: from_hex(batch),
            outcome: outcome.into(),
            stored: if stored == "-" { Vec::new() } else { from_hex(stored) },
        }
    });
    lines.collect()
}

fn apply(rules: &mut Rules, setting: &str) {
    let (name, value) = setting.split_once('=').expect("name=value");
    match name {
        "cleanup.policy" => rules.compacted = value == "compact",
        "message.timestamp.type" => rules.timestamp_type = TimestampType::LogAppendTime,
        "message.timestamp.before.max.ms" => {
            rules.timestamp_before_max_ms = value.parse().expect("a number");
        }
        "max.message.bytes" => rules.max_message_bytes = value.parse().expect("a number"),
        other => panic!("unknown setting {other}"),
    }
}

fn from_hex(text: &str) -> Vec<u8> {
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16);
    text.as_bytes().chunks(2).map(|pair| byte(pair).expect("hex")).collect()
}

/// Our answer in the terms of the fixture.
fn outcome(result: &Result<Accepted, Rejection>) -> String {
    let (class, errors): (&str, &[_]) = match result {
        Ok(_) => return "Ok".into(),
        Err(Rejection::Corrupt) => ("CorruptRecordException", &[]),
        Err(Rejection::TooLarge) => ("RecordTooLargeException", &[]),
        Err(Rejection::LargerThanSegment) => ("RecordBatchTooLargeException", &[]),
        Err(Rejection::UnsupportedCodec) => ("UnsupportedCompressionTypeException", &[]),
        Err(Rejection::InvalidRecord { record_errors, .. }) => {
            ("InvalidRecordException", record_errors)
        }
        Err(Rejection::InvalidTimestamp { record_errors, .. }) => {
            ("InvalidTimestampException", record_errors)
        }
    };
    let places: Vec<String> = errors.iter().map(|(place, _)| place.to_string()).collect();
    if places.is_empty() { class.into() } else { format!("{class}:{}", places.join(",")) }
}

/// Where our strict answer differs from Kafka's, and why.
fn expected(verdict: &Verdict) -> String {
    match (&*verdict.name, &*verdict.outcome) {
        // Kafka has no answer of its own and falls to UNKNOWN_SERVER_ERROR.
        (name, "IllegalArgumentException") if name.starts_with("codec ") => {
            "UnsupportedCompressionTypeException".into()
        }
        (_, "KafkaException") => "InvalidRecordException".into(),
        // Kafka stores offsets that its readers then jumble.
        ("offset deltas", "Ok") => "InvalidRecordException".into(),
        (_, outcome) => outcome.into(),
    }
}

#[test]
fn strict_rules_judge_as_kafka_does() {
    for verdict in verdicts() {
        let rules = Rules { strict: true, ..verdict.rules.clone() };
        let result = check(&Slice::copy_of(&verdict.batch).into(), &rules, NOW_MS);
        assert_eq!(outcome(&result), expected(&verdict), "{}: {result:?}", verdict.name);
    }
}

#[test]
fn default_rules_trust_a_header_that_its_payload_can_bear_out_and_nothing_else() {
    let mut trusted = 0;
    for verdict in verdicts() {
        let result = check(&Slice::copy_of(&verdict.batch).into(), &verdict.rules, NOW_MS);
        let (_, fault) = verdict.name.split_once(' ').unwrap_or_default();
        let inner = ["count low", "count high", "empty payload", "broken payload"];
        // Without compression, nothing cannot hold a record.
        if inner.contains(&fault) && verdict.name != "none empty payload" {
            assert!(result.is_ok(), "{}: {result:?}", verdict.name);
            trusted += 1;
        } else if verdict.name != "offset deltas" {
            assert_eq!(outcome(&result), expected(&verdict), "{}: {result:?}", verdict.name);
        }
    }
    assert_eq!(trusted, 19);
}

#[test]
fn headers_are_stored_as_kafka_stores_them() {
    for verdict in verdicts().into_iter().filter(|verdict| !verdict.stored.is_empty()) {
        let result = check(&Slice::copy_of(&verdict.batch).into(), &verdict.rules, NOW_MS);
        let ours = result.expect("Kafka takes it").header;
        let theirs = Header::from_prefix(&verdict.stored).expect("a header");
        let epoch = theirs.partition_leader_epoch;
        assert_eq!(Header { partition_leader_epoch: epoch, ..ours }, theirs, "{}", verdict.name);
    }
}
