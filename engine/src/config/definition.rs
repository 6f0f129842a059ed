//! What a setting is: its name, type, bounds, default, the broker settings it falls back to, and
//! whether Millrace acts on it.
//!
//! Owns the rules that turn text into a checked [`Value`]; the names themselves are in the tables.
//! Texts of refusals follow Apache Kafka's, since clients print them.

use std::fmt;

/// The type of a setting, as DescribeConfigs names it (KIP-569).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// `true` or `false`.
    Boolean,
    /// Text.
    String,
    /// 32-bit integer.
    Int,
    /// 16-bit integer.
    Short,
    /// 64-bit integer.
    Long,
    /// Floating point number.
    Double,
    /// Comma separated list.
    List,
    /// Name of a Java class; never loaded here.
    Class,
    /// Text that is never shown.
    Password,
}

/// Type and bounds of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// `true` or `false`, in any case.
    Boolean,
    /// Integer of the given type between two bounds, both included.
    Integer(ValueType, i64, i64),
    /// Like an integer within bounds, but this one further value is allowed too.
    IntegerOr(i64, i64, i64),
    /// Number between two bounds, both included.
    Double(f64, f64),
    /// Any text.
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Any list of words.
    List,
    /// List of some of these words; one given twice counts once.
    ListOf(&'static [&'static str]),
    /// `*`, or a list of `partition:broker`.
    ThrottledReplicas,
    /// Name of a Java class.
    Class,
    /// Text that is never shown.
    Password,
}

/// Whether Millrace acts on a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Acted on.
    Honoured,
    /// Known, checked, reported and otherwise ignored; start says so once when it is set.
    Accepted,
    /// Known, and setting it stops the start: ignoring it would be dangerous.
    Refused(&'static str),
}

/// A broker setting whose value a topic setting takes when the topic does not set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synonym {
    /// Name of the broker setting.
    pub name: &'static str,
    /// The broker's value times this is the topic's (hours and minutes to milliseconds).
    pub factor: i64,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Kafka's name of it, or ours starting with `millrace.`.
    pub name: &'static str,
    /// Type and bounds.
    pub rule: Rule,
    /// Default as text; `None` where the setting has no value unless given.
    pub default: Option<&'static str>,
    /// Where a topic setting falls back to, first match first; for a broker setting the names
    /// that win over it.
    pub synonyms: &'static [Synonym],
    /// Whether Millrace acts on it.
    pub usage: Usage,
    /// One or two sentences for people.
    pub doc: &'static str,
}

/// A checked value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a [`Rule::Boolean`].
    Boolean(bool),
    /// Of an integer rule.
    Integer(i64),
    /// Of a [`Rule::Double`].
    Double(f64),
    /// Of a text, class or password rule.
    Text(String),
    /// Of a list rule.
    List(Vec<String>),
}

impl fmt::Display for Value {
    /// The value as Kafka prints it: canonical numbers, lists joined by commas.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => value.fmt(out),
            Self::Integer(value) => value.fmt(out),
            // `{:?}` keeps the `.0` of a whole number, as Java does.
            Self::Double(value) => write!(out, "{value:?}"),
            Self::Text(value) => out.write_str(value),
            Self::List(values) => out.write_str(&values.join(",")),
        }
    }
}

impl Rule {
    /// The type that DescribeConfigs reports.
    #[must_use]
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::Boolean => ValueType::Boolean,
            Self::Integer(kind, ..) => *kind,
            Self::IntegerOr(..) => ValueType::Int,
            Self::Double(..) => ValueType::Double,
            Self::Text | Self::OneOf(_) => ValueType::String,
            Self::List | Self::ListOf(_) | Self::ThrottledReplicas => ValueType::List,
            Self::Class => ValueType::Class,
            Self::Password => ValueType::Password,
        }
    }

    /// Checks `text` against the rule. The error is the reason alone, without name or value.
    pub fn check(&self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        match self {
            Self::Boolean => parse_boolean(text),
            Self::Integer(kind, least, most) => parse_integer(text, *kind, *least, *most),
            Self::IntegerOr(least, most, other) => {
                let value = parse_integer(text, ValueType::Int, i64::MIN, i64::MAX)?;
                if value == Value::Integer(*other) {
                    return Ok(value);
                }
                parse_integer(text, ValueType::Int, *least, *most).map_err(|_| {
                    format!("Value must be between {least} and {most} or equal to {other}")
                })
            }
            Self::Double(least, most) => parse_double(text, *least, *most),
            Self::Text | Self::Class | Self::Password => Ok(Value::Text(text.to_owned())),
            Self::OneOf(words) => parse_word(text, words),
            Self::List => Ok(Value::List(split_list(text))),
            Self::ListOf(words) => parse_words(text, words),
            Self::ThrottledReplicas => parse_throttled(text),
        }
    }

    /// Valid values in a few words, for the documentation; empty where any will do.
    #[must_use]
    pub fn valid_values(&self) -> String {
        match self {
            Self::Integer(kind, least, most) => bounds(*kind, *least, *most),
            Self::IntegerOr(least, most, other) => format!("{least} to {most}, or {other}"),
            Self::Double(least, most) if *most < f64::MAX => format!("{least} to {most}"),
            Self::OneOf(words) | Self::ListOf(words) => words.join(", "),
            Self::ThrottledReplicas => "`*` or partition:broker,...".to_owned(),
            _ => String::new(),
        }
    }
}

fn bounds(kind: ValueType, least: i64, most: i64) -> String {
    let (type_least, type_most) = type_bounds(kind);
    match (least > type_least, most < type_most) {
        (false, false) => String::new(),
        (true, false) => format!("at least {least}"),
        (false, true) => format!("at most {most}"),
        (true, true) => format!("{least} to {most}"),
    }
}

fn type_bounds(kind: ValueType) -> (i64, i64) {
    match kind {
        ValueType::Short => (i64::from(i16::MIN), i64::from(i16::MAX)),
        ValueType::Int => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

fn parse_boolean(text: &str) -> Result<Value, String> {
    if text.eq_ignore_ascii_case("true") {
        Ok(Value::Boolean(true))
    } else if text.eq_ignore_ascii_case("false") {
        Ok(Value::Boolean(false))
    } else {
        Err("Expected value to be either true or false".to_owned())
    }
}

fn parse_integer(text: &str, kind: ValueType, least: i64, most: i64) -> Result<Value, String> {
    let (type_least, type_most) = type_bounds(kind);
    let name = match kind {
        ValueType::Short => "SHORT",
        ValueType::Int => "INT",
        _ => "LONG",
    };
    let value = text
        .parse::<i64>()
        .ok()
        .filter(|value| (type_least..=type_most).contains(value))
        .ok_or_else(|| format!("Not a number of type {name}"))?;
    if value < least {
        return Err(format!("Value must be at least {least}"));
    }
    if value > most {
        return Err(format!("Value must be no more than {most}"));
    }
    Ok(Value::Integer(value))
}

fn parse_double(text: &str, least: f64, most: f64) -> Result<Value, String> {
    let value = text
        .parse::<f64>()
        .ok()
        .filter(|value| value.is_finite())
        .ok_or_else(|| "Not a number of type DOUBLE".to_owned())?;
    if value < least {
        return Err(format!("Value must be at least {least}"));
    }
    if value > most {
        return Err(format!("Value must be no more than {most}"));
    }
    Ok(Value::Double(value))
}

fn parse_word(text: &str, words: &[&str]) -> Result<Value, String> {
    if words.contains(&text) {
        return Ok(Value::Text(text.to_owned()));
    }
    Err(format!("String must be one of: {}", words.join(", ")))
}

fn parse_words(text: &str, words: &[&str]) -> Result<Value, String> {
    let mut list: Vec<String> = Vec::new();
    for word in split_list(text) {
        if !words.contains(&word.as_str()) {
            return Err(format!("String must be one of: {}", words.join(", ")));
        }
        // A word given twice counts once, as in Kafka.
        if !list.contains(&word) {
            list.push(word);
        }
    }
    Ok(Value::List(list))
}

fn parse_throttled(text: &str) -> Result<Value, String> {
    let list = split_list(text);
    let all = list.len() == 1 && list.first().is_some_and(|word| word == "*");
    let pair = |word: &String| {
        word.split_once(':')
            .is_some_and(|(left, right)| is_number(left.trim()) && is_number(right.trim()))
    };
    if all || list.iter().all(pair) {
        return Ok(Value::List(list));
    }
    Err("Must be the literal '*' or a list of replicas in the following format: \
         [partitionId]:[brokerId],[partitionId]:[brokerId],..."
        .to_owned())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The items of a comma separated list, trimmed; an empty text is the empty list.
pub(super) fn split_list(text: &str) -> Vec<String> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    text.split(',').map(|item| item.trim().to_owned()).collect()
}
