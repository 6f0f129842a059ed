//! Two threads per broker: one that sends requests without waiting, one that takes the answers.
//!
//! Owns the connection. A batch is always in exactly one place: a queue, this thread, or the list
//! of requests in flight, which the receiving thread empties when the connection ends.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use super::{
    accumulator::Verdict,
    batch::{Appended, Batch},
    control::spawn,
    state::{Shared, Work},
};
use crate::{
    client::{
        config::Acks,
        error::{ClientError, Kind, Result},
        link::{Link, Reader, Writer, correlation_id},
    },
    wire::{
        Grouped, Item, Message as _, Request as _, Topic,
        produce::{PartitionProduceData, ProduceRequest},
    },
};

/// The newest version that names topics; 13 has ids, and differs in nothing else.
const PRODUCE_VERSION_CAP: i16 = 12;

/// A request that waits for its answer.
struct Request {
    id: i32,
    version: i16,
    batches: Vec<Batch>,
}

/// Requests in order; `None` once the connection has ended.
type InFlight = Arc<Mutex<Option<VecDeque<Request>>>>;

struct Connection {
    writer: Writer,
    in_flight: InFlight,
    receiver: Option<JoinHandle<()>>,
}

/// Sends to `node` until the producer stops.
pub fn run(shared: &Arc<Shared>, node: i32) {
    let mut connection: Option<Connection> = None;
    let mut scratch = Vec::new();
    loop {
        match shared.next_work(node) {
            Work::Stop => return,
            // The receiver then takes the requests in flight back.
            Work::Overdue => drop(connection.take()),
            Work::Send(batches) => {
                if let Some(ended) = connection.take_if(|it| it.has_ended()) {
                    drop(ended);
                }
                if connection.is_none() {
                    match open(shared, node) {
                        Ok(opened) => connection = Some(opened),
                        Err(error) => {
                            unsent(shared, node, batches, &error);
                            continue;
                        }
                    }
                }
                let Some(open) = &mut connection else { continue };
                if !send(shared, node, open, batches, &mut scratch) {
                    connection = None;
                }
            }
        }
    }
}

fn unsent(shared: &Shared, node: i32, batches: Vec<Batch>, error: &ClientError) {
    let outcome = |batch| (batch, Verdict::Unsent(error.clone()));
    shared.settle(node, batches.into_iter().map(outcome).collect());
}

fn open(shared: &Arc<Shared>, node: i32) -> Result<Connection> {
    let address = shared.lock().nodes.get(&node).map(|node| node.address.clone());
    let address = address
        .ok_or_else(|| ClientError::new(Kind::Unreachable, "the broker left the cluster"))?;
    let (writer, reader) = Link::open(&address, &shared.config.client)?.split();
    let in_flight: InFlight = Arc::new(Mutex::new(Some(VecDeque::new())));
    let (theirs, of) = (in_flight.clone(), shared.clone());
    let receiver =
        spawn(format!("producer-recv-{node}"), move || receive(&of, node, reader, &theirs))?;
    Ok(Connection { writer, in_flight, receiver: Some(receiver) })
}

impl Connection {
    /// Lists a request that is about to be sent; gives its batches back when it is too late.
    fn expect(&self, request: Request) -> std::result::Result<(), Vec<Batch>> {
        match self.in_flight.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(waiting) => {
                waiting.push_back(request);
                Ok(())
            }
            None => Err(request.batches),
        }
    }

    fn has_ended(&self) -> bool {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.writer.shutdown();
        if let Some(receiver) = self.receiver.take() {
            // A receiver that panicked has said so on standard error.
            let _ = receiver.join();
        }
    }
}

/// Encodes and sends one request; false when the connection is of no use any more.
fn send(
    shared: &Shared,
    node: i32,
    connection: &mut Connection,
    mut batches: Vec<Batch>,
    scratch: &mut Vec<u8>,
) -> bool {
    let (topics, partitions) = match contents(shared, &mut batches, scratch) {
        Ok(contents) => contents,
        Err(error) => {
            let outcome = |batch| (batch, Verdict::Refused(error.clone()));
            shared.settle(node, batches.into_iter().map(outcome).collect());
            return true;
        }
    };
    let acks = shared.config.acks;
    let request = ProduceRequest {
        transactional_id: None,
        acks: acks.code(),
        timeout_ms: i32::try_from(shared.config.client.request_timeout_ms).unwrap_or(i32::MAX),
        topics: Grouped::Values { topics: &topics, partitions: &partitions },
    };
    if acks == Acks::None {
        let sent = connection.writer.send(&request, PRODUCE_VERSION_CAP);
        let verdict = match &sent {
            Ok(_) => Verdict::Appended(Appended::SOMEWHERE),
            Err(error) => Verdict::Lost(error.clone()),
        };
        let outcome = |batch| (batch, verdict.clone());
        shared.settle(node, batches.into_iter().map(outcome).collect());
        return sent.is_ok();
    }
    let (id, version) = match connection.writer.next(ProduceRequest::KEY, PRODUCE_VERSION_CAP) {
        Ok(next) => next,
        Err(error) => {
            let outcome = |batch| (batch, Verdict::Refused(error.clone()));
            shared.settle(node, batches.into_iter().map(outcome).collect());
            return false;
        }
    };
    // Before the bytes leave, so that the answer finds its request.
    if let Err(batches) = connection.expect(Request { id, version, batches }) {
        let error = ClientError::new(Kind::Unreachable, "the broker closed the connection");
        unsent(shared, node, batches, &error);
        return false;
    }
    // After a failure the connection is dropped, and the receiver gives the request back.
    connection.writer.send_as(id, version, &request).is_ok()
}

type Contents = (Vec<Topic<'static>>, Vec<PartitionProduceData>);

/// The batches sealed and put in the order of a request: by topic.
fn contents(shared: &Shared, batches: &mut [Batch], scratch: &mut Vec<u8>) -> Result<Contents> {
    let places: Vec<(Arc<str>, i32)> = {
        let state = shared.lock();
        let place = |batch: &Batch| {
            let (topic, partition) = state.queues.place(batch.slot);
            (topic.clone(), partition)
        };
        batches.iter().map(place).collect()
    };
    let mut order: Vec<usize> = (0..batches.len()).collect();
    order.sort_by(|&left, &right| places[left].0.cmp(&places[right].0));
    let mut topics: Vec<Topic<'static>> = Vec::new();
    let mut partitions = Vec::with_capacity(batches.len());
    for at in order {
        let (topic, index) = &places[at];
        let records = batches[at].seal(shared.config.compression_type, scratch)?;
        partitions.push(PartitionProduceData { index: *index, records });
        match topics.last_mut() {
            Some(last) if *last.name == **topic => last.partitions += 1,
            _ => {
                let name = topic.to_string().into();
                topics.push(Topic { name, partitions: 1, ..Topic::default() });
            }
        }
    }
    Ok((topics, partitions))
}

/// Takes answers until the connection ends, then gives back what is unanswered.
fn receive(shared: &Shared, node: i32, mut reader: Reader, in_flight: &InFlight) {
    let error = loop {
        match receive_one(shared, node, &mut reader, in_flight) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    let left = in_flight.lock().unwrap_or_else(PoisonError::into_inner).take();
    for request in left.into_iter().flatten() {
        let outcome = |batch| (batch, Verdict::Lost(error.clone()));
        shared.settle(node, request.batches.into_iter().map(outcome).collect());
    }
}

fn receive_one(
    shared: &Shared,
    node: i32,
    reader: &mut Reader,
    in_flight: &InFlight,
) -> Result<()> {
    let frame = reader.receive(None)?;
    let nonsense = |what: &str| {
        // Retried on another connection: the batches' fate is open, and the next may be sound.
        ClientError::new(Kind::Unreachable, format!("the broker's answer makes no sense: {what}"))
    };
    let mut guard = in_flight.lock().unwrap_or_else(PoisonError::into_inner);
    let waiting = guard.as_mut().ok_or_else(|| nonsense("the connection has ended"))?;
    let expected = waiting.front().is_some_and(|request| request.id == correlation_id(&frame));
    if !expected {
        return Err(nonsense("it is to another request"));
    }
    let (_, response) = match waiting.front() {
        Some(request) => ProduceRequest::read_response(&frame, request.version)
            .map_err(|error| nonsense(&error.to_string()))?,
        None => return Err(nonsense("nothing was asked")),
    };
    let Some(request) = waiting.pop_front() else { return Ok(()) };
    drop(guard);
    let mut verdicts = Vec::with_capacity(request.batches.len());
    let mut topic = String::new();
    for item in response.topics.iter() {
        match item {
            Item::Topic(next) => topic = next.name.into_owned(),
            Item::Partition(answer) => {
                let verdict = if answer.error_code.is_none() {
                    Verdict::Appended(Appended {
                        base_offset: answer.base_offset,
                        log_append_time_ms: answer.log_append_time_ms,
                    })
                } else {
                    let message = answer.error_message.as_deref();
                    let error = ClientError::refused(answer.error_code, message);
                    let place = format!("{topic}-{}", answer.index);
                    Verdict::Refused(error.during(&place))
                };
                verdicts.push((topic.clone(), answer.index, verdict));
            }
        }
    }
    shared.settle(node, matched(shared, request.batches, &verdicts));
    throttle(response.throttle_time_ms);
    Ok(())
}

/// Each batch with the answer for its partition.
fn matched(
    shared: &Shared,
    batches: Vec<Batch>,
    verdicts: &[(String, i32, Verdict)],
) -> Vec<(Batch, Verdict)> {
    let state = shared.lock();
    let verdict_of = |batch: Batch| {
        let (topic, partition) = state.queues.place(batch.slot);
        let found = verdicts.iter().find(|it| it.1 == partition && *it.0 == **topic);
        let verdict = found.map_or_else(
            || {
                let what = format!("the broker's answer leaves out {topic}-{partition}");
                Verdict::Lost(ClientError::new(Kind::Unreachable, what))
            },
            |it| it.2.clone(),
        );
        (batch, verdict)
    };
    batches.into_iter().map(verdict_of).collect()
}

/// Honours a quota (KIP-219) by taking the next answer later, which holds up the next request.
fn throttle(throttle_time_ms: i32) {
    const THROTTLE_CAP_MS: u64 = 1_000;
    if let Ok(ms) = u64::try_from(throttle_time_ms)
        && ms > 0
    {
        std::thread::sleep(Duration::from_millis(ms.min(THROTTLE_CAP_MS)));
    }
}
