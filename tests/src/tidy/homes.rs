//! Which crate or module may name which package, and where Kafka's error codes live.

use super::{Finding, Source, source};

/// Packages with a home: the path in code, and the folders that may name it.
const HOMES: [(&str, &[&str]); 14] = [
    ("async_task", &["engine/src/io/"]),
    ("glommio", &["engine/src/io/"]),
    ("io_uring", &["engine/src/io/"]),
    ("crossbeam", &["engine/src/io/", "engine/src/meta/", "bench/benches/"]),
    ("rkyv", &["engine/src/shard/", "engine/src/meta/"]),
    ("crc32c", &["engine/src/batch/", "engine/src/log/", "engine/src/meta/", "tests/"]),
    ("flate2", &["engine/src/batch/"]),
    ("snap", &["engine/src/batch/"]),
    ("lz4_flex", &["engine/src/batch/"]),
    ("zstd", &["engine/src/batch/"]),
    ("kafka_wire", &["net/src/wire/"]),
    ("clap", &["tools/", "bench/", "tests/src/bin/"]),
    ("rdkafka", &["tests/"]),
    ("criterion", &["bench/benches/"]),
];

/// Where the names of Kafka's error codes may stand: below, kinds of error say what to do.
const CODES_FORBIDDEN: [&str; 2] = ["engine/src/", "bench/src/"];

/// A package is named only at home, so that it can be replaced there.
pub(super) fn packages(source: &Source, findings: &mut Vec<Finding>) {
    for (at, code) in source.code.iter().enumerate() {
        for (package, homes) in HOMES {
            let named = source::words(code, package).any(|column| is_path(code, column, package));
            if named && !homes.iter().any(|home| source.path.starts_with(home)) {
                let text = format!("{package} is for {} only", homes.join(" and "));
                push(source, at + 1, "package", text, findings);
            }
        }
    }
}

/// A package is named by a path that starts with it, or by `use`; not by a local of that name.
fn is_path(code: &str, column: usize, package: &str) -> bool {
    let before = code[..column].trim_end();
    let behind = &code[column + package.len()..];
    let starts = !before.ends_with(':') && !before.ends_with('.');
    starts && (behind.starts_with("::") || before.ends_with("use") && behind.starts_with(';'))
}

/// Kafka's error codes exist in `net::wire`, and are named by the handlers of `net` alone.
pub(super) fn error_codes(source: &Source, findings: &mut Vec<Finding>) {
    let forbidden = CODES_FORBIDDEN.iter().any(|folder| source.path.starts_with(folder));
    for (line, code) in source.production_code() {
        let names = ["ErrorCode", "error_code"];
        let named = names.iter().any(|name| source::words(code, name).next().is_some());
        let defined = code.contains("enum ErrorCode") && !source.path.starts_with("net/src/wire/");
        if (forbidden && named) || defined {
            let text = "Kafka's error codes are known to net::wire only".to_owned();
            push(source, line, "error-code", text, findings);
        }
    }
}

fn push(source: &Source, line: usize, rule: &'static str, text: String, out: &mut Vec<Finding>) {
    out.push(Finding { path: source.path.clone(), line, rule, text });
}
