//! What a batch costs before it reaches a log: its CRC, all checks, and the broker's own time.
//!
//! Batches lie in 64 KiB receive buffers and in the core's caches, as they do right after the
//! kernel has put them there.

mod batches;
mod settings;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use millrace_engine::{
    batch::{HEADER_BYTES, Header, Rules, TimestampType, check, checksum, shift_checksum},
    io::buf::Chain,
};

use batches::{RECORD_TIME_MS, batch_of, received};

const SIZES: [(&str, usize); 3] = [("1KiB", 1 << 10), ("16KiB", 16 << 10), ("1MiB", 1 << 20)];

fn header_of(batch: &Chain) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    batch.copy_to(0, &mut header);
    header
}

fn crc(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("batch/checksum");
    for (name, bytes) in SIZES {
        let batch = received(&batch_of(bytes));
        let header = header_of(&batch);
        let payload = batch.sub(HEADER_BYTES..batch.len());
        let sum = || {
            let slices = payload.slices().iter().map(|slice| &**slice);
            checksum(black_box(&header), slices)
        };
        assert_eq!(sum(), Header::parse(&header).crc, "the batch carries this checksum");
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(name, |bencher| bencher.iter(sum));
    }
}

/// As received, with every record walked (`compacted` topics and time bounds), and with the
/// broker's time and the CRC that follows from it.
fn checks(criterion: &mut Criterion) {
    let kafkas = Rules::default();
    let strict = Rules { strict: true, ..Rules::default() };
    let append_time = Rules { timestamp_type: TimestampType::LogAppendTime, ..Rules::default() };
    let mut group = criterion.benchmark_group("batch/check");
    for (name, bytes) in SIZES {
        let batch = received(&batch_of(bytes));
        group.throughput(Throughput::Bytes(bytes as u64));
        for (rule, rules) in
            [("CreateTime", &kafkas), ("LogAppendTime", &append_time), ("strict", &strict)]
        {
            let now_ms = RECORD_TIME_MS + 5;
            check(&batch, rules, now_ms).expect("the batch is accepted");
            group.bench_function(BenchmarkId::new(rule, name), |bencher| {
                bencher.iter(|| check(black_box(&batch), rules, black_box(now_ms)));
            });
        }
    }
}

/// The CRC of a changed header alone, without the payload; see `LogAppendTime` above for the whole.
fn shift(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("batch/shift_checksum");
    for (name, bytes) in SIZES {
        let old = header_of(&received(&batch_of(bytes)));
        let mut stamped = Header::parse(&old);
        stamped.max_timestamp_ms += 5;
        let new = stamped.encode();
        let payload_bytes = u32::try_from(bytes - HEADER_BYTES).expect("small");
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                shift_checksum(stamped.crc, black_box(&old), black_box(&new), payload_bytes)
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = settings::criterion();
    targets = crc, checks, shift
}
criterion_main!(benches);
