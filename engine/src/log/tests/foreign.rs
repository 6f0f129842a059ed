//! A partition's directory as Apache Kafka leaves it.

use super::*;

/// Batches with a gap (compaction leaves those), Kafka's own side files, preallocated indexes.
fn kafka_directory(world: &World) -> Vec<u8> {
    let mut segments: [Vec<u8>; 2] = Default::default();
    for (segment, base) in [(0, 0), (0, 5), (1, 9)] {
        let options = BatchOptions { base_offset: Offset(base), ..BatchOptions::default() };
        segments[segment].extend(batch(&[b"a", b"b"], 1_000 + base, &options).1);
    }
    let disk = world.sim.disk();
    world.sim.block_on({
        let disk = disk.clone();
        async move {
            use crate::io::Disk;
            disk.create_dir(dir()).await.expect("made");
        }
    });
    let all = segments.concat();
    let [first, second] = segments;
    disk.edit(&file("00000000000000000000.log"), |content| *content = first);
    disk.edit(&file("00000000000000000009.log"), |content| *content = second);
    for name in ["00000000000000000000.index", "00000000000000000009.timeindex"] {
        disk.edit(&file(name), |content| content.resize(4_096, 0));
    }
    disk.edit(&file("00000000000000000009.snapshot"), |content| content.push(0));
    disk.edit(&file("partition.metadata"), |content| {
        content.extend_from_slice(b"version: 0\ntopic_id: MkU3OEVBNTcwNTJENDM2Qg");
    });
    disk.edit(&file("leader-epoch-checkpoint"), |content| {
        content.extend_from_slice(b"0\n1\n0 0\n");
    });
    all
}

#[test]
fn it_opens_reads_and_goes_on() {
    let world = World::fresh();
    let mut all = kafka_directory(&world);
    let (log, report) = world.open(&Settings::default());
    assert_eq!(report.damage, Vec::<String>::new());
    assert_eq!(end(&log), Offset(11));
    assert_eq!(world.read_all(&log), all);
    let appended = world.append(&log, &[b"ours"]);
    assert_eq!(appended.base_offset, Offset(11));
    all = world.read_all(&log);
    drop(log);
    let world = world.power_cut();
    let (log, report) = world.open(&Settings::default());
    assert_eq!(report.damage, Vec::<String>::new());
    assert_eq!(world.read_all(&log), all, "the gap stays legal, ours are dense");
}

#[test]
fn an_offset_in_a_gap_reads_the_next_batch() {
    let world = World::fresh();
    kafka_directory(&world);
    let (log, _) = world.open(&Settings::default());
    for (from, base) in [(1, 0), (3, 5), (7, 9), (8, 9)] {
        let Read::Cold(cold) = log.read(Offset(from), 1, end(&log)) else {
            panic!("nothing is in memory")
        };
        let log = log.clone();
        let chain = world.sim.block_on(async move { log.read_cold(cold).await });
        let header = Header::from_chain(&chain.expect("readable"), 0).expect("a batch");
        assert_eq!(header.base_offset, Offset(base), "from {from}");
    }
}
