//! What a suite asks of the kernel about a child process: signals, limits, filters, figures.
//!
//! Owns the unsafe calls of this crate. Knows no broker. Invariant: a confinement acts on the child
//! alone, between fork and exec, and allocates nothing there.

use std::{fs, io, mem, os::unix::process::CommandExt, process::Command};

/// A signal that ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGKILL: the process does nothing more.
    Kill,
    /// SIGTERM: a service manager's request to stop.
    Terminate,
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGSTOP: the process stands still.
    Stop,
    /// SIGCONT: it goes on.
    Continue,
}

/// Sends `signal` to the process; false where there is no such process any more.
#[must_use]
pub fn signal(pid: u32, signal: Signal) -> bool {
    let number = match signal {
        Signal::Kill => libc::SIGKILL,
        Signal::Terminate => libc::SIGTERM,
        Signal::Interrupt => libc::SIGINT,
        Signal::Stop => libc::SIGSTOP,
        Signal::Continue => libc::SIGCONT,
    };
    let pid = i32::try_from(pid).expect("a process id fits pid_t");
    // SAFETY: kill takes two integers; the process is a child that was not waited for yet, so its
    // number cannot have been given to another.
    unsafe { libc::kill(pid, number) == 0 }
}

/// Whether this process is root, and so may switch users and mount.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Raises this process's own descriptor limit to the hard limit and returns it.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    // SAFETY: rlimit is plain integers, for which zeros are valid.
    let mut limit: libc::rlimit = unsafe { mem::zeroed() };
    // SAFETY: the pointer is to a live rlimit of the size the call expects.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: as above.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    Ok(limit.rlim_cur)
}

/// Has the child of `command` end with the thread that starts it, so that a test that is killed
/// leaves no broker behind.
pub fn end_with_parent(command: &mut Command) {
    let enter = || {
        let kill = libc::c_ulong::from(libc::SIGKILL.unsigned_abs());
        // SAFETY: prctl with integer arguments of its own width.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, kill) })
    };
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(enter) };
}

/// What a child process is not given.
#[derive(Clone, Debug, Default)]
pub struct Confinement {
    /// Most bytes it may lock in memory (RLIMIT_MEMLOCK); root is not bound by it.
    pub memlock_bytes: Option<u64>,
    /// Most descriptors it may open (RLIMIT_NOFILE).
    pub descriptors: Option<u64>,
    /// User and group it runs as.
    pub user: Option<u32>,
    /// Whether io_uring's system calls fail with EPERM, as under Docker's default profile.
    pub forbid_io_uring: bool,
}

impl Confinement {
    /// Has `command` confine itself before it runs.
    pub fn apply(&self, command: &mut Command) {
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let confinement = self.clone();
        // SAFETY: the closure makes system calls only; it takes no lock and allocates nothing,
        // which is all that a child of a threaded process may do before exec.
        unsafe { command.pre_exec(move || confinement.enter()) };
    }

    fn enter(&self) -> io::Result<()> {
        if let Some(bytes) = self.memlock_bytes {
            set_limit(libc::RLIMIT_MEMLOCK, bytes)?;
        }
        if let Some(count) = self.descriptors {
            set_limit(libc::RLIMIT_NOFILE, count)?;
        }
        if self.forbid_io_uring { forbid_io_uring() } else { Ok(()) }
    }
}

fn set_limit(resource: libc::__rlimit_resource_t, value: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: the pointer is to a live rlimit.
    check(unsafe { libc::setrlimit(resource, &raw const limit) })
}

/// Offset of the system call's number in what a seccomp filter sees.
const CALL_NUMBER_OFFSET: u32 = 0;

/// io_uring_setup, io_uring_enter and io_uring_register are 425 to 427 on every architecture.
const IO_URING_CALLS: (u32, u32) = (425, 427);

/// A seccomp filter of five instructions: EPERM for the three calls, all others pass.
fn forbid_io_uring() -> io::Result<()> {
    let statement = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let jump = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    // Classic BPF: 0x20 loads a word, 0x35 jumps if at least, 0x25 jumps if above, 0x06 returns.
    let (load, at_least, above, answer) = (0x20, 0x35, 0x25, 0x06);
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    let mut filter = [
        statement(load, CALL_NUMBER_OFFSET),
        jump(at_least, IO_URING_CALLS.0, 0, 2),
        jump(above, IO_URING_CALLS.1, 1, 0),
        statement(answer, refuse),
        statement(answer, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 5, filter: filter.as_mut_ptr() };
    let (on, unused): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: prctl with integer arguments of its own width; the unused ones are zero.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, on, unused, unused, unused) })?;
    let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
    // SAFETY: the program and the filter it points to outlive the call, which copies them.
    check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits until all dirty pages of the host are on disk.
pub fn sync_disks() {
    // SAFETY: sync takes nothing and cannot fail.
    unsafe { libc::sync() };
}

/// Resident memory of a process, in bytes (`VmRSS`).
pub fn resident_bytes(pid: u32) -> io::Result<u64> {
    status_kib(pid, "VmRSS:")
}

/// The most memory that was ever resident, in bytes (`VmHWM`).
pub fn peak_resident_bytes(pid: u32) -> io::Result<u64> {
    status_kib(pid, "VmHWM:")
}

fn status_kib(pid: u32, field: &str) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let value = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = value.and_then(|value| value.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other(format!("no {field} of {pid}")))
}

/// CPU time that a process has used, all threads, user and system, in microseconds; as fine as
/// the kernel's tick (10 ms).
pub fn cpu_us(pid: u32) -> io::Result<u64> {
    times_us(&format!("/proc/{pid}/stat"))
}

/// CPU time of each thread of a process whose name starts with `prefix`, in microseconds, by name.
pub fn thread_cpu_us(pid: u32, prefix: &str) -> io::Result<Vec<(String, u64)>> {
    let mut times = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let folder = thread?.path();
        let name = fs::read_to_string(folder.join("comm"))?.trim().to_owned();
        if name.starts_with(prefix) {
            times.push((name, times_us(&folder.join("stat").to_string_lossy())?));
        }
    }
    times.sort();
    Ok(times)
}

fn times_us(path: &str) -> io::Result<u64> {
    let stat = fs::read_to_string(path)?;
    // The name in parentheses may hold spaces; user and system time are fields 14 and 15.
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let field =
        |at: usize| behind.split_whitespace().nth(at - 3).and_then(|text| text.parse().ok());
    let ticks: Option<u64> =
        field(14).zip(field(15)).map(|(user, system): (u64, u64)| user + system);
    let ticks = ticks.ok_or_else(|| io::Error::other(format!("no times in {path}")))?;
    // SAFETY: sysconf takes an integer.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let per_second = u64::try_from(per_second).map_err(io::Error::other)?;
    Ok(ticks * 1_000_000 / per_second)
}
