//! Start-up checks: what the runtime needs of the machine, before any of it runs.
//!
//! Owns nothing but the lock on a data directory. Each failure is one line that says what is
//! wrong, where, and what to do; nothing here panics or tries to go on with less.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    net::SocketAddr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use io_uring::{Probe, opcode};

use super::{file, net::Listener, runtime::RuntimeOptions, sys, uring};
use crate::{
    error::{Error, Kind, Result},
    limits::{
        BIND_RETRIES, BIND_RETRY_INTERVAL, FREE_DISK_MIN_BYTES, RING_COMPLETIONS, RING_ENTRIES,
    },
};

/// Locked memory that the executor asks for at least, and that one shard uses, in bytes: its
/// rings' and a registered buffer. Measured, and rounded up.
const LOCKED_MIN_BYTES: u64 = 512 << 10;
const LOCKED_PER_SHARD_BYTES: u64 = 384 << 10;

/// Descriptors a process needs besides one for each connection and several for each partition.
const DESCRIPTORS_MIN: u64 = 1024;
const DESCRIPTORS_PER_SHARD: u64 = 32;

/// Name of the lock file in a data directory; Kafka's.
const LOCK_FILE: &str = ".lock";

fn failed(message: String) -> Error {
    Error::new(Kind::Fatal, message)
}

/// What was found about the machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// CPUs this process may use.
    pub cpus: usize,
    /// Descriptors it may have open, after the soft limit was raised to the hard one.
    pub descriptors: u64,
}

/// Checks that `options` can run on this machine, and raises the limits of this process as far as
/// it may.
pub fn machine(options: &RuntimeOptions) -> Result<Machine> {
    options.check()?;
    let cpus = sys::allowed_cpus()
        .map_err(|error| failed(format!("the CPUs of this process are unknown: {error}")))?;
    let shards = u64::try_from(options.shards).unwrap_or(u64::MAX);
    locked_memory(LOCKED_MIN_BYTES + shards * LOCKED_PER_SHARD_BYTES)?;
    let descriptors = descriptors(DESCRIPTORS_MIN + shards * DESCRIPTORS_PER_SHARD)?;
    ring()?;
    Ok(Machine { cpus: cpus.len(), descriptors })
}

fn locked_memory(needed_bytes: u64) -> Result<()> {
    let limit = sys::raise_limit(libc::RLIMIT_MEMLOCK)
        .map_err(|error| failed(format!("the limit of locked memory is unknown: {error}")))?;
    // The executor looks at the limit even of a process that may go beyond it.
    let exempt = limit >= LOCKED_MIN_BYTES && sys::may_lock_memory();
    if limit >= needed_bytes || exempt {
        return Ok(());
    }
    Err(failed(format!(
        "locked memory: {} KiB allowed, {} KiB needed; raise it with `ulimit -l`, \
         LimitMEMLOCK= of systemd, or `--ulimit memlock=-1` of docker",
        limit >> 10,
        needed_bytes >> 10
    )))
}

fn descriptors(needed: u64) -> Result<u64> {
    let limit = sys::raise_limit(libc::RLIMIT_NOFILE)
        .map_err(|error| failed(format!("the limit of open files is unknown: {error}")))?;
    if limit >= needed {
        return Ok(limit);
    }
    Err(failed(format!(
        "open files: {limit} allowed, at least {needed} needed; raise it with `ulimit -n` or \
         LimitNOFILE= of systemd"
    )))
}

/// Makes a ring as a shard does, and looks for what came last into the kernel of what is used.
fn ring() -> Result<()> {
    let ring = uring::build(RING_ENTRIES, RING_COMPLETIONS).map_err(|error| no_ring(&error))?;
    let mut probe = Probe::new();
    let known = ring.submitter().register_probe(&mut probe).is_ok();
    // Multishot receives cannot be asked for; they came with the same release as this operation.
    let recent = known && probe.is_supported(opcode::SendZc::CODE);
    if recent && ring.params().is_feature_nodrop() && ring.params().is_feature_submit_stable() {
        return Ok(());
    }
    Err(failed(format!(
        "io_uring of kernel {} is too old: Linux 6.0 or newer is needed",
        kernel_release()
    )))
}

fn kernel_release() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

/// Why io_uring cannot be had, and what to do.
fn no_ring(error: &io::Error) -> Error {
    let setting = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    let advice = match (error.raw_os_error(), setting.trim()) {
        (Some(libc::EPERM), "1" | "2") => {
            "switched off; run `sysctl kernel.io_uring_disabled=0` on the host"
        }
        (Some(libc::EPERM), _) => {
            "forbidden, most likely by seccomp; run the container with a profile that allows \
             io_uring_setup, io_uring_enter and io_uring_register"
        }
        (Some(libc::ENOSYS), _) => "missing in this kernel or hidden; Linux 6.0 or newer is needed",
        (Some(libc::ENOMEM), _) => "out of locked memory; raise it with `ulimit -l`",
        (Some(libc::EMFILE | libc::ENFILE), _) => "out of descriptors; raise `ulimit -n`",
        _ => "refused",
    };
    failed(format!("io_uring is {advice} ({error})"))
}

/// A data directory that this process holds the lock of; dropping it gives the lock up.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    description: &'static str,
    free_bytes: u64,
    _lock: File,
}

impl DataDir {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it will be written, as `RealDisk::describe` says.
    #[must_use]
    pub fn describe(&self) -> &'static str {
        self.description
    }

    /// Bytes free for this user.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes
    }
}

/// Makes the data directory `path` if absent, locks it for this process, and checks that it can
/// be written to. Blocks; call it before shards run.
pub fn data_dir(path: &Path) -> Result<DataDir> {
    let explain = |error: &io::Error| explain_dir(path, error);
    fs::create_dir_all(path).map_err(|error| explain(&error))?;
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.join(LOCK_FILE))
        .map_err(|error| explain(&error))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(failed(format!(
                "{}: in use by another process; stop that one or choose another directory",
                path.display()
            )));
        }
        Err(TryLockError::Error(error)) => return Err(explain(&error)),
    }
    let free_bytes = sys::free_bytes(&lock).map_err(|error| explain(&error))?;
    if free_bytes < FREE_DISK_MIN_BYTES {
        return Err(failed(format!(
            "{}: {} MiB free, at least {} MiB needed; make room or choose another directory",
            path.display(),
            free_bytes >> 20,
            FREE_DISK_MIN_BYTES >> 20
        )));
    }
    let scratch = format!(".direct-probe-{}", std::process::id());
    let nature = file::examine(path, &scratch).map_err(|error| explain(&error))?;
    let description = nature.describe();
    Ok(DataDir { path: path.to_owned(), description, free_bytes, _lock: lock })
}

/// Checks that no two of `dirs`, which exist, are the same directory by way of `..` or a link: its
/// partitions would be opened twice. Blocks; call it before shards run.
pub fn distinct(dirs: &[PathBuf]) -> Result<()> {
    let mut places: Vec<((u64, u64), &Path)> = Vec::with_capacity(dirs.len());
    for dir in dirs {
        let found = fs::metadata(dir).map_err(|error| explain_dir(dir, &error))?;
        let place = (found.dev(), found.ino());
        if let Some((_, earlier)) = places.iter().find(|(known, _)| *known == place) {
            return Err(failed(format!(
                "log.dirs: {} and {} are the same directory; name it once",
                earlier.display(),
                dir.display()
            )));
        }
        places.push((place, dir));
    }
    Ok(())
}

fn explain_dir(path: &Path, error: &io::Error) -> Error {
    let advice = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => match fs::metadata(path) {
            Ok(found) => format!(
                "it belongs to user {} and user {} runs this; `chown` it or run as its owner",
                found.uid(),
                sys::user_id()
            ),
            Err(_) => "this user may not look into its parents; `chmod` or `chown` them".to_owned(),
        },
        Some(libc::EROFS) => "the file system is mounted read-only; remount it writable".to_owned(),
        Some(libc::ENOSPC | libc::EDQUOT) => {
            "no space is left; make room or choose another directory".to_owned()
        }
        Some(libc::ENOTDIR | libc::EEXIST) => {
            "a file is in the way; move it or choose another directory".to_owned()
        }
        _ => "check the disk and the kernel's log".to_owned(),
    };
    failed(format!("{}: {error}: {advice}", path.display()))
}

/// Binds `address`, and tries again for a while where it is in use: the kernel takes down the ring
/// of a killed process after that process is gone, and its listening socket with the ring.
#[expect(clippy::disallowed_methods, reason = "no shard runs yet that could stall")]
fn bind(address: SocketAddr, backlog: i32) -> io::Result<Listener> {
    for _ in 0..BIND_RETRIES {
        match Listener::bind(address, backlog) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                std::thread::sleep(BIND_RETRY_INTERVAL);
            }
            bound => return bound,
        }
    }
    Listener::bind(address, backlog)
}

/// Listens on `address` with room for `backlog` connections that wait to be accepted; a failure
/// says what to do.
pub fn listen(address: SocketAddr, backlog: i32) -> Result<Listener> {
    bind(address, backlog).map_err(|error| {
        let advice = match error.raw_os_error() {
            Some(libc::EADDRINUSE) => "another process listens there; stop it or change the port",
            Some(libc::EADDRNOTAVAIL) => "this host has no such address; change `listeners`",
            Some(libc::EACCES) => "ports below 1024 need privileges; choose a higher one",
            _ => "check `listeners`",
        };
        failed(format!("cannot listen on {address}: {error}: {advice}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_line(error: &Error, part: &str) {
        let text = error.to_string();
        assert!(text.contains(part) && !text.contains('\n'), "{text}");
    }

    #[test]
    fn this_machine_will_do() {
        let machine = machine(&RuntimeOptions::for_tests(2)).expect("tests run here");
        assert!(machine.cpus > 0 && machine.descriptors >= DESCRIPTORS_MIN);
        let many = RuntimeOptions { shards: 250, ..RuntimeOptions::default() };
        one_line(&super::machine(&many).expect_err("too many"), "250 shards");
        one_line(&locked_memory(u64::MAX).map_or_else(|e| e, |()| failed("memory".into())), "mem");
        one_line(&descriptors(u64::MAX).expect_err("too many"), "ulimit -n");
    }

    #[test]
    fn a_ring_that_is_refused_is_explained() {
        for (code, part) in [
            (libc::EPERM, "seccomp"),
            (libc::ENOSYS, "Linux 6.0"),
            (libc::ENOMEM, "ulimit -l"),
            (libc::EMFILE, "ulimit -n"),
            (libc::EIO, "refused"),
        ] {
            one_line(&no_ring(&io::Error::from_raw_os_error(code)), part);
        }
    }

    /// The second was refused as in use by another process.
    #[test]
    fn one_directory_by_two_names_is_refused_by_both() {
        let parent = tempfile::tempdir().expect("can be made");
        let [first, second] = ["first", "second"].map(|name| parent.path().join(name));
        for dir in [&first, &second] {
            fs::create_dir(dir).expect("can be made");
        }
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(&first, &link).expect("can be made");
        distinct(&[first.clone(), second.clone()]).expect("two directories");
        for again in [second.join("../first"), link] {
            let error = distinct(&[first.clone(), second.clone(), again.clone()]);
            let named = format!("{} and {}", first.display(), again.display());
            one_line(&error.expect_err("the same"), &named);
        }
    }

    #[test]
    fn a_data_directory_is_for_one_process() {
        let parent = tempfile::tempdir().expect("can be made");
        let path = parent.path().join("data");
        let dir = data_dir(&path).expect("new");
        assert!(dir.free_bytes() > 0 && dir.path() == path && !dir.describe().is_empty());
        one_line(&data_dir(&path).expect_err("locked"), "another process");
        drop(dir);
        data_dir(&path).expect("free again");
        let file = parent.path().join("file");
        fs::write(&file, "").expect("can be written");
        one_line(&data_dir(&file).expect_err("a file"), "in the way");
        one_line(&data_dir(Path::new("/proc/nothing")).expect_err("refused"), "/proc/nothing");
    }

    #[test]
    fn a_taken_port_is_explained() {
        let taken = listen("127.0.0.1:0".parse().expect("an address"), 16).expect("a free port");
        one_line(&listen(taken.local_address(), 16).expect_err("taken"), "change the port");
        let foreign = "192.0.2.1:0".parse().expect("an address");
        one_line(&listen(foreign, 16).expect_err("not ours"), "no such address");
    }
}
