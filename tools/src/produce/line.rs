//! From a line of input to the parts of a record, as `kafka-console-producer.sh` reads them.

use crate::failure::{Failure, Outcome};

/// What the lines of the input hold.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Between key and value; `None`: lines are values.
    pub key_separator: Option<String>,
    /// Between headers and what follows; `None`: lines have no headers.
    pub headers_delimiter: Option<String>,
    /// A key or value that reads so is null.
    pub null_marker: Option<String>,
    /// A line that lacks a separator is a value as a whole, and no error.
    pub ignore_error: bool,
}

/// A header, its value possibly null.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// The parts of a record, borrowed from its line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The key; `None` is null.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is null.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: Vec<Header<'a>>,
}

impl Layout {
    /// Takes line number `number` (from 1) apart.
    pub fn parse<'a>(&self, line: &'a [u8], number: u64) -> Outcome<Parts<'a>> {
        let mut rest = line;
        let mut parts = Parts::default();
        if let Some(delimiter) = &self.headers_delimiter {
            match split_once(rest, delimiter.as_bytes()) {
                Some((headers, behind)) => {
                    parts.headers = parse_headers(headers, number)?;
                    rest = behind;
                }
                None => self.tolerate(&format!("line {number} has no headers delimiter"))?,
            }
        }
        if let Some(separator) = &self.key_separator {
            match split_once(rest, separator.as_bytes()) {
                Some((key, behind)) => {
                    parts.key = self.or_null(key);
                    rest = behind;
                }
                None => self.tolerate(&format!("line {number} has no key separator"))?,
            }
        }
        parts.value = self.or_null(rest);
        Ok(parts)
    }

    fn or_null<'a>(&self, field: &'a [u8]) -> Option<&'a [u8]> {
        let null = self.null_marker.as_ref().is_some_and(|marker| marker.as_bytes() == field);
        (!null).then_some(field)
    }

    fn tolerate(&self, what: &str) -> Outcome {
        if self.ignore_error {
            return Ok(());
        }
        let advice = "add one, or give --property ignore.error=true to take the line as a value";
        Err(Failure::line(format!("{what}; {advice}")))
    }
}

fn parse_headers(text: &[u8], number: u64) -> Outcome<Vec<Header<'_>>> {
    text.split(|&byte| byte == b',')
        .filter(|header| !header.is_empty())
        .map(|header| match split_once(header, b":") {
            Some((name, value)) => Ok((name, Some(value))),
            None => Err(Failure::line(format!("line {number}: a header reads name:value"))),
        })
        .collect()
}

fn split_once<'a>(text: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    if separator.is_empty() {
        return None;
    }
    let at = text.windows(separator.len()).position(|window| window == separator)?;
    Some((text.get(..at)?, text.get(at + separator.len()..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_value_unless_told_otherwise() {
        let parts = Layout::default().parse(b"a\tb", 1).expect("a value");
        assert_eq!((parts.key, parts.value), (None, Some(&b"a\tb"[..])));
    }

    #[test]
    fn the_first_separator_ends_the_key() {
        let layout = Layout { key_separator: Some("::".into()), ..Layout::default() };
        let parts = layout.parse(b"k::v::w", 1).expect("both");
        assert_eq!((parts.key, parts.value), (Some(&b"k"[..]), Some(&b"v::w"[..])));
        assert!(layout.parse(b"kv", 2).is_err());
        let layout = Layout { ignore_error: true, ..layout };
        assert_eq!(layout.parse(b"kv", 2).expect("tolerated").key, None);
    }

    #[test]
    fn headers_come_first_and_nulls_are_marked() {
        let layout = Layout {
            key_separator: Some("=".into()),
            headers_delimiter: Some("\t".into()),
            null_marker: Some("NULL".into()),
            ignore_error: false,
        };
        let parts = layout.parse(b"a:1,b:2:3\tNULL=", 1).expect("all parts");
        let headers: [Header<'_>; 2] = [(b"a", Some(b"1")), (b"b", Some(b"2:3"))];
        assert_eq!(parts.headers, headers);
        assert_eq!((parts.key, parts.value), (None, Some(&b""[..])));
    }
}
