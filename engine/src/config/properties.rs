//! Java's `.properties` syntax, as `server.properties` files are written.
//!
//! Owns the syntax alone: names and values are not looked at. Rules are those of
//! `java.util.Properties.load`: `#` and `!` comments, `=`, `:` or white space between name and
//! value, backslash escapes, `\uXXXX`, and lines continued by a backslash at their end.

use std::{iter::Peekable, str::Chars};

/// One setting of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// Line of the file that it starts on, from 1.
    pub line: usize,
    /// Its name, unescaped.
    pub name: String,
    /// Its value, unescaped, without leading white space.
    pub value: String,
}

/// The settings of a file in order. An error is the line and what is wrong with it.
pub fn parse(text: &str) -> Result<Vec<Property>, (usize, String)> {
    let mut properties = Vec::new();
    let mut lines = text.split('\n').enumerate().map(|(at, line)| {
        // A carriage return alone also ends a line in Java; none such has been seen in practice.
        (at + 1, line.strip_suffix('\r').unwrap_or(line))
    });
    while let Some((number, line)) = lines.next() {
        let mut logical = trim_start(line).to_owned();
        if logical.is_empty() || logical.starts_with(['#', '!']) {
            continue;
        }
        while is_continued(&logical) {
            logical.pop();
            match lines.next() {
                Some((_, next)) => logical.push_str(trim_start(next)),
                None => break,
            }
        }
        let (name, value) = split(&logical).map_err(|reason| (number, reason))?;
        properties.push(Property { line: number, name, value });
    }
    Ok(properties)
}

const WHITE_SPACE: [char; 3] = [' ', '\t', '\x0c'];

fn trim_start(line: &str) -> &str {
    line.trim_start_matches(WHITE_SPACE)
}

/// Whether the line ends in an odd number of backslashes: an even number are escaped ones.
fn is_continued(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

fn split(line: &str) -> Result<(String, String), String> {
    let mut rest = line.chars().peekable();
    let mut name = String::new();
    while let Some(next) = rest.peek().copied() {
        if next == '=' || next == ':' || WHITE_SPACE.contains(&next) {
            break;
        }
        rest.next();
        name.push(if next == '\\' { escaped(&mut rest)? } else { next });
    }
    skip_white_space(&mut rest);
    if rest.next_if(|next| matches!(next, '=' | ':')).is_some() {
        skip_white_space(&mut rest);
    }
    let mut value = String::new();
    while let Some(next) = rest.next() {
        value.push(if next == '\\' { escaped(&mut rest)? } else { next });
    }
    Ok((name, value))
}

fn skip_white_space(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|next| WHITE_SPACE.contains(next)).is_some() {}
}

/// The character that an escape stands for, its backslash already taken.
fn escaped(rest: &mut Peekable<Chars<'_>>) -> Result<char, String> {
    match rest.next() {
        Some('t') => Ok('\t'),
        Some('n') => Ok('\n'),
        Some('r') => Ok('\r'),
        Some('f') => Ok('\x0c'),
        Some('u') => unicode(rest),
        Some(other) => Ok(other),
        // A lone backslash at the very end of the file: Java drops it.
        None => Ok(' '),
    }
}

/// The character of `\uXXXX`; two of them may be the halves of one UTF-16 pair.
fn unicode(rest: &mut Peekable<Chars<'_>>) -> Result<char, String> {
    let first = four_digits(rest)?;
    if let Some(character) = char::from_u32(first) {
        return Ok(character);
    }
    let broken = || "a \\u escape is half of a pair".to_owned();
    if rest.next() != Some('\\') || rest.next() != Some('u') {
        return Err(broken());
    }
    let pair = [first, four_digits(rest)?].map(|unit| u16::try_from(unit).unwrap_or(0));
    char::decode_utf16(pair).next().and_then(Result::ok).ok_or_else(broken)
}

fn four_digits(rest: &mut Peekable<Chars<'_>>) -> Result<u32, String> {
    let mut value = 0;
    for _ in 0..4 {
        let digit = rest.next().and_then(|digit| digit.to_digit(16));
        value = value * 16 + digit.ok_or_else(|| "malformed \\uXXXX escape".to_owned())?;
    }
    Ok(value)
}
