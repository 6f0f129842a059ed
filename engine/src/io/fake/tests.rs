use std::path::Path;

use super::*;
use crate::io::{Disk, DiskFile, FlushScope, OpenMode, buf::TailBuf};

fn block(byte: u8) -> TailBuf {
    let mut buffer = TailBuf::unpooled(4096);
    buffer.append(&[byte; 4096]);
    buffer
}

#[test]
fn a_device_flush_keeps_overwrites_only() {
    let mut lost = 0;
    for seed in 0..64_u64 {
        let sim = Sim::new(seed * 8);
        let disk = sim.disk();
        assert_eq!(disk.flush_scope(), FlushScope::Disk);
        sim.block_on(async move {
            disk.create_dir(Path::new("/d")).await.expect("made");
            let file = disk.open(Path::new("/d/f"), OpenMode::Write).await.expect("opened");
            file.write_zeros(0, 4096).await.expect("zeroed");
            file.sync().await.expect("synced");
            disk.sync_dir(Path::new("/d")).await.expect("synced");
            file.write_at(&[block(1).io_range(0..4096)], 0).await.expect("written");
            file.write_at(&[block(2).io_range(0..4096)], 4096).await.expect("written");
            disk.flush().await.expect("flushed");
        });
        let sim = sim.crash(seed);
        let content = sim.disk().content(Path::new("/d/f")).expect("its name was synced");
        assert_eq!(&content[..4096], &[1; 4096][..], "seed {seed}");
        lost += usize::from(content.len() < 8192 || content[4096..] != [2; 4096]);
    }
    assert!(lost > 0, "an extending write is not covered by a device flush");
}

#[test]
fn unsynced_names_and_unreaped_writes_may_go() {
    let (mut no_name, mut no_bytes) = (0, 0);
    for seed in 0..64_u64 {
        let sim = Sim::new(seed * 8);
        let disk = sim.disk();
        sim.block_on(async move {
            disk.create_dir(Path::new("/d")).await.expect("made");
            let file = disk.open(Path::new("/d/f"), OpenMode::Write).await.expect("opened");
            file.write_zeros(0, 4096).await.expect("zeroed");
            file.sync().await.expect("synced");
            let buffer = block(3);
            let ranges = [buffer.io_range(0..4096)];
            let write = Box::pin(file.write_at(&ranges, 0));
            let flush = Box::pin(disk.flush());
            // Both are in flight at once: the flush must not cover the write.
            let (mut write, mut flush, mut left) = (Some(write), Some(flush), 2);
            std::future::poll_fn(move |context| {
                if write.as_mut().is_some_and(|one| one.as_mut().poll(context).is_ready()) {
                    write = None;
                    left -= 1;
                }
                if flush.as_mut().is_some_and(|one| one.as_mut().poll(context).is_ready()) {
                    flush = None;
                    left -= 1;
                }
                if left == 0 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            })
            .await;
        });
        match sim.crash(seed).disk().content(Path::new("/d/f")) {
            None => no_name += 1,
            Some(content) => no_bytes += usize::from(content[..4096] != [3; 4096]),
        }
    }
    assert!(no_name > 0 && no_bytes > 0, "{no_name} names, {no_bytes} writes lost");
}

#[test]
fn a_seed_is_a_whole_run() {
    let run = |seed| {
        let sim = Sim::new(seed);
        let env = sim.env();
        for _ in 0..10 {
            let env = env.clone();
            use crate::io::{Clock, Spawn};
            env.clone().spawn(async move { env.sleep(std::time::Duration::from_millis(1)).await });
        }
        sim.advance(std::time::Duration::from_secs(1));
        use crate::io::Entropy;
        env.next_u64()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
