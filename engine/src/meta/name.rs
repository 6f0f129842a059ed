//! Which names a topic may have (protocol section 4.7).

/// Longest name of a topic, in bytes: a partition's directory name must fit a file system's 255.
pub(super) const NAME_BYTES_MAX: usize = 249;

/// Kafka's name of the topic of cluster metadata, which nobody may make.
pub(super) const CLUSTER_METADATA: &str = "__cluster_metadata";

/// Why `name` is not a topic's name, in Kafka's words.
pub fn check(name: &str) -> Result<(), String> {
    let reason = if name.is_empty() {
        "the empty string is not allowed".to_owned()
    } else if name == "." || name == ".." {
        format!("'{name}' is not allowed")
    } else if name.len() > NAME_BYTES_MAX {
        // The name came from a client: it is not repeated at its full length.
        format!("the length of the name is longer than the max allowed length {NAME_BYTES_MAX}")
    } else if !name.bytes().all(is_allowed) {
        format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' \
             and '-'"
        )
    } else {
        return Ok(());
    };
    Err(format!("Topic name is invalid: {reason}"))
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

/// The form in which two names that differ in `.` and `_` alone are the same: Kafka's metric names
/// cannot tell them apart.
pub(super) fn folded(name: &str) -> String {
    name.replace('.', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "A.b_c-9", "...", &"x".repeat(249)] {
            assert_eq!(check(good), Ok(()));
        }
        for bad in ["", ".", "..", "a b", "a/b", "\u{e9}", "a\0", &"x".repeat(250)] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert_eq!(folded("a.b_c"), folded("a_b.c"));
    }
}
