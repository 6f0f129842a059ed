//! What a broker costs that does little: memory, CPU and disk.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use millrace_tests::{
    broker::{Broker, Options},
    kernel,
    wire::Connection,
};

const MIB: u64 = 1 << 20;
const EMPTY_MIB: u64 = 30;
const LOADED_MIB: u64 = 120;
const PARTITIONS: i32 = 1_000;
const CONNECTIONS: usize = 1_000;

/// One percent of a core.
const IDLE_CPU_PER_MILLE: u64 = 10;

/// By then a log that is not written to has its durable end on disk (after 2 s), has given back the
/// memory of its tail (after 10 s) and has nothing left to do: the broker is idle.
const LAST_CARE_AFTER: Duration = Duration::from_secs(16);

fn resident_mib(broker: &Broker) -> u64 {
    kernel::resident_bytes(broker.pid()).expect("it runs") / MIB
}

/// CPU used over a while of nothing, in thousandths of a core.
fn idle_per_mille(broker: &Broker, over: Duration) -> u64 {
    let before = kernel::cpu_us(broker.pid()).expect("it runs");
    let started = Instant::now();
    thread::sleep(over);
    let used = kernel::cpu_us(broker.pid()).expect("it runs") - before;
    let elapsed = u64::try_from(started.elapsed().as_micros()).expect("a short while");
    used * 1000 / elapsed
}

/// Bytes of disk that a directory and all below it occupy.
fn disk_bytes(folder: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += metadata.blocks() * 512;
        if metadata.is_dir() {
            sum += disk_bytes(&entry.path())?;
        }
    }
    Ok(sum)
}

#[test]
fn an_empty_broker_is_small_and_asleep() {
    let broker = Broker::start(Options::default());
    let resident = resident_mib(&broker);
    let idle = idle_per_mille(&broker, Duration::from_secs(5));
    println!("empty: {resident} MiB resident, {idle} thousandths of a core when idle");
    assert!(resident <= EMPTY_MIB, "{resident} MiB");
    assert!(idle < IDLE_CPU_PER_MILLE, "{idle} thousandths of a core");
}

#[test]
fn a_thousand_partitions_and_connections_cost_little() {
    kernel::raise_descriptor_limit().expect("our own limit");
    let broker = Broker::start(Options::default());
    let empty_disk = disk_bytes(broker.data_dir()).expect("our own files");
    let mut link = Connection::open(broker.address()).expect("it answers");
    for topic in 0..10 {
        link.create_topic(&format!("idle-{topic}"), PARTITIONS / 10).expect("made");
    }
    let mut links = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let mut link = Connection::open(broker.address()).expect("it accepts");
        link.api_versions().expect("it answers");
        links.push(link);
    }
    let untouched = resident_mib(&broker);
    // A partition that was never written to may cost nothing yet; so each gets a record.
    let unwritten = disk_bytes(broker.data_dir()).expect("our own files") - empty_disk;
    for topic in 0..10 {
        for partition in 0..PARTITIONS / 10 {
            let produced = link.produce(&format!("idle-{topic}"), partition, b"value");
            produced.expect("acknowledged");
        }
    }
    let written = disk_bytes(broker.data_dir()).expect("our own files") - empty_disk;
    let resident = resident_mib(&broker);
    thread::sleep(LAST_CARE_AFTER);
    let idle = idle_per_mille(&broker, Duration::from_secs(5));
    let partitions = u64::try_from(PARTITIONS).expect("positive");
    println!(
        "{PARTITIONS} partitions, {CONNECTIONS} connections: {untouched} MiB resident, {resident} \
         MiB after a record each, {idle} thousandths of a core when idle; disk per partition \
         {} KiB empty, {} KiB with a record",
        (unwritten / partitions) >> 10,
        (written / partitions) >> 10
    );
    assert!(untouched <= LOADED_MIB && resident <= LOADED_MIB, "{untouched}, {resident} MiB");
    assert!(idle < IDLE_CPU_PER_MILLE, "{idle} thousandths of a core");
    assert!(unwritten / partitions <= MIB, "{} bytes", unwritten / partitions);
    assert!(written / partitions <= 2 * MIB, "{} bytes", written / partitions);
}
