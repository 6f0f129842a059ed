//! `name=value` as Kafka's scripts take settings.

use crate::failure::{Failure, Outcome};

/// Splits `name=value`, given to `flag`; a value may be empty and may hold `=`.
pub fn parse(flag: &str, setting: &str) -> Outcome<(String, String)> {
    match setting.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Failure::line(format!("{flag} {setting}: give name=value"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_be_empty_or_hold_an_equals_sign() {
        assert_eq!(parse("--config", "a=").expect("empty"), ("a".to_owned(), String::new()));
        assert_eq!(parse("--config", "a=b=c").expect("two"), ("a".to_owned(), "b=c".to_owned()));
        assert!(parse("--config", "a").is_err());
        assert!(parse("--config", "=b").is_err());
    }
}
