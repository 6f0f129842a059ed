//! Names that say nothing, calls that give up, and what was left lying about.

use super::{Finding, Source, source};

/// Names of files, folders and modules that name no idea.
const EMPTY_NAMES: [&str; 6] = ["util", "utils", "helper", "helpers", "common", "misc"];

/// Words in a comment that promise work to nobody.
const PROMISES: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// Macros that are for the author's own eyes, or for code that is not there.
const LEFTOVERS: [&str; 3] = ["dbg", "todo", "unimplemented"];

/// A file, folder or module is named after its idea.
pub(super) fn name(source: &Source, findings: &mut Vec<Finding>) {
    for part in source.path.split('/') {
        let stem = part.split('.').next().unwrap_or(part);
        if EMPTY_NAMES.contains(&stem) {
            push(source, 1, "name", format!("'{part}' names no idea"), findings);
        }
    }
    for (line, code) in numbered(&source.code) {
        let module = code.trim_start().trim_start_matches("pub ").strip_prefix("mod ");
        let module = module.map(|name| name.trim_end_matches([';', ' ', '{', '}']));
        if module.is_some_and(|name| EMPTY_NAMES.contains(&name)) {
            push(source, line, "name", format!("'{}' names no idea", code.trim()), findings);
        }
    }
}

/// Production code never gives up without a word.
pub(super) fn unwrap(source: &Source, findings: &mut Vec<Finding>) {
    for (line, code) in source.production_code() {
        for call in [".unwrap()", ".unwrap_err()", ".expect(\"\")"] {
            if code.contains(call) {
                let text = format!("{call} outside tests: handle it, or expect the invariant");
                push(source, line, "unwrap", text, findings);
            }
        }
    }
}

/// Nothing is left for later without an owner.
pub(super) fn leftover(source: &Source, findings: &mut Vec<Finding>) {
    for (line, comment) in numbered(&source.comments) {
        for promise in PROMISES {
            if source::words(comment, promise).next().is_some() {
                push(source, line, "leftover", format!("{promise} in a comment"), findings);
            }
        }
    }
    for (line, code) in numbered(&source.code) {
        for name in LEFTOVERS {
            let found =
                source::words(code, name).any(|at| code[at + name.len()..].starts_with('!'));
            if found {
                push(source, line, "leftover", format!("{name}! is not for a commit"), findings);
            }
        }
    }
}

fn numbered(lines: &[String]) -> impl Iterator<Item = (usize, &str)> {
    lines.iter().enumerate().map(|(at, line)| (at + 1, line.as_str()))
}

fn push(source: &Source, line: usize, rule: &'static str, text: String, out: &mut Vec<Finding>) {
    out.push(Finding { path: source.path.clone(), line, rule, text });
}
