//! A corpus of real text goes through a broker that dies again and again with work in hand, and
//! comes back line by line: nothing lost, nothing doubled.
//!
//! `kcat -P` with idempotence is the producer; it sees the broker through a proxy that knows which
//! produce requests are unanswered, so that each kill is shown to have cut one off.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use millrace_tests::{
    broker, corpus,
    kernel::{self, Signal},
    proxy::Proxy,
    server::Server,
    wire::Connection,
};
use tempfile::TempDir;

const TOPIC: &str = "corpus";
const PARTITIONS: i32 = 12;
const LINES_PER_SECOND: usize = 3_000;

/// How long the producer may go without a request; longer than its own retry backoff by far.
const NEXT_REQUEST: Duration = Duration::from_secs(30);

/// How long the producer may stand still: a run of lines between two kills takes far less.
const STALLED: Duration = Duration::from_secs(120);

/// Kills that miss (the answer was faster) before the suite calls itself broken.
const MISSES: usize = 200;

/// What one run is to do.
struct Plan {
    lines: usize,
    kills: usize,
}

#[test]
#[ignore = "needs kcat; a slice of 20 s for CI: cargo test -p millrace-tests --test \
            kill_under_load -- --ignored three_kills"]
fn three_kills_lose_and_double_nothing() {
    run(&Plan { lines: 20_000, kills: 3 });
}

#[test]
#[ignore = "needs kcat and minutes: cargo test -p millrace-tests --test kill_under_load -- \
            --ignored --nocapture twenty_kills; MILLRACE_CORPUS_LINES sets how many lines"]
fn twenty_kills_lose_and_double_nothing() {
    let lines = std::env::var("MILLRACE_CORPUS_LINES").ok().and_then(|text| text.parse().ok());
    run(&Plan { lines: lines.unwrap_or(400_000), kills: 20 });
}

fn run(plan: &Plan) {
    let lines = Arc::new(corpus::lines(plan.lines));
    assert!(lines.len() * 2 >= plan.lines, "this host ships only {} lines", lines.len());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound above").port();
    let mut server = Server::start(Some(port));
    let proxy = Proxy::start(listener, server.address()).expect("the proxy listens");
    let mut admin = Connection::open(server.address()).expect("the broker answers");
    admin.create_topic(TOPIC, PARTITIONS).expect("the topic is made");
    drop(admin);

    let started = Instant::now();
    let mut producer = Producer::start(port);
    let written = Arc::new(AtomicUsize::new(0));
    let input = producer.process.stdin.take().expect("piped");
    let pacer = pace(Arc::clone(&lines), input, Arc::clone(&written));
    let mut misses = 0;
    for kill in 1..=plan.kills {
        let point = lines.len() * kill / (plan.kills + 1);
        producer.wait_until(|| written.load(Ordering::Relaxed) >= point);
        misses += kill_with_work_in_hand(&mut server, &proxy, misses);
    }
    producer.wait_until(|| pacer.is_finished());
    pacer.join().expect("the pacer does not panic").expect("kcat takes all lines");
    let ended = producer.end();
    assert!(ended.success(), "kcat -P: {ended}\n{}", producer.log());
    let took = started.elapsed();
    println!(
        "{} lines in {took:.1?}, {} kills each with a produce request unanswered, {misses} more \
         without, {} produce requests",
        lines.len(),
        plan.kills,
        proxy.forwarded()
    );
    compare(&lines, &read_back(server.address()));
    server.stop();
}

/// `kcat -P`, which does not outlive this.
struct Producer {
    process: Child,
    folder: TempDir,
}

impl Producer {
    fn start(port: u16) -> Self {
        let folder = broker::fresh_folder("kcat");
        let mut kcat = Command::new("kcat");
        // -E: an unreachable broker is what this is about, and no reason to give up.
        kcat.args(["-P", "-E", "-b", &format!("127.0.0.1:{port}"), "-t", TOPIC]);
        for property in [
            "enable.idempotence=true",
            "reconnect.backoff.ms=50",
            "reconnect.backoff.max.ms=200",
            "retry.backoff.ms=50",
            "message.timeout.ms=600000",
        ] {
            kcat.args(["-X", property]);
        }
        let log = File::create(folder.path().join("stderr")).expect("a log file");
        let process = kcat.stdin(Stdio::piped()).stderr(log).spawn().expect("kcat is installed");
        Self { process, folder }
    }

    fn log(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn wait_until(&mut self, done: impl Fn() -> bool) {
        let started = Instant::now();
        while !done() {
            let ended = self.process.try_wait().expect("our own child");
            assert!(ended.is_none(), "kcat -P ended early: {ended:?}\n{}", self.log());
            assert!(started.elapsed() < STALLED, "kcat -P stands still\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().expect("our own child") {
                return status;
            }
            assert!(started.elapsed() < STALLED, "kcat -P does not end\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn pace(
    lines: Arc<Vec<String>>,
    mut input: ChildStdin,
    written: Arc<AtomicUsize>,
) -> JoinHandle<std::io::Result<()>> {
    std::thread::spawn(move || corpus::write_paced(&lines, LINES_PER_SECOND, &mut input, &written))
}

/// Kills and restarts the broker until a kill cut off a produce request; returns the misses. The
/// moment within the request wanders over 2 ms, nearer to its start after each miss.
fn kill_with_work_in_hand(server: &mut Server, proxy: &Proxy, seed: usize) -> usize {
    for miss in 0..MISSES {
        let spread_us = 2_000 >> miss.min(6);
        let delay = Duration::from_micros(random(seed + miss) % spread_us);
        let pid = server.pid();
        let trap = move || {
            std::thread::sleep(delay);
            let _ = kernel::signal(pid, Signal::Kill);
        };
        assert!(proxy.spring_on_produce(Box::new(trap), NEXT_REQUEST), "no produce request came");
        server.kill();
        let cut_off = proxy.cut_off(NEXT_REQUEST).expect("a dead broker's connections end");
        server.restart();
        if cut_off > 0 {
            return miss;
        }
    }
    panic!("{MISSES} kills, and each time every produce request had been answered");
}

/// A number that differs from call to call; the low bits of the clock are as good as any.
fn random(seed: usize) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = now.map_or(0, |now| now.subsec_nanos());
    u64::from(nanos).wrapping_mul(6_364_136_223_846_793_005).rotate_left(17) ^ seed as u64
}

/// All lines of the topic, as `kcat -C` prints them.
fn read_back(address: SocketAddr) -> Vec<String> {
    let mut kcat = Command::new("kcat");
    kcat.args(["-C", "-b", &address.to_string(), "-t", TOPIC, "-o", "beginning", "-e", "-q"]);
    kcat.args(["-X", "check.crcs=true"]);
    let mut kcat = kcat.stdout(Stdio::piped()).spawn().expect("kcat is installed");
    let output = BufReader::new(kcat.stdout.take().expect("piped"));
    // Not `lines`, which takes a carriage return for part of the line break.
    let lines = output.split(b'\n').map(|line| line.expect("a pipe"));
    let text = |line| String::from_utf8(line).expect("the corpus is UTF-8");
    let read = lines.map(text).collect();
    assert!(kcat.wait().expect("our own child").success(), "kcat -C reads to the end");
    read
}

/// Equal as sorted lines; where not, says which lines are lost and which doubled.
fn compare(sent: &[String], read: &[String]) {
    let mut balance = HashMap::<&str, i64>::new();
    sent.iter().for_each(|line| *balance.entry(line).or_default() += 1);
    read.iter().for_each(|line| *balance.entry(line).or_default() -= 1);
    let sum = |sign: i64| -> i64 { balance.values().map(|count| (count * sign).max(0)).sum() };
    let (lost, doubled) = (sum(1), sum(-1));
    let examples: Vec<_> = balance.iter().filter(|(_, count)| **count != 0).take(5).collect();
    let (sent, read) = (sent.len(), read.len());
    assert!(
        lost == 0 && doubled == 0,
        "{sent} sent, {read} read: {lost} lost, {doubled} doubled: {examples:?}"
    );
}
