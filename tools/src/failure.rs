//! How a command fails: one line for the operator and an exit code.

use std::{io, process::ExitCode};

use millrace_net::client::error::ClientError;

/// The end of a command that did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// What went wrong and what to do, in one line; exit code 1.
    Line(String),
    /// As [`Failure::Line`], with an exit code of its own.
    Coded(String, u8),
    /// Whoever read our output has gone; nobody wants a word about it.
    ReaderGone,
}

/// What a command ends with.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure with one line.
    pub fn line(message: impl Into<String>) -> Self {
        Self::Line(message.into())
    }

    /// A failed write of output.
    pub fn output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::ReaderGone;
        }
        Self::Line(format!("cannot write the output: {error}"))
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Line(error.to_string())
    }
}

/// Says what went wrong, if anything, and makes the process's exit code.
pub fn exit_code(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) | Err(Failure::ReaderGone) => ExitCode::SUCCESS,
        Err(Failure::Line(message)) => {
            eprintln!("millrace: {message}");
            ExitCode::FAILURE
        }
        Err(Failure::Coded(message, code)) => {
            eprintln!("millrace: {message}");
            ExitCode::from(code)
        }
    }
}
