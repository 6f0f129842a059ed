//! The house rules hold for every file of the repository, and each rule can fail.

use std::path::Path;

use millrace_tests::tidy::{self, Finding, Source};

fn repository() -> tidy::Tree {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    tidy::read_tree(&root).expect("git lists the repository")
}

#[test]
fn the_tree_keeps_the_house_rules() {
    let findings: Vec<Finding> =
        repository().iter().flat_map(|(path, text)| tidy::check(path, text)).collect();
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(lines.is_empty(), "{} findings:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn assertions_are_dense_where_data_could_be_lost() {
    let tree = repository();
    let rust = tree.iter().filter(|(path, _)| path.ends_with(".rs"));
    let sources: Vec<Source> = rust.map(|(path, text)| Source::new(path, text)).collect();
    let densities = tidy::densities(&sources);
    for density in &densities {
        let floor = density.floor().map_or(String::new(), |floor| format!(", floor {floor}"));
        let (name, lines, rate) = (&density.module, density.lines, density.per_thousand());
        println!("{name:24} {lines:6} lines, {rate:3} assertions per thousand{floor}");
    }
    let thin: Vec<_> = densities.iter().filter(|density| density.too_thin()).collect();
    assert!(thin.is_empty(), "below their floor: {thin:?}");
}

/// The rules that `text` at `path` breaks, in order, each once.
fn broken(path: &str, text: &str) -> Vec<&'static str> {
    let mut rules: Vec<_> = tidy::check(path, text).iter().map(|finding| finding.rule).collect();
    rules.dedup();
    rules
}

/// `lines` lines of code.
fn code(lines: usize) -> String {
    "const A: u8 = 1;\n".repeat(lines)
}

#[test]
fn a_clean_file_has_no_findings() {
    let text = "//! A module.\n\n/// Says so.\npub fn answer() -> u8 {\n    42\n}\n";
    assert_eq!(broken("engine/src/types.rs", text), Vec::<&str>::new());
}

#[test]
fn a_long_file_is_reported() {
    assert_eq!(broken("net/src/wire/frame.rs", &code(601)), ["file-size"]);
    assert_eq!(broken("net/src/wire/frame.rs", &code(600)), Vec::<&str>::new());
    assert_eq!(broken("net/src/wire/tests.rs", &code(601)), Vec::<&str>::new());
    assert_eq!(broken("net/src/wire/tests.rs", &code(1201)), ["file-size"]);
}

#[test]
fn a_long_function_is_reported() {
    let long = format!("fn long(a: [u8; 2]) -> u8 {{\n{}}}\n", "    a();\n".repeat(59));
    assert_eq!(broken("net/src/wire/frame.rs", &long), ["function-size"]);
    let fits = format!("fn fits() {{\n{}}}\n", "    a();\n".repeat(58));
    assert_eq!(broken("net/src/wire/frame.rs", &fits), Vec::<&str>::new());
    let declared = format!("trait T {{\n    fn declared(&self);\n{}}}\n", code(60));
    assert_eq!(broken("net/src/wire/frame.rs", &declared), Vec::<&str>::new());
}

#[test]
fn a_wide_line_is_reported() {
    let line = format!("// {}\n", "x".repeat(98));
    assert_eq!(broken("net/src/wire/frame.rs", &line), ["line-width"]);
}

#[test]
fn long_inline_tests_are_reported() {
    let text = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", code(1), code(150));
    assert_eq!(broken("net/src/wire/frame.rs", &text), ["test-size"]);
}

#[test]
fn an_empty_name_is_reported() {
    assert_eq!(broken("net/src/utils.rs", "").first(), Some(&"name"));
    assert_eq!(broken("docs/misc/notes.md", ""), ["name"]);
    assert_eq!(broken("tools/src/main.rs", "mod helpers {}\n"), ["name"]);
    assert_eq!(broken("tools/src/main.rs", "pub mod common;\n"), ["name"]);
}

#[test]
fn an_unwrap_outside_tests_is_reported() {
    let line = "fn f() { g().unwrap(); }\n";
    assert_eq!(broken("tools/src/main.rs", line), ["unwrap"]);
    assert_eq!(broken("tools/src/topics/tests.rs", line), Vec::<&str>::new());
    let inline = format!("#[cfg(test)]\nmod tests {{\n    {line}}}\n");
    assert_eq!(broken("tools/src/main.rs", &inline), Vec::<&str>::new());
    assert_eq!(broken("tools/src/main.rs", "// not .unwrap()\n"), Vec::<&str>::new());
}

#[test]
fn a_leftover_is_reported() {
    for text in
        ["// TODO: later\n", "/* FIXME */\n", "fn f() { dbg!(1); }\n", "fn f() { todo!() }\n"]
    {
        assert_eq!(broken("tools/src/main.rs", text), ["leftover"], "{text}");
    }
    assert_eq!(broken("tools/src/main.rs", "const A: &str = \"TODO\";\n"), Vec::<&str>::new());
}

#[test]
fn unsafe_code_is_reported_outside_its_files_and_without_a_reason() {
    let silent = "fn f() { unsafe { g() } }\n";
    let reasoned = "fn f() {\n    // SAFETY: g has no contract.\n    unsafe { g() }\n}\n";
    assert_eq!(broken("engine/src/log/read.rs", reasoned), ["unsafe"]);
    assert_eq!(broken("engine/src/io/buf.rs", silent), ["unsafe"]);
    assert_eq!(broken("engine/src/io/buf.rs", reasoned), Vec::<&str>::new());
    let distant = "// SAFETY: of f.\nfn f() {}\n\nunsafe impl Send for A {}\n";
    assert_eq!(broken("engine/src/io/buf.rs", distant), ["unsafe"]);
    let split = "// SAFETY: g has none.\nlet a =\n    unsafe { g() };\n";
    assert_eq!(broken("engine/src/io/buf.rs", split), Vec::<&str>::new());
}

#[test]
fn an_import_against_the_stream_is_reported() {
    for (path, text) in [
        ("engine/src/batch/check.rs", "use crate::log::Marks;\n"),
        ("engine/src/io/file.rs", "use crate::{\n    types::Offset,\n    batch::Header,\n};\n"),
        ("engine/src/types.rs", "fn f() { crate::limits::g() }\n"),
        ("engine/src/drawer.rs", "fn f() {}\n"),
        ("net/src/wire/frame.rs", "use millrace_engine::shard::Command;\n"),
        ("net/src/wire/frame.rs", "use crate::conn::Connection;\n"),
        ("net/src/handler/fetch.rs", "use millrace_engine::log::Log;\n"),
        ("net/src/client/producer.rs", "use crate::handler::produce;\n"),
        ("bench/src/load.rs", "use millrace_net::wire::Frame;\n"),
    ] {
        assert_eq!(broken(path, text), ["import"], "{path}: {text}");
    }
    for (path, text) in [
        ("engine/src/log/read.rs", "use crate::{batch::{Codec, Header}, io::buf::Chain};\n"),
        ("engine/src/log/read.rs", "use crate::log::Marks;\n"),
        ("net/src/handler/fetch.rs", "use crate::wire::{ErrorCode, fetch};\n"),
        ("net/src/client/producer.rs", "use millrace_engine::{batch::Codec, types::Offset};\n"),
    ] {
        assert_eq!(broken(path, text), Vec::<&str>::new(), "{path}: {text}");
    }
}

#[test]
fn a_crate_dependency_against_the_stream_is_reported() {
    let net = "[dependencies]\nmillrace-net.workspace = true\n";
    assert_eq!(broken("engine/Cargo.toml", net), ["import"]);
    assert_eq!(broken("tools/Cargo.toml", net), Vec::<&str>::new());
    let engine = "[dependencies]\nmillrace-engine = { path = \"../engine\" }\n";
    assert_eq!(broken("bench/Cargo.toml", engine), ["import"]);
    let dev = "[dev-dependencies]\nmillrace-engine.workspace = true\n";
    assert_eq!(broken("bench/Cargo.toml", dev), Vec::<&str>::new());
    let tools = "[dependencies]\nmillrace.workspace = true\n";
    assert_eq!(broken("net/Cargo.toml", tools), ["import"]);
}

#[test]
fn a_package_outside_its_home_is_reported() {
    for (path, text) in [
        ("engine/src/shard/run.rs", "use glommio::LocalExecutor;\n"),
        ("net/src/conn/receive.rs", "fn f() { io_uring::opcode::Nop::new(); }\n"),
        ("net/src/handler/topics.rs", "use kafka_wire::Message;\n"),
        ("engine/src/log/append.rs", "use rkyv::Archive;\n"),
        ("net/src/route/hop.rs", "use crossbeam;\n"),
        ("engine/src/log/append.rs", "use clap::Parser;\n"),
    ] {
        assert_eq!(broken(path, text), ["package"], "{path}: {text}");
    }
    let local = "fn f(snap: u8) { g(snap); crate::batch::zstd::h(); }\n";
    assert_eq!(broken("engine/src/log/append.rs", local), Vec::<&str>::new());
}

#[test]
fn a_kafka_error_code_below_the_wire_is_reported() {
    let text = "fn f(code: ErrorCode) {}\n";
    assert_eq!(broken("engine/src/log/append.rs", text), ["error-code"]);
    assert_eq!(broken("net/src/handler/fetch.rs", text), Vec::<&str>::new());
    let second = "enum ErrorCode {}\n";
    assert_eq!(broken("net/src/handler/fetch.rs", second), ["error-code"]);
}

#[test]
fn literals_and_comments_are_told_apart() {
    let text = concat!(
        "let a = r#\"// no\"#; let b = '\"'; /* \" /* x */ */ c('\\'', \"\\\"\"); // d\n",
        "let 'e = 1;",
    );
    let source = Source::new("tools/src/main.rs", text);
    let code = source.code[0].split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(code, "let a = r# ; let b = ; c( , );");
    let comments = source.comments[0].split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(comments, "/* \" /* x */ */ // d");
    assert_eq!(source.code[1], "let 'e = 1;");
}
