//! The few system calls that the standard library does not offer, each behind a safe function.
//!
//! Owns no state. Knows nothing of rings or shards. Every function returns the operating system's
//! own error and never retries.

use std::{
    fs::File,
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A new blocking eventfd with count 0: blocking, so that a ring read of it waits for a signal.
pub(super) fn eventfd() -> io::Result<File> {
    // SAFETY: takes plain numbers and returns a new descriptor or an error.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Nanoseconds of the monotonic clock, the same on all cores.
pub(super) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for the result.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    assert_eq!(result, 0, "the monotonic clock always exists");
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Fills `target` (at most 256 bytes, so that the call is never cut short) with random bytes.
pub(super) fn fill_random(target: &mut [u8]) {
    assert!(target.len() <= 256, "a longer request may be cut short");
    // SAFETY: pointer and length describe `target`.
    let count = unsafe { libc::getrandom(target.as_mut_ptr().cast(), target.len(), 0) };
    assert_eq!(usize::try_from(count), Ok(target.len()), "the kernel's random source answers");
}

/// The CPUs this process may run on, ascending: affinity mask and cpuset, not merely "online".
pub(super) fn allowed_cpus() -> io::Result<Vec<usize>> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: pointer and size describe `set`; 0 means the calling thread.
    check(unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr()) })?;
    // SAFETY: all zeros is a valid set, and the call filled it in.
    let set = unsafe { set.assume_init() };
    let capacity = size_of::<libc::cpu_set_t>() * 8;
    // SAFETY: every index is below the set's capacity in bits.
    Ok((0..capacity).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// Sets the backlog of a listening socket; the kernel cuts it to `net.core.somaxconn`.
pub(super) fn listen(socket: BorrowedFd<'_>, backlog: i32) -> io::Result<()> {
    // SAFETY: plain numbers on an open descriptor.
    check(unsafe { libc::listen(socket.as_raw_fd(), backlog) }).map(drop)
}

/// Shuts a socket down: `libc::SHUT_RD`, `SHUT_WR` or `SHUT_RDWR`.
pub(super) fn shutdown(socket: BorrowedFd<'_>, how: i32) -> io::Result<()> {
    // SAFETY: plain numbers on an open descriptor.
    check(unsafe { libc::shutdown(socket.as_raw_fd(), how) }).map(drop)
}

/// The soft and hard value of a resource limit; `u64::MAX` is "unlimited".
#[expect(dead_code, reason = "files come next")]
pub(super) fn resource_limit(resource: libc::__rlimit_resource_t) -> io::Result<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the result.
    check(unsafe { libc::getrlimit(resource, &raw mut limit) })?;
    Ok((limit.rlim_cur, limit.rlim_max))
}

/// Type number of the file system an open file lies on (`statfs(2)`'s `f_type`).
#[expect(dead_code, reason = "files come next")]
pub(super) fn file_system_type(file: impl AsFd) -> io::Result<i64> {
    let mut answer = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `answer` is a valid place for the result.
    check(unsafe { libc::fstatfs(file.as_fd().as_raw_fd(), answer.as_mut_ptr()) })?;
    // SAFETY: all zeros is a valid value, and the call filled it in.
    Ok(unsafe { answer.assume_init() }.f_type)
}
