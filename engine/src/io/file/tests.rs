use std::{future::Future, io::ErrorKind, path::PathBuf, rc::Rc};

use super::*;
use crate::{
    io::{
        Disk, DiskFile, FlushScope, OpenMode, Spawn,
        buf::TailBuf,
        runtime::{RuntimeOptions, ShardContext, run_shards},
    },
    limits::DIRECT_ALIGNMENT_BYTES,
};

/// Runs `main` on one shard with a disk in each kind of directory this machine has.
fn on_disks<T: Future<Output = ()> + 'static>(
    main: impl Fn(ShardContext<()>, RealDisk, PathBuf) -> T + Send + Sync + 'static,
) {
    let main = std::sync::Arc::new(main);
    // Mostly a real file system, and one in memory, which is never direct.
    for parent in [std::env::temp_dir(), PathBuf::from("/dev/shm")] {
        let dir = tempfile::tempdir_in(parent).expect("the directory can be written to");
        for (at, options) in RuntimeOptions::for_tests(1).on_each_executor().iter().enumerate() {
            let (path, main) = (dir.path().join(at.to_string()), main.clone());
            std::fs::create_dir(&path).expect("the directory is new");
            let shards = run_shards(options, move |shard| {
                let (path, main) = (path.clone(), main.clone());
                async move {
                    let disk = RealDisk::open(&path).await.expect("opens");
                    main(shard, disk, path).await;
                }
            });
            shards.expect("starts").join().expect("ends");
        }
    }
}

fn block_of(byte: u8, blocks: usize) -> TailBuf {
    let bytes = vec![byte; blocks * DIRECT_ALIGNMENT_BYTES];
    let mut buffer = TailBuf::unpooled(bytes.len());
    assert_eq!(buffer.append(&bytes), bytes.len());
    buffer
}

#[test]
fn what_is_written_is_read_at_any_offset() {
    on_disks(|_, disk, dir| async move {
        let file = disk.open(&dir.join("0.log"), OpenMode::Write).await.expect("opens");
        let (ones, twos) = (block_of(1, 2), block_of(2, 1));
        let ranges = [ones.io_range(0..8192), twos.io_range(0..4096)];
        file.write_at(&ranges, 4096).await.expect("writes");
        file.sync().await.expect("syncs");
        assert_eq!(file.length().await.expect("has one"), 16384);
        let read = file.read_at(12_000, 1000).await.expect("reads");
        let (before, after) = read.split_at(288);
        assert!(before.iter().all(|&byte| byte == 1) && after.iter().all(|&byte| byte == 2));
        assert_eq!(after.len(), 712);
        assert_eq!(file.read_at(16_000, 9999).await.expect("reads").len(), 384);
        assert!(file.read_at(50_000, 10).await.expect("reads").is_empty());
        assert_eq!(file.read_at(1, 1 << 20).await.expect("reads").len(), 16_383);
        file.set_length(5000).await.expect("cuts");
        assert_eq!(file.read_at(4096, 4096).await.expect("reads").len(), 904);
        drop(file);
        let file = disk.open(&dir.join("0.log"), OpenMode::Read).await.expect("opens");
        assert_eq!(&file.read_at(4096, 2).await.expect("reads")[..], [1, 1]);
    });
}

#[test]
fn zeros_extend_a_file_and_replace_what_was_there() {
    on_disks(|_, disk, dir| async move {
        let file = disk.open(&dir.join("0.log"), OpenMode::Write).await.expect("opens");
        let length = (3 << 20) + (68 << 10);
        file.write_zeros(0, length).await.expect("writes");
        assert_eq!(file.length().await.expect("has one"), length);
        let block = block_of(9, 4);
        for round in 0..3 {
            file.write_at(&[block.io_range(0..16384)], 65536 + round * 16384).await.expect("ok");
        }
        file.write_zeros(65536, 4096).await.expect("writes");
        let read = file.read_at(65536, 8192).await.expect("reads");
        assert!(read[..4096].iter().all(|&byte| byte == 0));
        assert!(read[4096..].iter().all(|&byte| byte == 9));
        let missing = disk.open(&dir.join("none"), OpenMode::Read).await.expect_err("absent");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn writes_in_flight_together_all_arrive() {
    on_disks(|shard, disk, dir| async move {
        let file = disk.open(&dir.join("0.log"), OpenMode::Write).await.expect("opens");
        file.write_zeros(0, 1 << 20).await.expect("writes");
        let left = Rc::new(std::cell::Cell::new(64));
        for index in 0..64u8 {
            let (file, left) = (file.clone(), left.clone());
            shard.env.spawn(async move {
                let block = block_of(index + 1, 1);
                let at = u64::from(index) * 4096;
                file.write_at(&[block.io_range(0..4096)], at).await.expect("writes");
                left.update(|count| count - 1);
            });
        }
        while left.get() > 0 {
            shard.env.yield_now().await;
        }
        if disk.flush_scope() == FlushScope::Disk {
            disk.flush().await.expect("flushes");
        }
        let read = file.read_at(0, 64 * 4096).await.expect("reads");
        for (block, index) in read.chunks(4096).zip(1u8..) {
            assert!(block.iter().all(|&byte| byte == index), "block {index}");
        }
    });
}

#[test]
fn a_write_that_nobody_waits_for_keeps_its_buffer() {
    on_disks(|shard, disk, dir| async move {
        let file = disk.open(&dir.join("0.log"), OpenMode::Write).await.expect("opens");
        let before = shard.pool.in_use_bytes();
        {
            let mut block = shard.pool.take(1 << 18).expect("within budget");
            block.append(&vec![5; 1 << 18]);
            let range = [block.io_range(0..1 << 18)];
            let mut write = Box::pin(file.write_at(&range, 0));
            let poll = |cx: &mut std::task::Context<'_>| {
                std::task::Poll::Ready(write.as_mut().poll(cx).is_ready())
            };
            std::future::poll_fn(poll).await;
        }
        while shard.pool.in_use_bytes() > before {
            shard.env.yield_now().await;
        }
    });
}

#[test]
fn directories_and_small_files_do_what_they_say() {
    on_disks(|_, disk, dir| async move {
        let deep = dir.join("a/b");
        disk.create_dir(&deep).await.expect("makes");
        disk.create_dir(&deep).await.expect("is there");
        disk.write_file(&deep.join("x"), b"old").await.expect("writes");
        disk.write_file(&deep.join("x"), b"new!").await.expect("writes");
        assert_eq!(disk.read_file(&deep.join("x"), 4).await.expect("reads"), b"new!");
        let long = disk.read_file(&deep.join("x"), 3).await.expect_err("too long");
        assert_eq!(long.kind(), ErrorKind::InvalidData);
        disk.rename(&deep.join("x"), &deep.join("w")).await.expect("renames");
        disk.write_file(&deep.join("y"), b"").await.expect("writes");
        disk.sync_dir(&deep).await.expect("syncs");
        assert_eq!(disk.list(&deep).await.expect("lists"), ["w", "y"]);
        disk.remove_file(&deep.join("w")).await.expect("removes");
        disk.remove_file(&deep.join("y")).await.expect("removes");
        disk.remove_dir(&deep).await.expect("removes");
        assert_eq!(disk.list(&dir).await.expect("lists"), [".flush-handle", "a"]);
    });
}

#[test]
fn a_failed_flush_is_reported() {
    on_disks(|_, disk, _| async move {
        // An eventfd takes writes and refuses to be synced.
        let odd = crate::io::sys::eventfd().expect("a descriptor is left");
        let file = RealFile::of(&disk, odd);
        let error = file.sync().await.expect_err("cannot be synced");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    });
}

#[test]
fn memory_is_never_taken_for_a_disk() {
    on_disks(|_, disk, dir| async move {
        if dir.starts_with("/dev/shm") {
            assert_eq!(disk.describe(), "buffered");
            assert_eq!(disk.flush_scope(), FlushScope::File);
        }
    });
}
