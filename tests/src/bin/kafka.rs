//! Runs Apache Kafka, or one of its tools, from Maven jars: the broker to compare with by hand.
//!
//! `kafka start [PORT] [name=value...]` runs one node in the foreground on a fresh directory until
//! it is interrupted; `kafka tool CLASS ARGUMENTS...` runs a tool; `kafka fetch` only fetches.

use std::{io, process::ExitCode, time::Duration};

use millrace_tests::kafka::{Installation, Kafka, Options};

const USAGE: &str = "usage: kafka fetch | start [PORT] [name=value...] | tool CLASS ARGUMENTS...";

/// Heap of a tool, in MiB.
const TOOL_HEAP_MIB: u32 = 512;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["fetch"] => Installation::fetch().map(|_| true),
        ["start", rest @ ..] => start(rest),
        ["tool", class, rest @ ..] => tool(class, rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("kafka: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Kafka ends with this process, however that ends.
fn start(words: &[&str]) -> io::Result<bool> {
    let port = words.first().and_then(|word| word.parse().ok());
    let pairs = words.iter().filter_map(|word| word.split_once('='));
    let settings = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let kafka =
        Kafka::start(Options { port: port.or(Some(9092)), settings, ..Options::default() })?;
    println!("Apache Kafka answers on {}, process {}", kafka.address(), kafka.pid());
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

fn tool(class: &str, arguments: &[&str]) -> io::Result<bool> {
    let mut java = Installation::fetch()?.java(class, TOOL_HEAP_MIB);
    Ok(java.args(arguments).status()?.success())
}
