//! What a directory's file system can do: direct I/O, and one flush for all files.
//!
//! Looked up once when a disk is opened, on a blocking thread. In doubt the answer is the safe
//! one: buffered writes, and a flush for each file.

#![expect(
    clippy::disallowed_methods,
    reason = "a probe on a scratch file, before anything is acknowledged"
)]

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use crate::{
    io::{FlushScope, buf::TailBuf, sys},
    limits::DIRECT_ALIGNMENT_BYTES,
};

/// Name of the file through which a disk is flushed; made once and never written again.
pub(super) const FLUSH_FILE: &str = ".flush-handle";

/// What was found about a directory.
#[derive(Clone, Debug)]
pub(in crate::io) struct Nature {
    /// Files can be opened with `O_DIRECT`, and it takes effect.
    pub(super) direct: bool,
    /// Buffered ring writes run at once instead of on a kernel worker thread.
    pub(super) ring_buffers_inline: bool,
    pub(super) flush_scope: FlushScope,
}

impl Nature {
    /// In words, for the operator.
    pub(in crate::io) fn describe(&self) -> &'static str {
        match (self.direct, self.flush_scope) {
            (true, FlushScope::Disk) => "direct pre-written",
            (true, FlushScope::File) => "direct",
            (false, _) => "buffered",
        }
    }
}

/// Looks at `dir`, which exists and can be written to. `scratch` names a file to try things with.
pub(in crate::io) fn examine(dir: &Path, scratch: &str) -> io::Result<Nature> {
    let path = dir.join(scratch);
    let direct = direct_works(&path);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let direct = direct?;
    let mount = mount_of(dir)?;
    let flush_scope = match &mount {
        Some(mount) if direct && mount.flushes_as_one() => FlushScope::Disk,
        _ => FlushScope::File,
    };
    let ring_buffers_inline = mount.is_some_and(|mount| mount.kind == "xfs");
    Ok(Nature { direct, ring_buffers_inline, flush_scope })
}

/// Whether a direct write to a new file at `path` works and is what it claims to be.
fn direct_works(path: &Path) -> io::Result<bool> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT);
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(false),
        Err(error) => return Err(error),
    };
    // A memory file system takes the flag and ignores it.
    if matches!(sys::file_system_type(&file)?, libc::TMPFS_MAGIC | RAMFS_MAGIC) {
        return Ok(false);
    }
    if sys::direct_alignment(&file)?.is_some_and(|needed| !(1..=ALIGNMENT).contains(&needed)) {
        return Ok(false);
    }
    let mut block = TailBuf::unpooled(DIRECT_ALIGNMENT_BYTES);
    block.append(&[0; DIRECT_ALIGNMENT_BYTES]);
    match file.write_at(&block, 0) {
        Ok(written) => Ok(written == DIRECT_ALIGNMENT_BYTES),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(error) => Err(error),
    }
}

const RAMFS_MAGIC: i64 = 0x8584_58f6;
const ALIGNMENT: u64 = DIRECT_ALIGNMENT_BYTES as u64;

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    kind: String,
    options: Vec<String>,
}

impl Mount {
    /// Whether a flush of a clean file makes all finished direct overwrites durable: shown by
    /// power cuts for ext4 and xfs on one device with barriers, and for nothing else.
    fn flushes_as_one(&self) -> bool {
        const BREAK_IT: [&str; 4] = ["data=journal", "barrier=0", "nobarrier", "norecovery"];
        let known = matches!(self.kind.as_str(), "ext4" | "xfs");
        let broken = |option: &String| {
            BREAK_IT.contains(&option.as_str())
                || option.starts_with("rtdev=")
                || option.starts_with("logdev=")
                || option.starts_with("journal_path=")
                || option.starts_with("journal_dev=")
        };
        known && !self.options.iter().any(broken)
    }
}

fn mount_of(dir: &Path) -> io::Result<Option<Mount>> {
    let device = fs::metadata(dir)?.dev();
    let id = format!("{}:{}", libc::major(device), libc::minor(device));
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(table.lines().find_map(|line| parse_mount(line, &id)))
}

/// Reads a line of the mount table if it is about device `id` (proc(5)).
fn parse_mount(line: &str, id: &str) -> Option<Mount> {
    let (place, system) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(2);
    if place.next()? != id {
        return None;
    }
    let mount_options = place.nth(2)?;
    let mut system = system.split(' ');
    let kind = system.next()?.to_owned();
    let super_options = system.nth(1)?;
    let options = mount_options.split(',').chain(super_options.split(',')).map(str::to_owned);
    Some(Mount { kind, options: options.collect() })
}

/// Opens the flush handle of `dir`, making it durably if it is not there.
pub(super) fn flush_handle(dir: &Path) -> io::Result<File> {
    let path = dir.join(FLUSH_FILE);
    match OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(file) => {
            file.write_all_at(b"Flushing this file flushes the disk. Leave it as it is.\n", 0)?;
            file.sync_all()?;
            File::open(dir)?.sync_all()?;
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    file.sync_data()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXT4: &str = "25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard";

    #[test]
    fn a_mount_is_found_by_its_device() {
        let mount = parse_mount(EXT4, "254:0").expect("the device is there");
        assert_eq!(mount.kind, "ext4");
        assert!(mount.flushes_as_one());
        assert_eq!(parse_mount(EXT4, "254:1"), None);
        assert_eq!(parse_mount("nonsense", "254:0"), None);
    }

    #[test]
    fn what_breaks_a_common_flush_is_seen() {
        for (line, good) in [
            (EXT4.replace("discard", "data=journal"), false),
            (EXT4.replace("discard", "nobarrier"), false),
            (EXT4.replace("ext4", "btrfs"), false),
            (EXT4.replace("ext4", "overlay"), false),
            (EXT4.replace("ext4", "xfs"), true),
            (EXT4.replace("ext4", "xfs").replace("discard", "logdev=/dev/vdb"), false),
        ] {
            let mount = parse_mount(&line, "254:0").expect("the device is there");
            assert_eq!(mount.flushes_as_one(), good, "{line}");
        }
    }
}
