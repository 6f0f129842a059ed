//! How long a file, a function, a line and an inline test module may be.

use super::{Finding, Source, source};

/// Production lines of a file.
const FILE_LINES: usize = 600;
/// Lines of a file that is all test.
const TEST_FILE_LINES: usize = 1200;
/// Lines of a function, signature and closing brace included.
const FUNCTION_LINES: usize = 60;
/// Columns of a line.
const COLUMNS: usize = 100;
/// Lines of a test module inside a production file.
const INLINE_TEST_LINES: usize = 150;

/// A file is short enough to be read in one sitting.
pub(super) fn file(source: &Source, findings: &mut Vec<Finding>) {
    let production = source.production_lines();
    let (lines, most, what) = if production == 0 {
        (source.raw.len(), TEST_FILE_LINES, "lines of test")
    } else {
        (production, FILE_LINES, "production lines")
    };
    if lines > most {
        let text = format!("{lines} {what}, at most {most}: split it by what it owns");
        findings.push(finding(source, 1, "file-size", text));
    }
}

/// A test module that outgrew its subject moves to a sibling `tests.rs`.
pub(super) fn inline_tests(source: &Source, findings: &mut Vec<Finding>) {
    let lines = source.raw.len() - source.production_lines();
    if source.production_lines() > 0 && lines > INLINE_TEST_LINES {
        let text =
            format!("{lines} lines of inline tests, at most {INLINE_TEST_LINES}: move to tests.rs");
        findings.push(finding(source, 1, "test-size", text));
    }
}

/// No line needs scrolling.
pub(super) fn line(source: &Source, findings: &mut Vec<Finding>) {
    for (at, line) in source.raw.iter().enumerate() {
        let columns = line.chars().count();
        if columns > COLUMNS {
            let text = format!("{columns} columns, at most {COLUMNS}");
            findings.push(finding(source, at + 1, "line-width", text));
        }
    }
}

/// A function does one thing and fits a screen.
pub(super) fn function(source: &Source, findings: &mut Vec<Finding>) {
    for (at, line) in source.code.iter().enumerate() {
        for column in source::words(line, "fn") {
            let Some(name) = function_name(&line[column + 2..]) else { continue };
            let Some(end) = body_end(&source.code, at, column) else { continue };
            let lines = end - at + 1;
            if lines > FUNCTION_LINES {
                let text = format!("fn {name} has {lines} lines, at most {FUNCTION_LINES}");
                findings.push(finding(source, at + 1, "function-size", text));
            }
        }
    }
}

/// The name behind `fn`; none for a function type such as `fn(u8)`.
fn function_name(behind: &str) -> Option<String> {
    let name: String =
        behind.trim_start().chars().take_while(|letter| source::is_name(*letter)).collect();
    (!name.is_empty()).then_some(name)
}

/// The line on which the body of the function at this place closes; none for a mere declaration.
fn body_end(code: &[String], line: usize, column: usize) -> Option<usize> {
    let (mut nested, mut braces) = (0_usize, 0_usize);
    for (at, text) in code.iter().enumerate().skip(line) {
        let from = if at == line { column } else { 0 };
        for letter in text[from..].chars() {
            match letter {
                '(' | '[' => nested += 1,
                ')' | ']' => nested = nested.saturating_sub(1),
                ';' if nested == 0 && braces == 0 => return None,
                '{' => braces += 1,
                '}' if braces <= 1 => return Some(at),
                '}' => braces -= 1,
                _ => {}
            }
        }
    }
    None
}

fn finding(source: &Source, line: usize, rule: &'static str, text: String) -> Finding {
    Finding { path: source.path.clone(), line, rule, text }
}
