//! Where `--offset` says to start.

use std::str::FromStr;

use millrace_net::client::{admin::OffsetSpec, consumer::Consumer, error::Result};

/// A place to start reading a partition at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The first record still there.
    Earliest,
    /// Behind the last.
    Latest,
    /// An offset.
    At(i64),
    /// So many records before the end.
    BeforeEnd(i64),
    /// The first record of this time, in ms, or later.
    Time(i64),
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || "give a number, earliest, latest, -N or timestamp:MS".to_owned();
        match text {
            "earliest" | "beginning" => return Ok(Self::Earliest),
            "latest" | "end" => return Ok(Self::Latest),
            _ => {}
        }
        if let Some(time) = text.strip_prefix("timestamp:").or(text.strip_prefix("s@")) {
            return time.parse().map(Self::Time).map_err(|_| wrong());
        }
        match text.parse::<i64>().map_err(|_| wrong())? {
            offset if offset < 0 => Ok(Self::BeforeEnd(offset.saturating_neg())),
            offset => Ok(Self::At(offset)),
        }
    }
}

impl Start {
    /// The offset it stands for in one partition, now.
    pub fn resolve(self, consumer: &mut Consumer, topic: &str, partition: i32) -> Result<i64> {
        let spec = match self {
            Self::At(offset) => return Ok(offset),
            Self::Earliest => OffsetSpec::Earliest,
            Self::Time(timestamp_ms) => OffsetSpec::Timestamp(timestamp_ms),
            Self::Latest | Self::BeforeEnd(_) => OffsetSpec::Latest,
        };
        let found = consumer.offset(topic, partition, spec)?.offset;
        match self {
            // No record is that late.
            Self::Time(_) if found < 0 => Self::Latest.resolve(consumer, topic, partition),
            Self::BeforeEnd(count) => {
                let first = consumer.offset(topic, partition, OffsetSpec::Earliest)?.offset;
                Ok(found.saturating_sub(count).max(first))
            }
            _ => Ok(found),
        }
    }

    /// Moves `consumer` there.
    pub fn seek(self, consumer: &mut Consumer, topic: &str, partition: i32) -> Result<()> {
        let offset = self.resolve(consumer, topic, partition)?;
        consumer.seek(topic, partition, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_form() {
        let cases = [
            ("earliest", Start::Earliest),
            ("latest", Start::Latest),
            ("17", Start::At(17)),
            ("-5", Start::BeforeEnd(5)),
            ("timestamp:99", Start::Time(99)),
        ];
        for (text, start) in cases {
            assert_eq!(text.parse(), Ok(start));
        }
        assert!("soon".parse::<Start>().is_err());
    }
}
