//! How a record is printed: kcat's format strings.
//!
//! `%t` topic, `%p` partition, `%o` offset, `%k` key, `%v` or `%s` value, `%T` timestamp in ms,
//! `%h` headers as `name=value,...`, `%K` and `%S` the lengths of key and value in bytes (-1 for
//! null), `%%` a percent sign; `\n`, `\t`, `\r`, `\\`, `\xNN`.

use millrace_net::client::consumer::RecordView;

use crate::failure::{Failure, Outcome};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Key,
    Value,
    Timestamp,
    Headers,
    KeyLength,
    ValueLength,
}

/// A format, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    pieces: Vec<Piece>,
    null: Vec<u8>,
}

impl Format {
    /// Understands `text`; null keys and values will print as `null`.
    pub fn parse(text: &str, null: &str) -> Outcome<Self> {
        let mut pieces = Vec::new();
        let mut literal = Vec::new();
        let mut rest = text.chars();
        while let Some(next) = rest.next() {
            match next {
                '%' => match placeholder(rest.next())? {
                    Piece::Text(text) => literal.extend(text),
                    piece => {
                        push_text(&mut pieces, &mut literal);
                        pieces.push(piece);
                    }
                },
                '\\' => literal.push(escape(&mut rest)?),
                other => literal.extend(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        push_text(&mut pieces, &mut literal);
        Ok(Self { pieces, null: null.as_bytes().to_vec() })
    }

    /// Adds `record` to `out`, formatted.
    pub fn print(&self, record: &RecordView<'_>, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Topic => out.extend_from_slice(record.topic.as_bytes()),
                Piece::Partition => number(record.partition, out),
                Piece::Offset => number(record.offset, out),
                Piece::Timestamp => number(record.timestamp_ms, out),
                Piece::Key => out.extend_from_slice(record.key.unwrap_or(&self.null)),
                Piece::Value => out.extend_from_slice(record.value.unwrap_or(&self.null)),
                Piece::KeyLength => length(record.key, out),
                Piece::ValueLength => length(record.value, out),
                Piece::Headers => self.headers(record, out),
            }
        }
    }

    fn headers(&self, record: &RecordView<'_>, out: &mut Vec<u8>) {
        for (index, (name, value)) in record.headers.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(name);
            out.push(b'=');
            out.extend_from_slice(value.unwrap_or(&self.null));
        }
    }
}

fn placeholder(letter: Option<char>) -> Outcome<Piece> {
    Ok(match letter {
        Some('t') => Piece::Topic,
        Some('p') => Piece::Partition,
        Some('o') => Piece::Offset,
        Some('k') => Piece::Key,
        Some('v' | 's') => Piece::Value,
        Some('T') => Piece::Timestamp,
        Some('h') => Piece::Headers,
        Some('K') => Piece::KeyLength,
        Some('S') => Piece::ValueLength,
        Some('%') => Piece::Text(b"%".to_vec()),
        Some(other) => {
            return Err(Failure::line(format!(
                "--format: %{other} is unknown; there are %t %p %o %k %v %T %h %K %S %%"
            )));
        }
        None => return Err(Failure::line("--format: a lone % at the end; write %% for a percent")),
    })
}

fn escape(rest: &mut std::str::Chars<'_>) -> Outcome<u8> {
    Ok(match rest.next() {
        Some('n') => b'\n',
        Some('t') => b'\t',
        Some('r') => b'\r',
        Some('0') => 0,
        Some('\\') => b'\\',
        Some('x') => {
            let digits: String = rest.by_ref().take(2).collect();
            u8::from_str_radix(&digits, 16).map_err(|_| {
                Failure::line(format!("--format: \\x{digits} is no byte; give \\x41"))
            })?
        }
        other => {
            let shown = other.map(String::from).unwrap_or_default();
            let message =
                format!("--format: \\{shown} is unknown; there are \\n \\t \\r \\0 \\xNN \\\\");
            return Err(Failure::line(message));
        }
    })
}

fn push_text(pieces: &mut Vec<Piece>, literal: &mut Vec<u8>) {
    if !literal.is_empty() {
        pieces.push(Piece::Text(std::mem::take(literal)));
    }
}

fn number(value: impl std::fmt::Display, out: &mut Vec<u8>) {
    out.extend_from_slice(value.to_string().as_bytes());
}

fn length(field: Option<&[u8]>, out: &mut Vec<u8>) {
    match field {
        Some(bytes) => number(bytes.len(), out),
        None => out.extend_from_slice(b"-1"),
    }
}

#[cfg(test)]
mod tests {
    use millrace_engine::batch::{BatchBuilder, BatchOptions, HEADER_BYTES, NewRecord, Records};

    use super::*;

    fn printed(format: &str, key: Option<&[u8]>, value: Option<&[u8]>) -> String {
        let mut builder = BatchBuilder::new();
        let headers: &[(&[u8], Option<&[u8]>)] = &[(b"a", Some(b"1")), (b"b", None)];
        builder.push(&NewRecord { timestamp_ms: 5, key, value, headers }).expect("small");
        let mut bytes = Vec::new();
        let header = builder.finish(&BatchOptions::default(), &mut bytes).expect("a record");
        let mut records = Records::new(&header, &bytes[HEADER_BYTES..]);
        let record = records.next().expect("one").expect("sound");
        let view = RecordView {
            topic: "t",
            partition: 3,
            offset: 42,
            timestamp_ms: 5,
            key: record.key,
            value: record.value,
            headers: record.headers,
        };
        let mut out = Vec::new();
        Format::parse(format, "NULL").expect("a good format").print(&view, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn prints_what_the_letters_say() {
        let all = r"%t-%p@%o %k=%v (%K,%S) %T %h 100%%\x21\n";
        assert_eq!(
            printed(all, Some(b"key"), Some(b"value")),
            "t-3@42 key=value (3,5) 5 a=1,b=NULL 100%!\n"
        );
    }

    #[test]
    fn null_is_told_from_empty() {
        assert_eq!(printed("%k|%v|%K|%S", None, Some(b"")), "NULL||-1|0");
    }

    #[test]
    fn says_what_there_is_when_a_letter_is_unknown() {
        for bad in ["%q", "%", r"\q", r"\xzz"] {
            assert!(Format::parse(bad, "").is_err(), "{bad}");
        }
    }
}
