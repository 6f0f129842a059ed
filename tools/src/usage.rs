//! Command lines that do not parse: clap's explanation, in one line like any other failure.

use std::process::ExitCode;

use clap::error::ErrorKind;

/// Prints help and version as asked (exit code 0), anything else as one line (exit code 1).
pub fn explain(error: &clap::Error) -> ExitCode {
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let guide = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if asked || guide {
        // Printing fails only when the reader has gone.
        let _ = error.print();
        return if asked { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    eprintln!("millrace: {}; see --help", one_line(&error.render().to_string()));
    ExitCode::FAILURE
}

/// The lines in front of "Usage", joined.
fn one_line(rendered: &str) -> String {
    let lines = rendered.lines().map(str::trim).filter(|line| !line.is_empty());
    let told: Vec<&str> = lines
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .map(|line| line.trim_start_matches("error: "))
        .collect();
    told.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_is_wrong_and_drops_the_rest() {
        let rendered = "error: the following required arguments were not provided:\n  --topic \
                        <TOPIC>\n\nUsage: millrace topics create\n\nFor more information\n";
        assert_eq!(
            one_line(rendered),
            "the following required arguments were not provided: --topic <TOPIC>"
        );
    }
}
