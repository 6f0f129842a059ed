//! A small file system of its own, for what only happens on one that is full or cannot be written.
//!
//! Knows no broker. Invariant: it is taken away with its fixture; whoever still has files open in
//! it then only delays the kernel.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::{broker, kernel};

/// A mounted file system.
#[derive(Debug)]
pub struct Mount {
    point: PathBuf,
    _folder: TempDir,
}

/// Users cannot be switched nor file systems mounted without root; the test then says so and
/// passes.
#[must_use]
pub fn may_mount() -> bool {
    let root = kernel::is_root();
    if !root {
        println!("not run: needs root");
    }
    root
}

fn run(command: &mut Command) {
    let status = command.status().expect("the program is installed");
    assert!(status.success(), "{command:?}: {status}");
}

impl Mount {
    fn new(from: impl FnOnce(&Path, &mut Command)) -> Self {
        let folder = broker::fresh_folder("mount");
        let point = folder.path().join("data");
        fs::create_dir(&point).expect("our own folder");
        let mut command = Command::new("mount");
        from(folder.path(), &mut command);
        run(command.arg(&point));
        Self { point, _folder: folder }
    }

    /// A file system in memory with these mount options.
    #[must_use]
    pub fn tmpfs(options: &str) -> Self {
        Self::new(|_, command| {
            command.args(["-t", "tmpfs", "-o", options, "tmpfs"]);
        })
    }

    /// An ext4 of `mib` MiB with room for `files` files and directories or a few more, all of it
    /// for everybody's use.
    #[must_use]
    pub fn ext4(mib: u64, files: u32) -> Self {
        Self::new(|folder, command| {
            let image = folder.join("image");
            File::create(&image).and_then(|file| file.set_len(mib << 20)).expect("a sparse file");
            let mut make = Command::new("mkfs.ext4");
            make.args(["-q", "-F", "-m", "0", "-N", &files.to_string()]);
            run(make.arg(&image));
            command.args(["-o", "loop"]).arg(&image);
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.point
    }

    /// Takes every free block with one file, which gives them back when it is removed.
    pub fn fill_blocks(&self) -> io::Result<PathBuf> {
        let path = self.point.join("filler");
        let mut file = File::create(&path)?;
        for size in [1 << 20, 4 << 10] {
            let zeros = vec![1; size];
            let full = loop {
                if let Err(error) = file.write_all(&zeros).and_then(|()| file.sync_data()) {
                    break error;
                }
            };
            if full.kind() != io::ErrorKind::StorageFull {
                return Err(full);
            }
        }
        Ok(path)
    }

    /// Takes every free inode with empty files in one directory, to be removed with all in it.
    pub fn fill_inodes(&self) -> io::Result<PathBuf> {
        let path = self.point.join("fillers");
        fs::create_dir(&path)?;
        for number in 0.. {
            match File::create(path.join(number.to_string())) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                Err(error) => return Err(error),
            }
        }
        Ok(path)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily, as a broker that was killed may hold its last file a little longer.
        let _ = Command::new("umount").arg("-l").arg(&self.point).status();
    }
}
