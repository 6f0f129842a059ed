//! On what, with what and how a figure was measured.
//!
//! Owns the facts about this host that a reader needs to judge a result, as a JSON object. A fact
//! that cannot be found is written as "unknown": a result without its host is still a result.

use std::{fs, path::Path, process::Command};

/// The facts, by name.
#[derive(Clone, Debug)]
pub struct Manifest {
    facts: Vec<(&'static str, String)>,
    /// "2-core-virtual" and the like: part of the name of a result's folder.
    pub host_kind: String,
    /// The day, as in ISO 8601.
    pub date: String,
}

impl Manifest {
    /// Looks around; `data_dir` is where the brokers keep their data, `binary` is ours.
    #[must_use]
    pub fn new(data_dir: &Path, binary: &Path) -> Self {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| line.split_once(':'));
            value.map_or_else(unknown, |(_, value)| value.trim().to_owned())
        };
        let virtual_host = cpu.contains(" hypervisor");
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let kind = if virtual_host { "virtual" } else { "metal" };
        let date = said_by("date", &["-u", "+%F"]);
        let binary = binary.to_string_lossy();
        let facts = vec![
            ("date", date.clone()),
            ("command", std::env::args().collect::<Vec<_>>().join(" ")),
            ("kernel", said_by("uname", &["-sr"])),
            ("architecture", said_by("uname", &["-m"])),
            ("cpu", field(&cpu, "model name")),
            ("cores", cores.to_string()),
            ("host", kind.to_owned()),
            ("memory", field(&memory, "MemTotal")),
            ("file_system", mount_of(data_dir)),
            ("millrace", said_by(&binary, &["--version"])),
            ("commit", said_by("git", &["describe", "--always", "--dirty"])),
            ("kafka", "4.4.0".to_owned()),
            ("java", said_by("java", &["--version"])),
        ];
        Self { facts, host_kind: format!("{cores}-core-{kind}"), date }
    }

    /// The facts as a JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let fact = |(name, value): &(&str, String)| format!("  {}: {}", quote(name), quote(value));
        let facts: Vec<String> = self.facts.iter().map(fact).collect();
        format!("{{\n{}\n}}\n", facts.join(",\n"))
    }
}

/// A JSON string.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            letter if letter.is_control() => quoted.push(' '),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// The first line that a command prints.
fn said_by(program: &str, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(arguments).output() else { return unknown() };
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map_or_else(unknown, str::to_owned)
}

/// Device kind, type and options of the mount that holds `path`.
fn mount_of(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let fields = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let holding = mounts.lines().map(fields).filter(|mount| mount.len() > 3);
    let holding = holding.filter(|mount| path.starts_with(&mount[1]));
    let nearest = holding.max_by_key(|mount| mount[1].len());
    nearest.map_or_else(unknown, |mount| format!("{} on {} ({})", mount[2], mount[0], mount[3]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_text_is_json() {
        assert_eq!(quote("a \"b\"\\\n\t"), r#""a \"b\"\\\n ""#);
    }

    #[test]
    fn the_root_is_on_some_file_system() {
        assert_ne!(mount_of(Path::new("/")), "unknown");
    }
}
