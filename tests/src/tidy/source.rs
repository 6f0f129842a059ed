//! A Rust file split into code and comments, without a parser.
//!
//! Owns the lexical truth that the rules share: what is code, what is comment, what is test.
//! Knows no rule. Invariant: the blanked texts keep every line break, so lines match the original.

/// A file as the rules see it.
#[derive(Debug)]
pub struct Source {
    /// Path relative to the root of the repository.
    pub path: String,
    /// Lines as written.
    pub raw: Vec<String>,
    /// Lines with comments and the insides of literals blanked.
    pub code: Vec<String>,
    /// Lines with everything but comments blanked.
    pub comments: Vec<String>,
    /// Per line, whether it belongs to a test module, or to a file that is all test.
    pub is_test: Vec<bool>,
}

impl Source {
    /// Splits `text`, found at `path`.
    #[must_use]
    pub fn new(path: &str, text: &str) -> Self {
        let (code, comments) = split(text);
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let code = lines(&code);
        let is_test = if is_test_file(path) { vec![true; code.len()] } else { test_lines(&code) };
        Self { path: path.to_owned(), raw: lines(text), code, comments: lines(&comments), is_test }
    }

    /// Lines that are not test code.
    #[must_use]
    pub fn production_lines(&self) -> usize {
        self.is_test.iter().filter(|is_test| !**is_test).count()
    }

    /// Code lines with their number from 1, test code left out.
    pub fn production_code(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.code.iter().enumerate();
        numbered.filter(|(at, _)| !self.is_test[*at]).map(|(at, line)| (at + 1, line.as_str()))
    }
}

/// A file that is test code from its first line: a suite, or a module of tests beside its subject.
fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name == "tests.rs"
        || path.starts_with("tests/suites/")
        || path
            .split('/')
            .rev()
            .skip(1)
            .any(|folder| folder == "tests" && !path.starts_with(folder))
}

/// Marks the lines of each `#[cfg(test)]` item that has a body.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut marks = vec![false; code.len()];
    let mut at = 0;
    while at < code.len() {
        if code[at].contains("#[cfg(test)]") {
            let end = item_end(code, at);
            marks[at..=end].fill(true);
            at = end;
        }
        at += 1;
    }
    marks
}

/// Last line of the item that starts at line `start`: where its braces close, or its semicolon.
fn item_end(code: &[String], start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, line) in code.iter().enumerate().skip(start) {
        for letter in line.chars() {
            match letter {
                '{' => depth += 1,
                '}' if depth <= 1 => return at,
                '}' => depth -= 1,
                ';' if depth == 0 => return at,
                _ => {}
            }
        }
    }
    code.len() - 1
}

/// Whether the character can be part of a name.
#[must_use]
pub fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The byte positions at which `word` stands alone in `line`.
pub fn words<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    line.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = line[..*at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

/// The text twice: code only, and comments only.
fn split(text: &str) -> (String, String) {
    let letters: Vec<char> = text.chars().collect();
    let (mut code, mut comments) = (String::new(), String::new());
    let mut at = 0;
    while at < letters.len() {
        let rest = &letters[at..];
        let (comment, literal) = (comment_length(rest), literal_length(&letters, at));
        let taken = &rest[..comment.or(literal).unwrap_or(1)];
        let keep = |kept: bool| {
            taken.iter().map(move |letter| if kept || *letter == '\n' { *letter } else { ' ' })
        };
        code.extend(keep(comment.or(literal).is_none()));
        comments.extend(keep(comment.is_some()));
        at += taken.len();
    }
    (code, comments)
}

/// Length of the comment that starts here, if one does. Block comments nest.
fn comment_length(letters: &[char]) -> Option<usize> {
    match letters {
        ['/', '/', ..] => Some(letters.iter().take_while(|letter| **letter != '\n').count()),
        ['/', '*', ..] => Some(block_length(letters)),
        _ => None,
    }
}

fn block_length(letters: &[char]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < letters.len() {
        match letters[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] if depth == 1 => return at + 2,
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    letters.len()
}

/// Length of the string or character literal whose quote is at `at`, if one is.
fn literal_length(letters: &[char], at: usize) -> Option<usize> {
    let rest = &letters[at..];
    match rest {
        ['"', ..] => Some(text_length(rest, raw_fence(letters, at))),
        ['\'', '\\', _, ..] => {
            let close = rest[3..].iter().position(|letter| *letter == '\'');
            close.map(|close| close + 4)
        }
        ['\'', _, '\'', ..] => Some(3),
        _ => None,
    }
}

/// The number of `#` of a raw string whose quote is at `at`; none for one with escapes.
fn raw_fence(letters: &[char], at: usize) -> Option<usize> {
    let fence = letters[..at].iter().rev().take_while(|letter| **letter == '#').count();
    let before = at.checked_sub(fence + 1).map(|before| letters[before]);
    (before == Some('r')).then_some(fence)
}

fn text_length(letters: &[char], fence: Option<usize>) -> usize {
    let mut at = 1;
    while at < letters.len() {
        match (letters[at], fence) {
            ('\\', None) => at += 1,
            ('"', None) => return at + 1,
            ('"', Some(count)) => {
                let behind = &letters[at + 1..];
                if behind.iter().take_while(|letter| **letter == '#').count() >= count {
                    return at + 1 + count;
                }
            }
            _ => {}
        }
        at += 1;
    }
    letters.len()
}
