//! A steady stream of sends and receives allocates nothing per operation.
//!
//! A program of its own, as it counts through the global allocator.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    rc::Rc,
};

use millrace_engine::io::{
    Spawn,
    buf::{Chain, TailBuf},
    net::{Accepted, Listener, Stream},
    runtime::{RuntimeOptions, ShardContext, run_shards},
};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const WARM_UP: u64 = 500;
const ROUNDS: u64 = 5000;

async fn echo(stream: Stream) {
    while let Ok(Some(piece)) = stream.recv().await {
        if stream.send(&Chain::from(piece)).await.is_err() {
            return;
        }
    }
}

#[test]
fn sends_and_receives_in_a_steady_state_allocate_nothing() {
    let main = |shard: ShardContext<()>| async move {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = Rc::new(Listener::bind(address, 16).expect("a free port"));
        let client = TcpStream::connect(listener.local_address()).expect("listening");
        let client = Stream::attach(Accepted::try_from(client).expect("connected"));
        shard.env.spawn(echo(Stream::attach(listener.accept().await.expect("a connection"))));

        let mut message = TailBuf::unpooled(4096);
        message.append(&[7; 1000]);
        let message = Chain::from(message.freeze());
        let mut before = 0;
        for round in 0..WARM_UP + ROUNDS {
            if round == WARM_UP {
                before = ALLOCATIONS.get();
            }
            client.send(&message).await.expect("sent");
            let mut received = 0;
            while received < message.len() {
                received += client.recv().await.expect("no error").expect("not the end").len();
            }
        }
        let allocations = ALLOCATIONS.get() - before;
        // The executor allocates when it goes to sleep, and the pool for its first blocks.
        assert!(allocations < ROUNDS / 20, "{allocations} allocations in {ROUNDS} rounds");
    };
    let shards = run_shards(&RuntimeOptions::for_tests(1), main).expect("starts");
    shards.join().expect("ends");
}
