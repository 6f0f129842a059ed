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

#[cfg(test)]
mod tests {
    use super::*;

    /// Each file with what `java.util.Properties.load` (Java 17) makes of it.
    const GOLDEN: [(&str, &[(&str, &str)]); 26] = [
        ("a=b", &[("a", "b")]),
        ("a:b", &[("a", "b")]),
        ("a b", &[("a", "b")]),
        ("a\tb", &[("a", "b")]),
        ("  a  =  b  ", &[("a", "b  ")]),
        ("a", &[("a", "")]),
        ("a=", &[("a", "")]),
        ("=b", &[("", "b")]),
        ("a==b", &[("a", "=b")]),
        ("a=:b", &[("a", ":b")]),
        ("a = = b", &[("a", "= b")]),
        ("#c\na=1", &[("a", "1")]),
        ("!c\na=1", &[("a", "1")]),
        (" # c\na=1", &[("a", "1")]),
        ("a=1\\\n   2", &[("a", "12")]),
        ("a=1\\\\\nb=2", &[("a", "1\\"), ("b", "2")]),
        ("a\\=b=c", &[("a=b", "c")]),
        ("a\\ b=c", &[("a b", "c")]),
        ("a=\\u0041\\u00e9", &[("a", "A\u{e9}")]),
        ("a=\\uD83D\\uDE00", &[("a", "\u{1f600}")]),
        ("a=\\t\\n\\r\\f\\z", &[("a", "\t\n\r\x0cz")]),
        ("a=1\r\nb=2", &[("a", "1"), ("b", "2")]),
        ("a=b # no comment", &[("a", "b # no comment")]),
        ("a=1\\", &[("a", "1")]),
        ("a=x\\\n#y", &[("a", "x#y")]),
        ("a=\\\n\\\n b", &[("a", "b")]),
    ];

    #[test]
    fn files_read_as_in_java() {
        for (text, expected) in GOLDEN {
            let properties = parse(text).expect("well formed");
            let pairs: Vec<_> =
                properties.iter().map(|it| (it.name.as_str(), it.value.as_str())).collect();
            assert_eq!(pairs, expected, "{text:?}");
        }
    }

    #[test]
    fn lines_are_counted_over_comments_and_continuations() {
        let properties = parse("#\n\na=1\\\n2\nb=3\r\n\nc=4").expect("well formed");
        let lines: Vec<_> = properties.iter().map(|it| it.line).collect();
        assert_eq!(lines, [3, 5, 7]);
        assert_eq!(parse("a=1\n\nb=\\u00g0").expect_err("malformed").0, 3);
        assert!(parse("a=\\ud83dx").is_err() && parse("a=\\ude00").is_err());
    }

    /// Whatever is escaped as Java's `Properties.store` does reads back as it was.
    #[test]
    fn escaped_texts_read_back() {
        const LETTERS: [char; 16] = [
            'a',
            '.',
            ' ',
            '=',
            ':',
            '#',
            '!',
            '\\',
            '\n',
            '\r',
            '\t',
            '\x0c',
            'u',
            '0',
            '\u{e9}',
            '\u{1f600}',
        ];
        let mut random = 11_u64;
        for _ in 0..5000 {
            let mut word = || {
                let mut text = String::new();
                for _ in 0..8 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    text.push(LETTERS[usize::try_from(random % 16).expect("below 16")]);
                }
                text
            };
            let (name, value) = (word(), word());
            let text = format!("{}={}\n", escape(&name), escape(&value));
            let expected = Property { line: 1, name, value };
            assert_eq!(parse(&text), Ok(vec![expected]), "{text:?}");
            // Unescaped it may mean anything, but never panics.
            drop(parse(&word()));
        }
    }

    fn escape(text: &str) -> String {
        let mut out = String::new();
        for letter in text.chars() {
            match letter {
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\x0c' => out.push_str("\\f"),
                'a'..='z' | '.' | '0' => out.push(letter),
                _ if letter.is_ascii() => out.extend(['\\', letter]),
                _ => {
                    let mut units = [0; 2];
                    for unit in letter.encode_utf16(&mut units) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
            }
        }
        out
    }
}
