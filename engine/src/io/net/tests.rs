#![expect(clippy::disallowed_methods, reason = "a client on a thread of its own")]

use std::{
    cell::Cell,
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream},
    rc::Rc,
    thread,
    time::Duration,
};

use super::*;
use crate::io::{
    Clock, Spawn,
    buf::{Chain, Slice},
    runtime::{RuntimeOptions, ShardContext, run_shards},
};
use crate::types::ShardId;

fn local_listener() -> Listener {
    Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 4096).expect("a free port")
}

async fn echo(stream: Stream) {
    while let Ok(Some(piece)) = stream.recv().await {
        if stream.send(&Chain::from(piece)).await.is_err() {
            return;
        }
    }
}

/// Runs `server` on one shard while `client` runs on the test's thread.
fn serve<T: Future<Output = ()> + 'static>(
    server: impl Fn(ShardContext<u64>, Rc<Listener>) -> T + Send + Sync + 'static,
    client: impl FnOnce(SocketAddr) + Send + 'static,
) {
    let listener = local_listener();
    let address = listener.local_address();
    let place = std::sync::Mutex::new(Some(listener));
    let shards = run_shards(&RuntimeOptions::for_tests(1), move |shard| {
        let listener = place.lock().expect("no panic").take().expect("one shard");
        server(shard, Rc::new(listener))
    });
    let shards = shards.expect("starts");
    client(address);
    shards.join().expect("ends");
}

fn exchange(stream: &mut TcpStream, bytes: &[u8]) {
    let mut writer = stream.try_clone().expect("descriptors are left");
    let sent = bytes.to_vec();
    let thread = thread::spawn(move || writer.write_all(&sent).expect("the server reads"));
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).expect("the server echoes");
    assert!(back == bytes, "the echo differs");
    thread.join().expect("no panic");
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at * 31 % 251).expect("below 251")).collect()
}

#[test]
fn many_connections_echo_many_sizes() {
    const CONNECTIONS: usize = 40;
    serve(
        |shard, listener| async move {
            let open = Rc::new(Cell::new(CONNECTIONS));
            for _ in 0..CONNECTIONS {
                let stream = Stream::attach(listener.accept().await.expect("a connection"));
                let open = open.clone();
                shard.env.spawn(async move {
                    echo(stream).await;
                    open.update(|count| count - 1);
                });
            }
            while open.get() > 0 {
                shard.env.sleep(Duration::from_millis(1)).await;
            }
            assert!(shard.pool.in_use_bytes() <= 64 * 64 * 1024, "{:?}", shard.pool);
        },
        |address| {
            let clients: Vec<_> = (0..CONNECTIONS)
                .map(|index| {
                    thread::spawn(move || {
                        let mut stream = TcpStream::connect(address).expect("listening");
                        for size in [1, 100, 4096, 70_000, 300_000 + index] {
                            exchange(&mut stream, &pattern(size));
                        }
                    })
                })
                .collect();
            clients.into_iter().for_each(|client| client.join().expect("no panic"));
        },
    );
}

#[test]
fn a_half_closed_connection_still_gets_its_answer() {
    serve(
        |_, listener| async move {
            let stream = Stream::attach(listener.accept().await.expect("a connection"));
            let mut received = Chain::new();
            while let Some(piece) = stream.recv().await.expect("no error") {
                received.push(piece);
            }
            assert!(stream.recv().await.expect("no error").is_none(), "the end stays the end");
            stream.send(&received).await.expect("the client still reads");
            stream.shutdown_send();
        },
        |address| {
            let mut stream = TcpStream::connect(address).expect("listening");
            stream.write_all(&pattern(200_000)).expect("sent");
            stream.shutdown(Shutdown::Write).expect("open");
            let mut back = Vec::new();
            stream.read_to_end(&mut back).expect("echo");
            assert!(back == pattern(200_000));
        },
    );
}

/// Polls `future` once and drops it.
async fn poll_and_drop<T>(future: impl Future<Output = T>) -> bool {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

#[test]
fn dropped_accepts_and_receives_lose_nothing() {
    serve(
        |shard, listener| async move {
            let mut accepted = Vec::new();
            while accepted.len() < 20 {
                if poll_and_drop(async {
                    accepted.push(listener.accept().await.expect("a connection"));
                })
                .await
                {
                    continue;
                }
                shard.env.sleep(Duration::from_micros(300)).await;
            }
            for accepted in accepted {
                let stream = Stream::attach(accepted);
                let mut received = Vec::new();
                while received.len() < 5 {
                    poll_and_drop(async {
                        let piece = stream.recv().await.expect("no error").expect("not the end");
                        received.extend_from_slice(&piece);
                    })
                    .await;
                    shard.env.yield_now().await;
                    shard.env.sleep(Duration::from_micros(100)).await;
                }
                stream.send(&Slice::copy_of(&received).into()).await.expect("sent");
            }
        },
        |address| {
            let mut streams: Vec<_> =
                (0..20).map(|_| TcpStream::connect(address).expect("listening")).collect();
            for stream in &mut streams {
                exchange(stream, b"hello");
            }
        },
    );
}

/// More connections at once than may wait end the accept operation. What it had accepted by then
/// was closed with it, unheard, unless somebody asked at that very moment.
#[test]
fn a_rush_of_connections_loses_none() {
    const CONNECTIONS: usize = 400;
    serve(
        |shard, listener| async move {
            for _ in 0..CONNECTIONS {
                let accepted = listener.accept().await.expect("a connection");
                shard.env.spawn(echo(Stream::attach(accepted)));
                // Nobody asks for a while: the operation ends meanwhile.
                shard.env.sleep(Duration::from_micros(300)).await;
            }
            shard.env.sleep(Duration::from_millis(20)).await;
        },
        |address| {
            let connect = |_| TcpStream::connect(address).expect("listening");
            let mut streams: Vec<_> = (0..CONNECTIONS).map(connect).collect();
            for stream in &mut streams {
                exchange(stream, b"hello");
            }
        },
    );
}

#[test]
fn dropping_a_stream_tells_the_other_side() {
    serve(
        |shard, listener| async move {
            let stream = Stream::attach(listener.accept().await.expect("a connection"));
            assert!(!poll_and_drop(stream.recv()).await);
            shard.env.sleep(Duration::from_millis(5)).await;
            drop(stream);
            // One whose send the other side does not read: the send is dropped with the stream.
            let stream = Stream::attach(listener.accept().await.expect("a connection"));
            let large = Chain::from(Slice::copy_of(&pattern(16 << 20)));
            assert!(!poll_and_drop(stream.send(&large)).await);
            shard.env.sleep(Duration::from_millis(5)).await;
            drop(stream);
            shard.env.sleep(Duration::from_millis(20)).await;
        },
        |address| {
            let mut idle = TcpStream::connect(address).expect("listening");
            assert_eq!(idle.read(&mut [0; 1]).expect("closed in order"), 0);
            let _deaf = TcpStream::connect(address).expect("listening");
            thread::sleep(Duration::from_millis(15));
        },
    );
}

#[test]
fn a_reader_that_lags_stops_the_sender_and_not_its_neighbour() {
    const BYTES: usize = 24 << 20;
    serve(
        |shard, listener| async move {
            let slow = Stream::attach(listener.accept().await.expect("a connection"));
            let quick = Stream::attach(listener.accept().await.expect("a connection"));
            let first = slow.recv().await.expect("no error").expect("not the end").len();
            echo(quick).await;
            let held = shard.pool.in_use_bytes();
            assert!(held <= 8 << 20, "{held} bytes held for a reader that lags");
            let mut received = first;
            while let Some(piece) = slow.recv().await.expect("no error") {
                received += piece.len();
            }
            assert_eq!(received, BYTES);
        },
        |address| {
            let mut slow = TcpStream::connect(address).expect("listening");
            let flood = thread::spawn(move || slow.write_all(&vec![7; BYTES]).expect("sent"));
            let mut quick = TcpStream::connect(address).expect("listening");
            for _ in 0..20 {
                exchange(&mut quick, &pattern(3000));
            }
            drop(quick);
            flood.join().expect("no panic");
        },
    );
}

#[test]
fn an_empty_pool_delays_and_never_stalls() {
    serve(
        |shard, listener| async move {
            let stream = Stream::attach(listener.accept().await.expect("a connection"));
            let mut hoard = Vec::new();
            hoard.extend(std::iter::from_fn(|| shard.pool.take(1 << 20)));
            hoard.extend(std::iter::from_fn(|| shard.pool.take(1 << 16)));
            let (env, waited) = (shard.env.clone(), Rc::new(Cell::new(false)));
            let release = waited.clone();
            shard.env.spawn(async move {
                env.sleep(Duration::from_millis(30)).await;
                release.set(true);
                hoard.clear();
            });
            let mut received = 0;
            let mut pressed = false;
            let mut held = Vec::new();
            while let Some(piece) = stream.recv().await.expect("no error") {
                received += piece.len();
                if !waited.get() {
                    held.push(piece);
                }
                pressed |= stream.pool_pressure();
            }
            assert_eq!(received, 4 << 20);
            assert!(pressed, "an empty pool shows");
        },
        |address| {
            let mut stream = TcpStream::connect(address).expect("listening");
            stream.write_all(&vec![1; 4 << 20]).expect("sent");
        },
    );
}

#[test]
fn a_connection_can_be_served_by_another_shard() {
    let listener = local_listener();
    let address = listener.local_address();
    let place = std::sync::Mutex::new(Some(listener));
    let main = move |shard: ShardContext<Accepted>| {
        let listener = place.lock().expect("no panic").take();
        async move {
            match listener {
                Some(listener) => {
                    for _ in 0..3 {
                        let accepted = listener.accept().await.expect("a connection");
                        let to = ShardId(1 - shard.id.0);
                        shard.mesh.send(to, accepted).await.expect("the other shard runs");
                    }
                }
                None => {
                    for _ in 0..3 {
                        echo(Stream::attach(shard.mesh.recv().await)).await;
                    }
                }
            }
        }
    };
    let shards = run_shards(&RuntimeOptions::for_tests(2), main).expect("starts");
    for _ in 0..3 {
        exchange(&mut TcpStream::connect(address).expect("listening"), &pattern(100_000));
    }
    shards.join().expect("ends");
}

#[test]
fn an_ended_shard_leaves_no_descriptor_open() {
    // Other tests of this process open descriptors of their own, so the count is taken in a
    // process that runs this test alone.
    let program = std::env::current_exe().expect("this test's program");
    if std::env::var_os("MILLRACE_TEST_ALONE").is_none() {
        let status = std::process::Command::new(program)
            .args(["--exact", "io::net::tests::an_ended_shard_leaves_no_descriptor_open"])
            .args(["--nocapture", "--test-threads=1"])
            .env("MILLRACE_TEST_ALONE", "1")
            .status();
        assert!(status.expect("it can be run").success());
        return;
    }
    let count = || std::fs::read_dir("/proc/self/fd").expect("proc is mounted").count();
    let once = || {
        serve(
            |shard, listener| async move {
                for _ in 0..3 {
                    let stream = Stream::attach(listener.accept().await.expect("a connection"));
                    shard.env.spawn(echo(stream));
                }
                shard.env.run_long(|| ()).await;
                shard.env.sleep(Duration::from_millis(5)).await;
            },
            |address| {
                let streams = [(); 5].map(|()| TcpStream::connect(address).expect("listening"));
                thread::sleep(Duration::from_millis(20));
                drop(streams);
            },
        );
    };
    once();
    let before = count();
    (0..5).for_each(|_| once());
    // The executor itself leaks one eventfd each time it ends (its issue 448).
    assert!(count() <= before + 5, "{} descriptors after, {before} before", count());
}
