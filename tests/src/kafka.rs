//! Apache Kafka from its own Maven jars: the broker to compare with, and its tools.
//!
//! Owns the fetch, the single-node KRaft set-up and the process. Needs Java 17 and, for the first
//! fetch, Maven; `MILLRACE_KAFKA_LIB` names a folder of jars to use instead. Nothing of it ships.
//! Invariant: no process outlives its fixture.

use std::{
    fs::{self, File},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    broker::{free_port, fresh_folder},
    kernel::{self, Signal},
    wire::Connection,
};

/// A JVM on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(90);

/// Any cluster id will do, as long as the formatter and the broker see the same.
const CLUSTER_ID: &str = "bWlsbHJhY2UtY29tcGFyZQ";

/// The version that `bench/kafka/pom.xml` names.
const VERSION: &str = "4.4.0";

/// Garbage collection as in Kafka's own start script.
const COLLECTOR: [&str; 4] = [
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
];

/// The jars, on this machine.
#[derive(Clone, Debug)]
pub struct Installation {
    lib: PathBuf,
}

impl Installation {
    /// The jars named by `MILLRACE_KAFKA_LIB`, or fetched once into the user's cache with Maven.
    pub fn fetch() -> io::Result<Self> {
        if let Some(lib) = std::env::var_os("MILLRACE_KAFKA_LIB") {
            return Ok(Self { lib: lib.into() });
        }
        let home = std::env::var_os("HOME").unwrap_or_else(|| "/tmp".into());
        let lib = PathBuf::from(home).join(format!(".cache/millrace/kafka-{VERSION}/lib"));
        let main = lib.join(format!("kafka_2.13-{VERSION}.jar"));
        if !main.exists() {
            let output = format!("-DoutputDirectory={}", lib.display());
            let mut maven = Command::new("mvn");
            maven.args(["-q", "-B", "-f"]).arg(folder().join("pom.xml"));
            let status = maven.args(["dependency:copy-dependencies", &output]).status()?;
            if !status.success() {
                return Err(io::Error::other(format!("mvn: {status}")));
            }
        }
        Ok(Self { lib })
    }

    /// One of Kafka's classes with a `main`, ready to run, with at most `heap_mib` of heap.
    #[must_use]
    pub fn java(&self, class: &str, heap_mib: u32) -> Command {
        let mut java = Command::new("java");
        java.arg(format!("-Xms{heap_mib}m")).arg(format!("-Xmx{heap_mib}m"));
        java.args(COLLECTOR);
        let logging = folder().join("log4j2.xml");
        java.arg(format!("-Dlog4j2.configurationFile={}", logging.display()));
        java.arg("-cp").arg(format!("{}/*", self.lib.display())).arg(class);
        java
    }

    /// Runs one of Kafka's tools to its end; its standard output, or its standard error as error.
    pub fn tool(&self, class: &str, arguments: &[&str]) -> io::Result<String> {
        let output = self.java(class, 256).args(arguments).stdin(Stdio::null()).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        Err(io::Error::other(format!("{class}: {}{}", text(&output.stdout), text(&output.stderr))))
    }
}

/// Where the pom and the logging set-up are.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/kafka")
}

/// How to start Apache Kafka.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Port on 127.0.0.1; a free one if not given.
    pub port: Option<u16>,
    /// Port that clients are told to use (a proxy's), if another.
    pub advertised_port: Option<u16>,
    /// Heap in MiB; 1024, Kafka's own default, if not given.
    pub heap_mib: Option<u32>,
    /// Directory for all of its files; a fresh one if not given.
    pub folder: Option<PathBuf>,
    /// Lines of `server.properties`, over those that a single node needs.
    pub settings: Vec<(String, String)>,
}

/// A running Apache Kafka, one node, broker and controller.
#[derive(Debug)]
pub struct Kafka {
    installation: Installation,
    heap_mib: u32,
    folder: PathBuf,
    process: Child,
    address: SocketAddr,
    _temporary: Option<TempDir>,
}

impl Kafka {
    /// Starts a node and waits until it answers.
    pub fn start(options: Options) -> io::Result<Self> {
        let installation = Installation::fetch()?;
        let temporary = options.folder.is_none().then(|| fresh_folder("kafka"));
        let folder = match (&options.folder, &temporary) {
            (Some(folder), _) => folder.clone(),
            (None, Some(temporary)) => temporary.path().to_path_buf(),
            (None, None) => unreachable!("a folder is given or made"),
        };
        fs::create_dir_all(&folder)?;
        let port = options.port.unwrap_or_else(free_port);
        write_properties(&folder, port, &options)?;
        let configuration = folder.join("server.properties").to_string_lossy().into_owned();
        let format = ["format", "-g", "-t", CLUSTER_ID, "-c", &configuration];
        installation.tool("kafka.tools.StorageTool", &format)?;
        let heap_mib = options.heap_mib.unwrap_or(1024);
        let process = run(&installation, &folder, heap_mib)?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut kafka =
            Self { installation, heap_mib, folder, process, address, _temporary: temporary };
        kafka.wait_for_answer()?;
        Ok(kafka)
    }

    fn wait_for_answer(&mut self) -> io::Result<()> {
        let started = Instant::now();
        while started.elapsed() < START_TIMEOUT {
            if let Some(status) = self.process.try_wait()? {
                return Err(io::Error::other(format!("Kafka: {status}\n{}", self.log())));
            }
            if Connection::open(self.address).and_then(|mut link| link.api_versions()).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(io::Error::other(format!("Kafka does not answer\n{}", self.log())))
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The directory of its partitions.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Its jars and tools.
    #[must_use]
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// All that it wrote.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("server.log")).unwrap_or_default()
    }

    /// Ends it at once, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = kernel::signal(self.pid(), Signal::Kill);
        let _ = self.process.wait();
    }

    /// Asks it to stop and waits until it has.
    pub fn stop(&mut self) {
        let _ = kernel::signal(self.pid(), Signal::Terminate);
        let _ = self.process.wait();
    }

    /// Starts it again on the same directory and port, after it ended.
    pub fn restart(&mut self) -> io::Result<()> {
        self.process = run(&self.installation, &self.folder, self.heap_mib)?;
        self.wait_for_answer()
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        self.kill();
    }
}

fn run(installation: &Installation, folder: &Path, heap_mib: u32) -> io::Result<Child> {
    let log = File::options().create(true).append(true).open(folder.join("server.log"))?;
    let mut java = installation.java("kafka.Kafka", heap_mib);
    java.arg(folder.join("server.properties")).stdin(Stdio::null());
    kernel::end_with_parent(&mut java);
    java.stdout(log.try_clone()?).stderr(log).spawn()
}

/// A single node's settings, then the given ones: the last of a name counts.
fn write_properties(folder: &Path, port: u16, options: &Options) -> io::Result<()> {
    let controller = free_port();
    let advertised = options.advertised_port.unwrap_or(port);
    let mut text = format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\n\
         controller.listener.names=CONTROLLER\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{advertised}\n\
         log.dirs={}\n\
         num.partitions=12\n\
         offsets.topic.replication.factor=1\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         group.initial.rebalance.delay.ms=0\n",
        folder.join("data").display()
    );
    for (name, value) in &options.settings {
        text.push_str(&format!("{name}={value}\n"));
    }
    fs::write(folder.join("server.properties"), text)
}
