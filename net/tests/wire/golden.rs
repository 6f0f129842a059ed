//! The golden frames of the wire module, as the corpus of tests from outside.

use millrace_net::wire::ApiKey;

/// One frame, without its length.
pub struct Frame {
    /// The version.
    pub version: i16,
    /// Header and body.
    pub bytes: Vec<u8>,
}

macro_rules! fixtures {
    ($($key:ident: $file:literal,)*) => {
        &[$((ApiKey::$key, include_str!(concat!("../../src/wire/fixtures/", $file, ".txt"))),)*]
    };
}

const FIXTURES: &[(ApiKey, &str)] = fixtures! {
    Produce: "produce",
    Fetch: "fetch",
    ListOffsets: "list_offsets",
    Metadata: "metadata",
    FindCoordinator: "find_coordinator",
    ApiVersions: "api_versions",
    CreateTopics: "create_topics",
    DeleteTopics: "delete_topics",
    DeleteRecords: "delete_records",
    InitProducerId: "init_producer_id",
    OffsetForLeaderEpoch: "offset_for_leader_epoch",
    DescribeConfigs: "describe_configs",
    AlterConfigs: "alter_configs",
    CreatePartitions: "create_partitions",
    IncrementalAlterConfigs: "incremental_alter_configs",
    DescribeCluster: "describe_cluster",
};

/// All frames of one API and direction.
pub fn frames(key: ApiKey, is_request: bool) -> Vec<Frame> {
    let direction = if is_request { "request " } else { "response " };
    let lines = FIXTURES.iter().filter(|(of, _)| *of == key).flat_map(|(_, text)| text.lines());
    lines.filter_map(|line| line.strip_prefix(direction)).map(parse).collect()
}

/// Reads what follows the direction: version, variant and bytes.
fn parse(line: &str) -> Frame {
    let words: Vec<&str> = line.split(' ').collect();
    let [version, _variant, hex] = words[..] else { panic!("not a fixture: {line}") };
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("fixtures are hex");
    Frame {
        version: version.parse().expect("a version is a number"),
        bytes: (0..hex.len()).step_by(2).map(byte).collect(),
    }
}
