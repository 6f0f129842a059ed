//! `docs/configuration.md`: its tables are written from the tables of settings, and a test keeps
//! them so.

use std::{fmt::Write, fs, path::PathBuf};

use super::super::{
    ACCEPTED_DEFINITIONS, BROKER_DEFINITIONS, Definition, TOPIC_DEFINITIONS, Usage,
};

const BEGIN: &str = "<!-- generated from the tables of engine::config -->\n";

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md")
}

fn shown(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

fn row(out: &mut String, definition: &Definition, fallback: bool) {
    let Definition { name, rule, default, synonyms, usage, doc } = definition;
    let mark = if *usage == Usage::Honoured { "" } else { " *" };
    let value_type = format!("{:?}", rule.value_type()).to_lowercase();
    let valid = rule.valid_values();
    let default = shown(default.unwrap_or_default());
    write!(out, "| `{name}`{mark} | {value_type} | {default} | {valid} |").expect("a text");
    if fallback {
        let names: Vec<_> = synonyms.iter().map(|synonym| shown(synonym.name)).collect();
        write!(out, " {} |", names.join(", ")).expect("a text");
    }
    writeln!(out, " {doc} |").expect("a text");
}

fn tables() -> String {
    let mut out = String::from(BEGIN);
    out.push_str("\n## Topic settings\n\n");
    out.push_str("| setting | type | default | valid values | falls back to | what it does |\n");
    out.push_str("|---|---|---|---|---|---|\n");
    TOPIC_DEFINITIONS.iter().for_each(|definition| row(&mut out, definition, true));
    out.push_str("\n## Broker settings\n\n");
    out.push_str(
        "| setting | type | default | valid values | what it does |\n|---|---|---|---|---|\n",
    );
    BROKER_DEFINITIONS.iter().for_each(|definition| row(&mut out, definition, false));
    out.push_str("\n## Broker settings that have no effect\n\n");
    let names = ACCEPTED_DEFINITIONS.iter().filter(|it| it.usage == Usage::Accepted);
    let names: Vec<_> = names.map(|it| shown(it.name)).collect();
    out.push_str(&names.join(",\n"));
    out.push_str(".\n\n## Broker settings that stop the start\n\n");
    for definition in ACCEPTED_DEFINITIONS {
        if let Usage::Refused(reason) = definition.usage {
            writeln!(out, "- `{}`, unless empty: {reason}.", definition.name).expect("a text");
        }
    }
    out
}

/// With MILLRACE_TEST_WRITE_DOCS set, writes the tables instead of comparing them.
#[test]
fn the_documentation_is_current() {
    let text = fs::read_to_string(path()).expect("docs/configuration.md is there");
    let at = text.find(BEGIN).expect("it has the place of the tables");
    let (prose, found) = text.split_at(at);
    if std::env::var_os("MILLRACE_TEST_WRITE_DOCS").is_some() {
        fs::write(path(), format!("{prose}{}", tables())).expect("written");
    } else {
        assert_eq!(found, tables(), "run this test with MILLRACE_TEST_WRITE_DOCS=1");
    }
}
