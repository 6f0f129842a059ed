//! What a hop between cores costs: the frame of its header, the queue, and both together.
//!
//! The queues are the mesh's own kind and depth, and two threads spin on them. A sleeping shard's
//! wake-up is not in these figures, nor is what a scheduler does to two spinning threads where
//! cores are scarce; the queue on one thread shows the cost without either.

mod settings;

use std::{hint::black_box, thread};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use crossbeam::{queue::ArrayQueue, utils::Backoff};
use millrace_engine::{
    io::buf::{Chain, Slice},
    limits::MAILBOX_DEPTH,
    shard::{
        frame::{Frame, Header, PartitionKey, ProducedCode},
        message::Message,
    },
    types::ShardId,
};

/// Messages in flight: one that is waited for, and as many as the mesh takes from a queue at once.
const IN_FLIGHT: [usize; 2] = [1, 64];

const PRODUCE: Header = Header::Produce {
    token: 1,
    partition: PartitionKey { topic: [7; 16], partition: 3 },
    acks: -1,
    now_ms: 1_700_000_000_000,
    batch: [9; 61],
};

const PRODUCED: Header = Header::Produced {
    token: 1,
    result: ProducedCode {
        failure: 0,
        base_offset: 123_456,
        last_offset: 123_456,
        log_append_time_ms: -1,
        log_start: 0,
        duplicate: false,
    },
};

fn decode(frame: &Frame) -> Header {
    frame.decode().expect("frames are made in this process")
}

fn frames(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hop/frame");
    for (name, header) in [("Produce", PRODUCE), ("Produced", PRODUCED)] {
        let frame = Frame::encode(&header);
        assert_eq!(decode(&frame), header);
        group.bench_function(BenchmarkId::new("encode", name), |bencher| {
            bencher.iter(|| Frame::encode(black_box(&header)));
        });
        group.bench_function(BenchmarkId::new("decode", name), |bencher| {
            bencher.iter(|| decode(black_box(&frame)));
        });
        group.bench_function(BenchmarkId::new("encode+decode", name), |bencher| {
            bencher.iter(|| decode(black_box(&Frame::encode(black_box(&header)))));
        });
    }
}

fn message(header: &Header, payload: Chain) -> Message {
    Message::Data { from: ShardId(0), frame: Frame::encode(header), payload }
}

/// One direction between two shards, as deep as the mesh of two has it.
fn lane() -> ArrayQueue<Message> {
    ArrayQueue::new(MAILBOX_DEPTH / 2)
}

fn push(lane: &ArrayQueue<Message>, message: Message) {
    assert!(lane.push(message).is_ok(), "fewer are in flight than the queue holds");
}

fn pop(lane: &ArrayQueue<Message>) -> Message {
    let backoff = Backoff::new();
    loop {
        if let Some(message) = lane.pop() {
            return message;
        }
        backoff.snooze();
    }
}

fn one_thread(criterion: &mut Criterion) {
    let lane = lane();
    let mut travelling = Some(message(&PRODUCE, Slice::copy_of(&[1; 1024]).into()));
    criterion.bench_function("hop/queue/one-thread", |bencher| {
        bencher.iter(|| {
            push(&lane, travelling.take().expect("it comes back"));
            travelling = lane.pop();
        });
    });
}

/// As the owning shard answers, but for the append.
fn answer(message: Message) -> Message {
    let Message::Data { frame, payload, .. } = message else { return message };
    black_box((decode(&frame), payload));
    self::message(&PRODUCED, Chain::new())
}

/// Answers all that comes until it is told to stop.
fn serve(
    requests: &ArrayQueue<Message>,
    replies: &ArrayQueue<Message>,
    reply: fn(Message) -> Message,
) {
    loop {
        match pop(requests) {
            Message::Stop => return,
            message => push(replies, reply(message)),
        }
    }
}

/// Calls `body` with the queues to and from a thread that answers with `reply`.
fn with_server(
    reply: fn(Message) -> Message,
    body: impl FnOnce(&ArrayQueue<Message>, &ArrayQueue<Message>),
) {
    let (requests, replies) = (lane(), lane());
    thread::scope(|scope| {
        scope.spawn(|| serve(&requests, &replies, reply));
        body(&requests, &replies);
        push(&requests, Message::Stop);
    });
}

/// The same messages go back and forth: the cost of the queues alone.
fn queues(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hop/queue/two-threads");
    with_server(std::convert::identity, |requests, replies| {
        for in_flight in IN_FLIGHT {
            let new = || message(&PRODUCE, Slice::copy_of(&[1; 1024]).into());
            let mut here: Vec<_> = std::iter::repeat_with(new).take(in_flight).collect();
            group.throughput(Throughput::Elements(in_flight as u64));
            group.bench_function(in_flight.to_string(), |bencher| {
                bencher.iter(|| {
                    here.drain(..).for_each(|message| push(requests, message));
                    here.extend((0..in_flight).map(|_| pop(replies)));
                });
            });
        }
    });
}

/// All that a hop adds to a produce: both frames made and read, both queues.
fn hops(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hop/produce");
    let payload: Chain = Slice::copy_of(&[1; 1024]).into();
    with_server(answer, |requests, replies| {
        for in_flight in IN_FLIGHT {
            group.throughput(Throughput::Elements(in_flight as u64));
            group.bench_function(in_flight.to_string(), |bencher| {
                bencher.iter(|| {
                    let ask = |_| push(requests, message(&PRODUCE, payload.clone()));
                    (0..in_flight).for_each(ask);
                    (0..in_flight).for_each(|_| read_answer(&pop(replies)));
                });
            });
        }
    });
}

fn read_answer(message: &Message) {
    let Message::Data { frame, .. } = message else { return };
    assert!(matches!(black_box(decode(frame)), Header::Produced { .. }), "a produce is answered");
}

criterion_group! {
    name = benches;
    config = settings::criterion();
    targets = frames, one_thread, queues, hops
}
criterion_main!(benches);
