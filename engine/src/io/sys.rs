//! The few system calls that the standard library does not offer, each behind a safe function.
//!
//! Owns no state. Knows nothing of rings or shards. Every function returns the operating system's
//! own error and never retries.

use std::{
    fs::{self, File},
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use smallvec::SmallVec;

use super::buf::IoRange;

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

/// The set of one CPU.
pub(super) fn only(cpu: usize) -> libc::cpu_set_t {
    set_of(&[cpu])
}

fn set_of(cpus: &[usize]) -> libc::cpu_set_t {
    let known = cpus.iter().all(|&cpu| cpu < size_of::<libc::cpu_set_t>() * 8);
    assert!(known, "the kernel named these CPUs in such a set");
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: all zeros is a valid, empty set, and each index is below its capacity in bits.
    unsafe {
        cpus.iter().for_each(|&cpu| libc::CPU_SET(cpu, set.assume_init_mut()));
        set.assume_init()
    }
}

/// Keeps the calling thread on one CPU.
pub(super) fn pin_to(cpu: usize) -> io::Result<()> {
    keep_on(&[cpu])
}

/// Keeps the calling thread on these CPUs; it may run on any of them.
pub(super) fn keep_on(cpus: &[usize]) -> io::Result<()> {
    let set = set_of(cpus);
    // SAFETY: pointer and size describe `set`; 0 means the calling thread.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) })
        .map(drop)
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

/// Raises the soft value of a resource limit to its hard one; returns it, `u64::MAX` if unlimited.
pub(super) fn raise_limit(resource: libc::__rlimit_resource_t) -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the result.
    check(unsafe { libc::getrlimit(resource, &raw mut limit) })?;
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` is a valid limit of this resource.
        check(unsafe { libc::setrlimit(resource, &raw const limit) })?;
    }
    Ok(limit.rlim_cur)
}

/// The effective user of this process.
pub(super) fn user_id() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether this process may lock memory beyond its limit (`CAP_IPC_LOCK`).
pub(super) fn may_lock_memory() -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> CAP_IPC_LOCK & 1 == 1)
}

fn file_system(file: impl AsFd) -> io::Result<libc::statfs> {
    let mut answer = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `answer` is a valid place for the result.
    check(unsafe { libc::fstatfs(file.as_fd().as_raw_fd(), answer.as_mut_ptr()) })?;
    // SAFETY: all zeros is a valid value, and the call filled it in.
    Ok(unsafe { answer.assume_init() })
}

/// Type number of the file system an open file lies on (`statfs(2)`'s `f_type`).
pub(super) fn file_system_type(file: impl AsFd) -> io::Result<i64> {
    Ok(file_system(file)?.f_type)
}

/// Bytes that this user may still write to the file system an open file lies on.
pub(super) fn free_bytes(file: impl AsFd) -> io::Result<u64> {
    let found = file_system(file)?;
    Ok(found.f_bavail.saturating_mul(u64::try_from(found.f_bsize).unwrap_or(0)))
}

/// The alignment in bytes that direct I/O on a file needs; 0 if it has none, `None` if the kernel
/// does not tell (before 6.1).
pub(super) fn direct_alignment(file: impl AsFd) -> io::Result<Option<u64>> {
    let mut answer = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path is an empty C string and `answer` a valid place for the result.
    check(unsafe {
        libc::statx(
            file.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            answer.as_mut_ptr(),
        )
    })?;
    // SAFETY: all zeros is a valid value, and the call filled it in.
    let answer = unsafe { answer.assume_init() };
    let needed = answer.stx_dio_mem_align.max(answer.stx_dio_offset_align);
    Ok((answer.stx_mask & libc::STATX_DIOALIGN != 0).then_some(u64::from(needed)))
}

fn signed(bytes: u64) -> io::Result<i64> {
    i64::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))
}

/// Reserves space for a range of a file, where the file system can; it reads as zeros.
pub(super) fn allocate(file: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<()> {
    let (offset, length) = (signed(offset)?, signed(length)?);
    // SAFETY: plain numbers on an open descriptor.
    match check(unsafe { libc::fallocate(file.as_raw_fd(), 0, offset, length) }) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
        other => other.map(drop),
    }
}

/// Cuts or extends a file.
pub(super) fn set_length(file: BorrowedFd<'_>, length: u64) -> io::Result<()> {
    let length = signed(length)?;
    // SAFETY: plain numbers on an open descriptor.
    check(unsafe { libc::ftruncate(file.as_raw_fd(), length) }).map(drop)
}

/// The length of a file in bytes.
pub(super) fn length(file: BorrowedFd<'_>) -> io::Result<u64> {
    let mut answer = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: `answer` is a valid place for the result.
    check(unsafe { libc::fstat(file.as_raw_fd(), answer.as_mut_ptr()) })?;
    // SAFETY: all zeros is a valid value, and the call filled it in.
    Ok(u64::try_from(unsafe { answer.assume_init() }.st_size).unwrap_or(0))
}

/// Writes ranges one after the other at `offset` of a file, now; returns how many bytes.
pub(super) fn write_ranges(
    file: BorrowedFd<'_>,
    ranges: &[IoRange],
    offset: u64,
) -> io::Result<usize> {
    let iovecs: SmallVec<[libc::iovec; 16]> = ranges
        .iter()
        .map(|range| libc::iovec {
            iov_base: range.as_ptr().cast_mut().cast(),
            iov_len: range.len(),
        })
        .collect();
    let count = libc::c_int::try_from(iovecs.len()).unwrap_or(libc::c_int::MAX);
    let offset = signed(offset)?;
    // SAFETY: each iovec covers a range of a block that `ranges` keeps alive; only the kernel
    // reads it, as these ranges ask for.
    let written = unsafe { libc::pwritev2(file.as_raw_fd(), iovecs.as_ptr(), count, offset, 0) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}
