//! Standard output as commands write it: buffered, with a failed write told apart from a reader
//! that went away.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use crate::failure::{Failure, Outcome};

/// Buffered standard output.
pub struct Output {
    inner: BufWriter<StdoutLock<'static>>,
    watched: bool,
}

impl Output {
    /// Locks standard output until dropped.
    pub fn new() -> Self {
        let stdout = io::stdout().lock();
        let watched = stdout.is_terminal();
        Self { inner: BufWriter::with_capacity(64 << 10, stdout), watched }
    }

    /// Whether it is a terminal, where somebody waits for each line.
    pub fn is_watched(&self) -> bool {
        self.watched
    }

    /// Writes one line.
    pub fn line(&mut self, text: &str) -> Outcome {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Outcome {
        self.inner.write_all(bytes).map_err(|error| Failure::output(&error))
    }

    /// Hands everything to the reader.
    pub fn flush(&mut self) -> Outcome {
        self.inner.flush().map_err(|error| Failure::output(&error))
    }
}
