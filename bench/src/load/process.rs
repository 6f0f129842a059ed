//! What a process on this host has used, from `/proc`.

use std::{fs, time::Duration};

/// Clock ticks per second in `/proc`: fixed in the kernel's interface to user space.
const TICKS_PER_SECOND: u64 = 100;

/// What a process has used up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user and kernel mode, of all threads.
    pub cpu: Duration,
    /// Resident memory now, in bytes.
    pub rss_bytes: u64,
}

impl Usage {
    /// Of the process `pid`; `None` when it does not exist or may not be looked at.
    pub fn of(pid: u32) -> Option<Self> {
        Self::read(&pid.to_string())
    }

    /// Of this process.
    pub fn own() -> Option<Self> {
        Self::read("self")
    }

    fn read(process: &str) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        Some(Self { cpu: cpu(&stat)?, rss_bytes: rss_bytes(&status)? })
    }
}

/// Fields 14 and 15 of `stat`, counted behind the name, which may hold spaces and parentheses.
fn cpu(stat: &str) -> Option<Duration> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 1_000 / TICKS_PER_SECOND))
}

fn rss_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 3 0 100 1 2";
        assert_eq!(cpu(stat), Some(Duration::from_secs(2)));
        assert_eq!(rss_bytes("Name:\ta\nVmRSS:\t  2048 kB\n"), Some(2 << 20));
        assert!(Usage::own().is_some_and(|usage| usage.rss_bytes > 0));
        assert_eq!(Usage::of(u32::MAX), None);
    }
}
