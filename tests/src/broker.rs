//! A real `millrace serve` process, from start to any kind of end.
//!
//! Owns the process, its directory and its log; knows nothing of what happens inside. Invariant:
//! no process outlives its fixture. Failure behaviour: a broker that does not start is an error
//! with its standard error as the text, for the suites that want it to fail.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    kernel::{self, Confinement, Signal},
    wire::Connection,
};

/// How long a start may take before it counts as failed.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a stop may take before it counts as failed.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// Between two looks at a process that is about to start or stop.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The setting that allows more shards than cores, which a test on a small machine needs.
pub const SHARE_CPUS: (&str, &str) = ("millrace.shards.share.cpus", "true");

/// How to start a broker.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Data directory; a fresh one if not given.
    pub data_dir: Option<PathBuf>,
    /// Further data directories, named behind that one.
    pub more_data_dirs: Vec<PathBuf>,
    /// Port on 127.0.0.1; a free one if not given.
    pub port: Option<u16>,
    /// Port that clients are told to use (a proxy's), if another.
    pub advertised_port: Option<u16>,
    /// `--shards`, with leave to exceed the cores; the broker's own choice if not given.
    pub shards: Option<usize>,
    /// `--set name=value`, in this order.
    pub settings: Vec<(String, String)>,
    /// Further arguments, as they are.
    pub arguments: Vec<String>,
    /// What the process is not given.
    pub confinement: Confinement,
}

impl Options {
    /// The same with one more setting.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same with so many shards.
    #[must_use]
    pub fn with_shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }
}

/// A start that ended in an exit.
#[derive(Debug)]
pub struct FailedStart {
    /// Exit code, or `None` for an end by signal.
    pub code: Option<i32>,
    /// All that was written to standard error.
    pub stderr: String,
}

/// A running broker.
#[derive(Debug)]
pub struct Broker {
    options: Options,
    process: Child,
    address: SocketAddr,
    log: PathBuf,
    started: Instant,
    first_answer: Duration,
    /// Holds the directory of a broker that was not given one.
    _folder: Option<TempDir>,
}

impl Broker {
    /// Starts a broker and waits until it answers; panics with its log if it does not.
    #[must_use]
    pub fn start(options: Options) -> Self {
        match Self::try_start(options) {
            Ok(broker) => broker,
            Err(failed) => panic!("the broker ended with {:?}: {}", failed.code, failed.stderr),
        }
    }

    /// Starts a broker and waits until it answers, or ends.
    pub fn try_start(mut options: Options) -> Result<Self, FailedStart> {
        let folder = options.data_dir.is_none().then(|| fresh_folder("broker"));
        if let Some(folder) = &folder {
            options.data_dir = Some(folder.path().join("data"));
        }
        let port = *options.port.get_or_insert_with(free_port);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let log = log_path(options.data_dir.as_deref().expect("set above"));
        // Made before the clock starts, should it have to be made.
        let _ = binary();
        let started = Instant::now();
        let process = spawn(&options, &log);
        let first_answer = Duration::ZERO;
        let mut broker =
            Self { options, process, address, log, started, first_answer, _folder: folder };
        broker.wait_for_answer()?;
        Ok(broker)
    }

    fn wait_for_answer(&mut self) -> Result<(), FailedStart> {
        loop {
            if Connection::open(self.address).and_then(|mut link| link.api_versions()).is_ok() {
                self.first_answer = self.started.elapsed();
                return Ok(());
            }
            if let Some(status) = self.process.try_wait().expect("our own child") {
                return Err(FailedStart { code: status.code(), stderr: self.log() });
            }
            let late = self.started.elapsed() > START_TIMEOUT;
            assert!(!late, "no answer in {START_TIMEOUT:?}; log:\n{}", self.log());
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a client is given as bootstrap server.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.address.to_string()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Its data directory.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        self.options.data_dir.as_deref().expect("set at start")
    }

    /// Time from the start of the process to the answer to the first request.
    #[must_use]
    pub fn first_answer(&self) -> Duration {
        self.first_answer
    }

    /// All that it wrote to standard output and error, over all its starts.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Whether the process still runs.
    pub fn is_running(&mut self) -> bool {
        self.process.try_wait().expect("our own child").is_none()
    }

    /// Ends it without a chance to do anything, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = kernel::signal(self.pid(), Signal::Kill);
        self.process.wait().expect("our own child");
    }

    /// Asks it to stop and waits; returns how it ended and how long that took.
    pub fn stop(&mut self, signal: Signal) -> (ExitStatus, Duration) {
        let asked = Instant::now();
        let _ = kernel::signal(self.pid(), signal);
        loop {
            if let Some(status) = self.process.try_wait().expect("our own child") {
                return (status, asked.elapsed());
            }
            let late = asked.elapsed() > STOP_TIMEOUT;
            assert!(!late, "still running {STOP_TIMEOUT:?} after {signal:?}:\n{}", self.log());
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Starts it again on the same directory and port, after it ended.
    pub fn restart(&mut self) {
        assert!(!self.is_running(), "a broker is restarted after its end");
        self.started = Instant::now();
        self.process = spawn(&self.options, &self.log);
        let answered = self.wait_for_answer();
        answered.unwrap_or_else(|failed| panic!("no restart: {:?} {}", failed.code, failed.stderr));
    }

    /// As [`Broker::restart`], with another number of shards.
    pub fn restart_with_shards(&mut self, shards: usize) {
        self.options.shards = Some(shards);
        self.restart();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if self.is_running() {
            self.kill();
        }
        if std::thread::panicking() {
            eprintln!("log of the broker on {}:\n{}", self.address, self.log());
        }
    }
}

/// Runs `program serve` to its end with these arguments and nothing else.
#[must_use]
pub fn serve_until_exit<A: AsRef<OsStr>>(
    program: &Path,
    arguments: &[A],
    confinement: &Confinement,
) -> FailedStart {
    let mut command = millrace(program);
    command.arg("serve").args(arguments).stdin(Stdio::null());
    confinement.apply(&mut command);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("the binary starts");
    let asked = Instant::now();
    while process.try_wait().expect("our own child").is_none() {
        if asked.elapsed() > START_TIMEOUT {
            let _ = process.kill();
            panic!("{command:?} neither failed nor ended within {START_TIMEOUT:?}");
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    let output = process.wait_with_output().expect("our own child");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    FailedStart { code: output.status.code(), stderr }
}

/// The binary at `program` without this process's own `MILLRACE_*` variables, which are settings to
/// a broker.
#[must_use]
pub fn millrace(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MILLRACE_") {
            command.env_remove(name);
        }
    }
    command
}

/// The log lies beside the data directory, which may be read-only or full.
fn log_path(data_dir: &Path) -> PathBuf {
    let name = data_dir.file_name().map_or("broker".into(), |name| name.to_string_lossy());
    let folder = data_dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    folder.unwrap_or(Path::new("/tmp")).join(format!("{name}.log"))
}

fn spawn(options: &Options, log: &Path) -> Child {
    let log = File::options().create(true).append(true).open(log).expect("a log file");
    let mut command = millrace(binary());
    command.args(arguments(options)).stdin(Stdio::null());
    command.stdout(log.try_clone().expect("a descriptor")).stderr(log);
    options.confinement.apply(&mut command);
    kernel::end_with_parent(&mut command);
    command.spawn().expect("the binary starts")
}

fn arguments(options: &Options) -> Vec<String> {
    let data_dir = options.data_dir.as_ref().expect("set at start");
    let port = options.port.expect("set at start");
    let mut arguments = vec!["serve".to_owned(), "--data-dir".to_owned()];
    let dirs = std::iter::once(data_dir).chain(&options.more_data_dirs);
    let dirs: Vec<_> = dirs.map(|dir| dir.to_string_lossy()).collect();
    arguments.push(dirs.join(","));
    arguments.extend(["--listen".to_owned(), format!("127.0.0.1:{port}")]);
    if let Some(port) = options.advertised_port {
        arguments.extend(["--advertise".to_owned(), format!("127.0.0.1:{port}")]);
    }
    let mut settings = options.settings.clone();
    if let Some(shards) = options.shards {
        arguments.extend(["--shards".to_owned(), shards.to_string()]);
        if shards > cores() {
            settings.push((SHARE_CPUS.0.to_owned(), SHARE_CPUS.1.to_owned()));
        }
    }
    for (name, value) in settings {
        arguments.extend(["--set".to_owned(), format!("{name}={value}")]);
    }
    arguments.extend(options.arguments.iter().cloned());
    arguments
}

/// CPUs that this process may use.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A port that was free a moment ago. Ports of one process differ, so that suites may run at once.
#[must_use]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound above").port()
}

/// A fresh directory, on the disk that holds the build (a RAM disk would prove nothing of files).
#[must_use]
pub fn fresh_folder(name: &str) -> TempDir {
    let scratch = target_dir().join("scratch");
    fs::create_dir_all(&scratch).expect("the build's directory is writable");
    let made = tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(scratch);
    made.expect("a fresh directory")
}

/// Where this test was built into: two folders above the executable, or three.
fn target_dir() -> PathBuf {
    let profile = profile_dir();
    profile.parent().map_or(profile.clone(), Path::to_path_buf)
}

fn profile_dir() -> PathBuf {
    let executable = std::env::current_exe().expect("our own path");
    let folder = executable.parent().expect("an executable lies in a folder");
    let inner = folder.ends_with("deps") || folder.ends_with("examples");
    if inner { folder.parent().unwrap_or(folder).to_path_buf() } else { folder.to_path_buf() }
}

/// The `millrace` binary: `MILLRACE_BIN`, or the one of this build, made now if it is stale.
#[must_use]
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("MILLRACE_BIN") {
            return PathBuf::from(path);
        }
        build().expect("cargo builds the binary");
        profile_dir().join("millrace")
    })
}

/// Cargo makes the binary of another package only when told to.
fn build() -> io::Result<()> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--package", "millrace", "--bin", "millrace"]);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).arg("--target-dir").arg(target_dir());
    if profile_dir().ends_with("release") {
        command.arg("--release");
    }
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("cargo: {status}"))) }
}
