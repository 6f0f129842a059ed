//! Finds the known name that a mistyped one most likely meant.

/// The candidate nearest to `word` by edit distance, unless all are too far off to be meant.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    // A third of the letters wrong is a typing error; more is another word.
    let limit = (word.len() / 3).max(2);
    candidates
        .map(|candidate| (distance(word.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and substitutions that turn one text into the other. Words longer than
/// any setting's name are cut, so that a hostile one costs nothing.
fn distance(left: &[u8], right: &[u8]) -> usize {
    const LONGEST: usize = 128;
    let left = left.get(..LONGEST).unwrap_or(left);
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, from) in left.iter().enumerate() {
        let mut diagonal = line;
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
        let mut before = line + 1;
        for (cell, to) in row.iter_mut().skip(1).zip(right) {
            let replaced = diagonal + usize::from(from != to);
            diagonal = *cell;
            *cell = replaced.min(diagonal + 1).min(before + 1);
            before = *cell;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance(b"", b"abc"), 3);
        assert_eq!(distance(b"abc", b""), 3);
        assert_eq!(distance(b"kitten", b"sitting"), 3);
        assert_eq!(distance(b"flaw", b"lawn"), 2);
    }

    #[test]
    fn meant_or_not() {
        let known = ["retention.ms", "retention.bytes", "segment.ms"];
        assert_eq!(nearest("retentoin.ms", known.into_iter()), Some("retention.ms"));
        assert_eq!(nearest("retention.byte", known.into_iter()), Some("retention.bytes"));
        assert_eq!(nearest("colour", known.into_iter()), None);
    }
}
