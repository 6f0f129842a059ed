//! Which module may know which: the map of the architecture, as a table.
//!
//! Cargo forbids cycles between crates but not an edge that the design lacks, and knows nothing of
//! modules. A module without a row is a finding: whoever adds one says what it may know.

use super::{Finding, Source, source};

/// Crates and the crates of this workspace they may depend on, in any section of `Cargo.toml` but
/// `dev-dependencies`.
const CRATES: [(&str, &[&str]); 5] = [
    ("engine", &[]),
    ("net", &["engine"]),
    ("bench", &["net"]),
    ("tools", &["engine", "net", "bench"]),
    ("tests", &["engine", "net", "bench", "tools"]),
];

/// Crates that may be named in `dev-dependencies` beyond [`CRATES`].
const DEV_CRATES: [(&str, &[&str]); 1] = [("bench", &["engine"])];

/// Modules of `engine` and the modules of it that each may name.
const ENGINE: [(&str, &[&str]); 14] = [
    ("types", &[]),
    ("limits", &["types"]),
    ("error", &["types"]),
    ("io", &["types", "limits", "error"]),
    ("batch", &["io", "types", "limits", "error"]),
    ("config", &["types", "limits", "error"]),
    ("log", &["batch", "io", "config", "types", "limits", "error"]),
    ("replica", &["batch", "config", "types", "limits", "error"]),
    ("meta", &["io", "config", "types", "limits", "error"]),
    ("group", &["log", "batch", "config", "types", "limits", "error"]),
    ("txn", &["log", "batch", "config", "types", "limits", "error"]),
    ("metrics", &["types"]),
    ("shard", &["*"]),
    ("lib", &["*"]),
];

/// Modules of `net` and the modules of it that each may name.
const NET: [(&str, &[&str]); 11] = [
    ("limits", &[]),
    ("wire", &[]),
    ("auth", &["wire", "limits"]),
    ("conn", &["wire", "auth", "handler", "route", "limits"]),
    ("route", &["wire", "limits"]),
    ("handler", &["wire", "auth", "route", "limits"]),
    ("peer", &["wire", "limits"]),
    ("admin", &[]),
    ("client", &["wire"]),
    ("broker", &["*"]),
    ("lib", &["*"]),
];

/// What a module of `net` may name of `engine`; those without a row may name all.
const NET_TO_ENGINE: [(&str, &[&str]); 3] = [
    ("wire", &["types", "batch", "limits", "error", "io"]),
    ("client", &["types", "batch", "limits", "error", "io"]),
    ("admin", &["types", "metrics", "error"]),
];

/// What the sources of `bench` may name of `net`: a broker is seen through the protocol only.
const BENCH_TO_NET: [&str; 1] = ["client"];

/// Modules of `engine` that are only for what runs below its `shard`, and for the composition root.
const ENGINE_INNER: [&str; 1] = ["log"];

/// Modules of `net` that see all of `engine`, because they start it.
const ENGINE_STARTERS: [&str; 1] = ["broker"];

/// A crate depends only on the crates below it.
pub(super) fn crates(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let Some((name, allowed)) = CRATES.iter().find(|(name, _)| owns(path, name)) else { return };
    let mut section = "";
    for (at, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']);
        }
        let dependency =
            line.strip_prefix("millrace").filter(|_| section.ends_with("dependencies"));
        let Some(dependency) = dependency else { continue };
        let dependency = dependency.split(['.', ' ', '=']).next().unwrap_or("");
        let dependency = if dependency.is_empty() { "tools" } else { &dependency[1..] };
        let dev = DEV_CRATES.iter().find(|(krate, _)| krate == name).map_or(&[][..], |(_, to)| to);
        let dev = section == "dev-dependencies" && dev.contains(&dependency);
        if !dev && !allowed.contains(&dependency) {
            let text = format!("{name} must not depend on {dependency}");
            findings.push(Finding { path: path.to_owned(), line: at + 1, rule: "import", text });
        }
    }
}

fn owns(path: &str, krate: &str) -> bool {
    path.strip_suffix("/Cargo.toml") == Some(krate)
}

/// A module names only the modules below it.
pub(super) fn modules(source: &Source, findings: &mut Vec<Finding>) {
    let Some((krate, inside)) = source.path.split_once("/src/") else { return };
    let module = inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs");
    let mut push = |line: usize, text: String| {
        findings.push(Finding { path: source.path.clone(), line, rule: "import", text });
    };
    let table: &[(&str, &[&str])] = match krate {
        "engine" => &ENGINE,
        "net" => &NET,
        _ => &[("*", &["*"])],
    };
    let row = table.iter().find(|(name, _)| *name == module || *name == "*");
    let Some((_, own)) = row else {
        push(1, format!("module {module} has no row in the table of imports"));
        return;
    };
    for (line, root, named) in named_modules(source) {
        let allowed = match (krate, root) {
            (_, "crate") => named == module || is_allowed(own, &named),
            ("net", "millrace_engine") => engine_from_net(module, &named),
            ("bench", "millrace_net") => is_allowed(&BENCH_TO_NET, &named),
            ("bench", "millrace_engine") => false,
            _ => true,
        };
        if !allowed {
            push(line, format!("{krate}::{module} must not name {root}::{named}"));
        }
    }
}

fn is_allowed(row: &[&str], named: &str) -> bool {
    row.contains(&"*") || row.contains(&named)
}

fn engine_from_net(module: &str, named: &str) -> bool {
    match NET_TO_ENGINE.iter().find(|(name, _)| *name == module) {
        Some((_, row)) => is_allowed(row, named),
        None => !ENGINE_INNER.contains(&named) || ENGINE_STARTERS.contains(&module),
    }
}

/// Every `root::module` of the production code, with its line: paths, and `use root::{a, b::c}`.
fn named_modules(source: &Source) -> Vec<(usize, &'static str, String)> {
    let mut named = Vec::new();
    for (line, code) in source.production_code() {
        for root in ["crate", "millrace_engine", "millrace_net"] {
            for at in source::words(code, root) {
                let Some(behind) = code[at + root.len()..].strip_prefix("::") else { continue };
                let names = match behind.strip_prefix('{') {
                    Some(group) => group_names(source, line, group),
                    None => first_name(behind).into_iter().collect(),
                };
                let modules = names.into_iter().filter(|name| is_module(name));
                named.extend(modules.map(|name| (line, root, name)));
            }
        }
    }
    named
}

/// Modules are written small; an item re-exported at the root of a crate is not one.
fn is_module(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_lowercase())
}

fn first_name(text: &str) -> Option<String> {
    let name: String =
        text.trim_start().chars().take_while(|letter| source::is_name(*letter)).collect();
    (!name.is_empty()).then_some(name)
}

/// The first names of a `{...}` group that starts behind the brace and may span lines.
fn group_names(source: &Source, line: usize, group: &str) -> Vec<String> {
    let following = source.code[line..].iter().map(String::as_str);
    let text: Vec<&str> = std::iter::once(group).chain(following).collect();
    let (mut depth, mut names, mut part) = (0_usize, Vec::new(), String::new());
    for letter in text.join(" ").chars() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.extend(first_name(&std::mem::take(&mut part))),
            _ if depth == 0 => part.push(letter),
            _ => {}
        }
    }
    names.extend(first_name(&part));
    names
}
