//! Where unsafe code may stand, and that each use says why it is sound.

use super::{Finding, Source, source};

/// The only files, or folders, that may hold unsafe code, each with the reason.
const ALLOWED: [(&str, &str); 6] = [
    ("engine/src/io/buf.rs", "aligned memory that the kernel writes into"),
    ("engine/src/io/", "the ring, descriptors and wake-ups: the seam to the kernel"),
    ("tools/src/signal.rs", "signal handlers"),
    ("tests/src/kernel.rs", "limits, users and filters of a child process"),
    ("net/tests/wire/counting.rs", "an allocator that counts"),
    ("engine/tests/allocations.rs", "an allocator that counts"),
];

/// Lines above an `unsafe` in which its reason is looked for: the statement may start earlier.
const REACH_LINES: usize = 8;

/// Unsafe code stands in a listed file, below a `SAFETY` comment.
pub(super) fn unsafety(source: &Source, findings: &mut Vec<Finding>) {
    let allowed = ALLOWED.iter().any(|(path, _)| source.path.starts_with(path));
    for (at, code) in source.code.iter().enumerate() {
        for column in source::words(code, "unsafe") {
            let mut push = |text: &str| {
                let (path, text) = (source.path.clone(), text.to_owned());
                findings.push(Finding { path, line: at + 1, rule: "unsafe", text });
            };
            if !allowed {
                push("unsafe outside the listed files: use what engine::io offers");
            }
            if needs_reason(&code[column..]) && !has_reason(source, at) {
                push("no '// SAFETY:' line above: say why it is sound");
            }
        }
    }
}

/// A block or an implementation does; a signature states its contract in its documentation.
fn needs_reason(code: &str) -> bool {
    let behind = code["unsafe".len()..].trim_start();
    behind.is_empty() || behind.starts_with('{') || behind.starts_with("impl")
}

/// Whether a `SAFETY` comment stands on this line or above it, within the same statement.
fn has_reason(source: &Source, line: usize) -> bool {
    for above in (0..=line).rev().take(REACH_LINES) {
        if source.comments[above].contains("SAFETY:") {
            return true;
        }
        let code = source.code[above].trim_end();
        let comment = !source.comments[above].trim().is_empty();
        let ends_another = code.ends_with([';', '}']) || (code.is_empty() && !comment);
        if above != line && ends_another {
            return false;
        }
    }
    false
}
