//! A client that breaks every rule of the protocol harms nobody but itself: the broker neither
//! panics nor grows nor stalls, and a well-behaved client next to it keeps being served.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use millrace_tests::{
    broker::{Broker, Options},
    kernel::{self, Confinement},
    wire::{self, ApiKey, Connection, Writer},
};

/// Buffer budget of each of the two shards.
const BUDGET_BYTES: u64 = 32 << 20;

/// What the broker may hold beside its buffers: code, stacks, tables, thousands of connections.
const REST_BYTES: u64 = 96 << 20;

/// The worst that a well-behaved client may meet, on a machine that does other things too.
const SLOWEST_ANSWER: Duration = Duration::from_secs(3);

/// Requests for which the generator has a seed; every run is the same.
const SEED: u64 = 0x005e_ed0f_a11e_71c5;

/// A small generator (xorshift): the same bytes in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn bytes(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

/// A well-behaved client at work, and what it met.
struct Bystander {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(u64, Duration)>,
}

impl Bystander {
    fn start(address: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut link = Connection::open(address).expect("a well-behaved client connects");
            let (mut count, mut slowest) = (0, Duration::ZERO);
            while !stopped.load(Ordering::Relaxed) {
                let sent = Instant::now();
                link.produce("bystander", 0, b"value").expect("a well-behaved client is served");
                slowest = slowest.max(sent.elapsed());
                count += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
            (count, slowest)
        });
        Self { stop, thread }
    }

    fn stop(self) -> (u64, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the well-behaved client was served throughout")
    }
}

/// Lets `attack` loose on a fresh broker beside a well-behaved client.
fn withstand(attack: impl FnOnce(SocketAddr)) {
    let settings = Options::default().with("millrace.buffer.bytes", &BUDGET_BYTES.to_string());
    let mut broker = Broker::start(settings.with_shards(2));
    let mut link = Connection::open(broker.address()).expect("it answers");
    link.create_topic("bystander", 2).expect("made");
    let bystander = Bystander::start(broker.address());
    attack(broker.address());
    let (count, slowest) = bystander.stop();
    let peak = kernel::peak_resident_bytes(broker.pid()).expect("it still runs");
    println!(
        "{count} requests beside it, slowest answer {slowest:?}; peak memory {} MiB",
        peak >> 20
    );
    assert!(broker.is_running(), "it ended:\n{}", broker.log());
    assert!(!broker.log().contains("panicked"), "{}", broker.log());
    assert!(slowest < SLOWEST_ANSWER, "an answer took {slowest:?}");
    assert!(peak < 2 * BUDGET_BYTES + REST_BYTES, "{} MiB at its peak", peak >> 20);
    let mut fresh = Connection::open(broker.address()).expect("it still accepts");
    fresh.api_versions().expect("it still answers");
}

/// Sends bytes on a connection of their own and reads what comes until the broker closes, or for
/// a short while. What is answered does not matter here.
fn send_alone(address: SocketAddr, bytes: &[u8]) {
    let Ok(mut stream) = TcpStream::connect(address) else { return };
    let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
    let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read(&mut [0; 512]);
}

/// Api keys 0 to 75 with every version up to 18: known, unknown and long retired ones.
fn every_request(mut each: impl FnMut(i16, i16)) {
    (0..=75).for_each(|key| (0..=18).step_by(3).for_each(|version| each(key, version)));
}

#[test]
fn random_bytes_are_survived() {
    withstand(|address| {
        let mut random = Random(SEED);
        for _ in 0..3_000 {
            let length = random.below(4_000);
            send_alone(address, &random.bytes(length));
        }
        // The same as the body of a request that is well formed up to there.
        for _ in 0..3_000 {
            let (key, version) = (random.below(76), random.below(19));
            let (key, version) = (i16::try_from(key), i16::try_from(version));
            let length = random.below(400);
            let body = random.bytes(length);
            let (key, version) = (key.expect("below 76"), version.expect("below 19"));
            send_alone(address, &wire::request(key, version, 7, &body));
        }
    });
}

#[test]
fn truncated_frames_are_survived() {
    withstand(|address| {
        let batch = wire::one_record_batch(b"value");
        let whole = wire::request(0, 7, 1, &wire::produce_body("bystander", 1, &batch));
        for length in 0..whole.len() {
            send_alone(address, &whole[..length]);
            // The length prefix agrees with the cut, so the broker sees the end as the body's.
            let mut cut = whole[..length].to_vec();
            if let Some(declared) = length.checked_sub(4) {
                let declared = u32::try_from(declared).expect("a short frame");
                cut[..4].copy_from_slice(&declared.to_be_bytes());
                send_alone(address, &cut);
            }
        }
    });
}

#[test]
fn oversized_and_negative_lengths_are_survived() {
    withstand(|address| {
        for declared in [i32::MAX, i32::MIN, -1, 0, 1, 7, 100 << 20, (100 << 20) + 1, 0x4845_4c4f] {
            for rest in [0, 1, 13, 100_000] {
                let mut bytes = declared.to_be_bytes().to_vec();
                bytes.resize(4 + rest, 0x5a);
                send_alone(address, &bytes);
            }
        }
    });
}

#[test]
fn huge_declared_counts_are_survived() {
    withstand(|address| {
        // As INT32 counts and lengths; as INT16 string lengths; as unsigned varints of 32 bits.
        let fillers: [&[u8]; 4] = [
            &[0x7f, 0xff, 0xff, 0xff],
            &[0x7f, 0xff],
            &[0xff, 0xff, 0xff, 0xff, 0x0f],
            &[0x00, 0x00, 0x00, 0x01, 0x7f, 0xff, 0xff, 0xff],
        ];
        every_request(|key, version| {
            for filler in fillers {
                send_alone(address, &wire::request(key, version, 1, &filler.repeat(12)));
            }
        });
    });
}

#[test]
fn broken_batches_are_refused_and_survived() {
    withstand(|address| {
        let batch = wire::one_record_batch(b"some value that is long enough");
        let mut link = Connection::open(address).expect("it accepts");
        // Each byte with each of its bits turned, and with all.
        let masks = [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff];
        for (at, mask) in (0..batch.len()).flat_map(|at| masks.map(|mask| (at, mask))) {
            let mut broken = batch.clone();
            broken[at] ^= mask;
            let body = wire::produce_body("bystander", 1, &broken);
            if link.call(ApiKey::Produce, 7, &body).is_err() {
                link = Connection::open(address).expect("it accepts again");
            }
        }
    });
}

#[test]
fn half_closed_and_vanishing_connections_are_survived() {
    withstand(|address| {
        let whole = wire::request(3, 1, 1, Writer::default().i32(-1).bytes.as_slice());
        for round in 0..4_000 {
            let Ok(mut stream) = TcpStream::connect(address) else { continue };
            let sent = round % (whole.len() + 1);
            let _ = stream.write_all(&whole[..sent]);
            let how = if round % 2 == 0 { Shutdown::Write } else { Shutdown::Read };
            let _ = stream.shutdown(how);
            if round % 3 == 0 {
                let _ = stream.write_all(&whole);
            }
        }
    });
}

#[test]
fn slow_writers_are_survived() {
    withstand(|address| {
        let whole = wire::request(18, 0, 1, &[]);
        let connect = |_| TcpStream::connect(address).expect("it accepts");
        let mut streams: Vec<TcpStream> = (0..200).map(connect).collect();
        // A byte a second from each, spread over the second; five seconds show a stall if any.
        for byte in whole.iter().take(5) {
            for stream in &mut streams {
                let _ = stream.write_all(std::slice::from_ref(byte));
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    });
}

#[test]
fn readers_that_never_read_are_survived() {
    withstand(|address| {
        let mut random = Random(SEED);
        let mut link = Connection::open(address).expect("it accepts");
        for _ in 0..40 {
            let value = random.bytes(100_000);
            link.produce("bystander", 1, &value).expect("acknowledged");
        }
        let mut fetch = Writer::default();
        fetch.i32(-1).i32(0).i32(1).i32(64 << 20).u8(0).i32(1).string("bystander");
        fetch.i32(1).i32(1).i64(0).i32(64 << 20);
        let frame = wire::request(1, 4, 1, &fetch.bytes);
        let mut streams = Vec::new();
        for _ in 0..100 {
            let mut stream = TcpStream::connect(address).expect("it accepts");
            stream.set_nonblocking(true).expect("a socket");
            for _ in 0..50 {
                let _ = stream.write(&frame);
            }
            streams.push(stream);
        }
        std::thread::sleep(Duration::from_secs(3));
    });
}

/// Bytes of a record of the topic "records".
const VALUE_BYTES: usize = 900_000;

/// Makes the topic "records" of one partition with so many batches of one record.
fn write_records(broker: &Broker, batches: usize) -> Connection {
    let mut link = Connection::open(broker.address()).expect("it answers");
    link.create_topic("records", 1).expect("made");
    (0..batches).for_each(|_| write_record(&mut link));
    link
}

/// One more batch of "records".
fn write_record(link: &mut Connection) {
    let value = Random(SEED).bytes(VALUE_BYTES as u64);
    link.produce("records", 0, &value).expect("acknowledged");
}

/// A Fetch of all of "records", in version 4.
fn fetch_of_records() -> Vec<u8> {
    let mut fetch = Writer::default();
    fetch.i32(-1).i32(0).i32(1).i32(64 << 20).u8(0).i32(1).string("records");
    fetch.i32(1).i32(0).i64(0).i32(64 << 20);
    fetch.bytes
}

/// Its answers hold records in memory: it is let go after `connections.max.idle.ms`, though
/// requests of it are open.
#[test]
fn a_reader_that_never_reads_is_let_go() {
    const REQUESTS: usize = 30;
    const BATCHES: usize = 4;
    let broker = Broker::start(Options::default().with("connections.max.idle.ms", "1000"));
    write_records(&broker, BATCHES);
    let frame = wire::request(1, 4, 1, &fetch_of_records());
    let mut stream = TcpStream::connect(broker.address()).expect("it accepts");
    stream.write_all(&frame.repeat(REQUESTS)).expect("sent");
    std::thread::sleep(Duration::from_secs(3));
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    let mut received = Vec::new();
    if let Err(error) = stream.read_to_end(&mut received) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "it is closed");
    }
    assert!(received.len() < REQUESTS * BATCHES * VALUE_BYTES, "all was sent to who did not read");
}

#[test]
fn thousands_of_connections_are_survived() {
    let most = kernel::raise_descriptor_limit().expect("our own limit");
    let count = usize::try_from(most / 4).unwrap_or(5_000).min(5_000);
    withstand(|address| {
        let started = Instant::now();
        let connect = |_| TcpStream::connect(address);
        let mut streams: Vec<TcpStream> =
            (0..count).filter_map(|at: usize| connect(at).ok()).collect();
        println!("{} connections in {:?}", streams.len(), started.elapsed());
        // Half a request on each, so that each holds whatever a connection can hold.
        let frame = wire::request(18, 0, 1, &[]);
        for stream in &mut streams {
            let _ = stream.write_all(&frame[..frame.len() / 2]);
        }
        std::thread::sleep(Duration::from_secs(1));
    });
}

/// A ProduceRequest's frame of one partition, so long that it needs many receives.
fn long_frame(bytes: usize) -> Vec<u8> {
    wire::request(0, 7, 1, &vec![0x5a; bytes])
}

/// Whether the broker ends the connection within `time`.
fn is_ended(mut stream: &TcpStream, time: Duration) -> bool {
    stream.set_read_timeout(Some(time)).expect("a socket");
    match stream.read(&mut [0; 1]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

/// Unlike a stall, frames that go on arriving were not counted at all.
#[test]
fn large_frames_that_never_end_are_bounded_and_harm_no_small_one() {
    const BEGUN_BYTES_PER_SHARD: usize = 128 << 20;
    const PART_BYTES: usize = 4 << 20;
    const LARGE: usize = 60;
    let options = Options::default().with("millrace.buffer.bytes", &BUDGET_BYTES.to_string());
    let broker = Broker::start(options.with_shards(1));
    let small_frame = wire::request(18, 0, 9, &[]);
    let begin_small = |_| {
        let mut small = TcpStream::connect(broker.address()).expect("it accepts");
        small.write_all(&small_frame[..6]).expect("sent");
        small
    };
    let mut small: Vec<TcpStream> = (0..50).map(begin_small).collect();
    let part = &long_frame(2 * PART_BYTES)[..PART_BYTES];
    let mut large = Vec::new();
    for _ in 0..LARGE {
        let mut stream = TcpStream::connect(broker.address()).expect("it accepts");
        stream.write_all(part).expect("sent");
        large.push(stream);
    }
    // One more byte now and then, as from a client that is merely slow.
    let (mut open, begun) = (large, Instant::now());
    while open.len() * PART_BYTES > BEGUN_BYTES_PER_SHARD {
        assert!(begun.elapsed() < Duration::from_secs(20), "{} are open", open.len());
        open.retain_mut(|stream| {
            let _ = stream.write_all(&[0]);
            !is_ended(stream, Duration::from_millis(1))
        });
    }
    assert!(!open.is_empty(), "more were closed than had to be");
    for stream in &mut small {
        stream.write_all(&small_frame[6..]).expect("sent");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
        stream.read_exact(&mut [0; 8]).expect("a small request is answered");
    }
    let peak = kernel::peak_resident_bytes(broker.pid()).expect("it runs");
    let bound = BEGUN_BYTES_PER_SHARD as u64 + BUDGET_BYTES + REST_BYTES;
    assert!(peak < bound, "{} MiB at its peak", peak >> 20);
}

/// A byte now and then kept a frame, and its connection, for ever.
#[test]
fn a_frame_that_trickles_meets_its_deadline() {
    const LONGEST: Duration = Duration::from_secs(60);
    let broker = Broker::start(Options::default());
    let mut link = Connection::open(broker.address()).expect("it answers");
    let mut stream = TcpStream::connect(broker.address()).expect("it accepts");
    let frame = long_frame(100_000);
    let begun = Instant::now();
    let mut bytes = frame.iter();
    while !is_ended(&stream, Duration::from_millis(20)) {
        assert!(begun.elapsed() < LONGEST, "it trickles on");
        let _ = stream.write_all(&[*bytes.next().expect("a long frame")]);
    }
    link.api_versions().expect("an idle connection stays");
}

/// Answers that nobody takes give way long before `connections.max.idle.ms`, and a reader that is
/// slow but reads is not touched.
#[test]
fn answers_that_nobody_takes_give_way() {
    const DEAF: usize = 12;
    let options = Options::default().with("millrace.buffer.bytes", &BUDGET_BYTES.to_string());
    let broker = Broker::start(options.with_shards(1));
    let mut link = write_records(&broker, 8);
    let frame = wire::request(1, 4, 1, &fetch_of_records());
    let ask = |_| {
        let mut stream = TcpStream::connect(broker.address()).expect("it accepts");
        stream.write_all(&frame.repeat(8)).expect("sent");
        stream
    };
    let descriptors = || {
        let folder = format!("/proc/{}/fd", broker.pid());
        std::fs::read_dir(folder).expect("it runs").count()
    };
    let before = descriptors();
    let _deaf: Vec<TcpStream> = (0..DEAF).map(ask).collect();
    let mut slow = Connection::open(broker.address()).expect("it answers");
    slow.send(ApiKey::Fetch, 4, &fetch_of_records()).expect("sent");
    let begun = Instant::now();
    // An answer holds 7 MiB and a quarter of the budget is 8: at most one of the deaf stays.
    while descriptors() > before + 2 {
        assert!(begun.elapsed() < Duration::from_secs(30), "{} are open", descriptors() - before);
        (&mut slow.stream()).read_exact(&mut [0; 32 << 10]).expect("it is still answered");
        std::thread::sleep(Duration::from_millis(50));
    }
    write_record(&mut link);
}

/// With no descriptor left it says so once, serves whom it has, and goes on accepting later.
#[test]
fn a_lack_of_descriptors_is_told_and_passes() {
    const DESCRIPTORS: u64 = 1200;
    const COMPLAINT: &str = "no connection can be accepted";
    kernel::raise_descriptor_limit().expect("our own limit");
    let confinement = Confinement { descriptors: Some(DESCRIPTORS), ..Confinement::default() };
    let options = Options { confinement, ..Options::default() };
    let broker = Broker::start(options.with_shards(2));
    let mut early = Connection::open(broker.address()).expect("it answers");
    early.create_topic("records", 2).expect("made");
    early.produce("records", 0, b"value").expect("acknowledged");
    let connect = |_| TcpStream::connect(broker.address()).expect("the backlog takes it");
    let crowd: Vec<TcpStream> = (0..DESCRIPTORS).map(connect).collect();
    let mut late = Connection::open(broker.address()).expect("the backlog takes it");
    let sent = late.send(ApiKey::ApiVersions, 0, &[]).expect("sent");
    let begun = Instant::now();
    while !broker.log().contains(COMPLAINT) {
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing is said: {}", broker.log());
        early.produce("records", 0, b"value").expect("who is in is served");
    }
    // Many more tries to accept than lines.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(broker.log().matches(COMPLAINT).count(), 1, "{}", broker.log());
    early.produce("records", 0, b"value").expect("who is in is served");
    drop(crowd);
    assert_eq!(late.receive().expect("it is accepted now").0, sent);
    early.produce("records", 0, b"value").expect("still served");
}
