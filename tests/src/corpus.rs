//! Real text to send: the lines of what the host ships as documentation and data.
//!
//! Owns the choice of files and the pace. Invariant: every line is valid UTF-8 without a NUL or a
//! line break, so that it is one record to a tool that reads lines; the order of files is fixed.

use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

/// Where a Debian host keeps text, smallest first.
const FOLDERS: [&str; 8] = [
    "/usr/share/common-licenses",
    "/usr/share/perl5",
    "/usr/share/mime",
    "/usr/share/perl",
    "/usr/share/i18n",
    "/usr/share/vim",
    "/usr/share/doc",
    "/usr/share/dict",
];

/// How often the pace is kept: lines leave in small groups, not one by one.
const BEAT: Duration = Duration::from_millis(10);

/// At most `limit` lines of the host's text files; empty ones are left out, because a line tool
/// may take an empty line for no record.
#[must_use]
pub fn lines(limit: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for folder in FOLDERS {
        let mut files = Vec::new();
        // A folder that this host lacks adds nothing.
        let _ = collect(Path::new(folder), &mut files);
        files.sort();
        for file in files {
            let Ok(text) = fs::read_to_string(&file) else { continue };
            if text.contains('\0') {
                continue;
            }
            let text = text.split('\n').filter(|line| !line.is_empty()).map(str::to_owned);
            lines.extend(text.take(limit - lines.len()));
            if lines.len() == limit {
                return lines;
            }
        }
    }
    lines
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Writes all lines at a steady rate, each with its line break, and counts them in `written`.
/// Where the reader was slow, the next beats make up for it.
pub fn write_paced(
    lines: &[String],
    per_second: usize,
    into: &mut impl Write,
    written: &AtomicUsize,
) -> io::Result<()> {
    let started = Instant::now();
    let mut sent = 0;
    while sent < lines.len() {
        let due_ms = usize::try_from(started.elapsed().as_millis()).map_err(io::Error::other)?;
        let due = (due_ms * per_second / 1000).min(lines.len());
        for line in &lines[sent..due] {
            into.write_all(line.as_bytes())?;
            into.write_all(b"\n")?;
        }
        into.flush()?;
        sent = due;
        written.store(sent, Ordering::Relaxed);
        std::thread::sleep(BEAT);
    }
    Ok(())
}
