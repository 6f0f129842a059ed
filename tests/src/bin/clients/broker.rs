//! A broker of our own for the run: a free port, a data directory that is thrown away.
//!
//! Owns the process. Knows of the broker only its command line. A broker that does not start, or
//! does not end well on SIGTERM, is an error.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;

/// First look at the port is after process start; loaded machines get this long.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Drain, flush and mark: bounded by the broker, and this is far above its bound.
const STOP_LIMIT: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A running broker; killed when dropped without [`Broker::stop`].
pub struct Broker {
    process: Child,
    /// `host:port` for clients.
    pub address: SocketAddr,
}

impl Broker {
    /// Starts `binary serve` on a free port of the loopback with its data under `data_dir`.
    ///
    /// # Errors
    /// The binary cannot be run, ends at once, or does not accept connections in time.
    pub fn start(binary: &Path, data_dir: &Path) -> Outcome<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let process = Command::new(binary)
            .arg("serve")
            .arg("--data-dir")
            .arg(data_dir)
            .args(["--listen", &address.to_string()])
            .stdin(Stdio::null())
            .stdout(io::stderr())
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", binary.display()))?;
        let mut broker = Self { process, address };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = broker.process.try_wait()? {
                return Err(format!("the broker ended at once: {status}").into());
            }
            if started.elapsed() > START_LIMIT {
                return Err(format!("the broker does not listen on {address}").into());
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(broker)
    }

    /// Asks the broker to end and waits for it.
    ///
    /// # Errors
    /// It does not end in time, or not with exit code 0.
    pub fn stop(mut self) -> Outcome<()> {
        // The shell has `kill` built in; a small Debian has no program of that name.
        let signal = format!("kill -TERM {}", self.process.id());
        Command::new("sh").args(["-c", &signal]).status()?;
        let asked = Instant::now();
        while asked.elapsed() < STOP_LIMIT {
            match self.process.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("the broker ended with {status}").into()),
                None => thread::sleep(LOOK_AGAIN),
            }
        }
        Err("the broker does not end on SIGTERM".into())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // Both fail only when the process is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
