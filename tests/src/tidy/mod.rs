//! The house rules as functions over a path and a text.
//!
//! Owns: every rule that neither the compiler, rustfmt nor clippy can hold. Knows nothing of git;
//! [`read_tree`] lists the files. Invariant: a rule sees code with strings and comments blanked, so
//! that no rule is set off by the text of another. A file that cannot be split into code and
//! comments (an unclosed string) is still checked up to that point.

mod density;
mod homes;
mod imports;
mod sizes;
mod source;
mod tree;
mod unsafety;
mod words;

pub use density::{Density, densities};
pub use source::Source;
pub use tree::{Tree, read_tree};

use std::fmt;

/// One breach of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// File, relative to the root of the repository.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// The rule's short name, as in [`RULES`].
    pub rule: &'static str,
    /// What is wrong and what to do.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}: {}", self.path, self.line, self.rule, self.text)
    }
}

/// A rule over one Rust file.
type Rule = fn(&Source, &mut Vec<Finding>);

/// Every rule over a Rust file, with its short name.
pub const RULES: [(&str, Rule); 11] = [
    ("file-size", sizes::file),
    ("function-size", sizes::function),
    ("line-width", sizes::line),
    ("test-size", sizes::inline_tests),
    ("name", words::name),
    ("unwrap", words::unwrap),
    ("leftover", words::leftover),
    ("unsafe", unsafety::unsafety),
    ("import", imports::modules),
    ("package", homes::packages),
    ("error-code", homes::error_codes),
];

/// All findings in one file: a Rust source, or a `Cargo.toml`; any other gets the name rule only.
#[must_use]
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if path.ends_with(".rs") {
        let source = Source::new(path, text);
        for (_, rule) in RULES {
            rule(&source, &mut findings);
        }
    } else if path.ends_with("Cargo.toml") {
        imports::crates(path, text, &mut findings);
    } else {
        words::name(&Source::new(path, ""), &mut findings);
    }
    findings
}
