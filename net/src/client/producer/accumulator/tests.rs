use std::sync::Mutex;

use super::*;

const BACKOFF: Duration = Duration::from_millis(100);

type Told = Arc<Mutex<Vec<std::result::Result<i64, ErrorCode>>>>;

struct Bed {
    queues: Accumulator,
    now: Instant,
    told: Told,
}

impl Bed {
    fn new(change: impl FnOnce(&mut ProducerConfig)) -> Self {
        let mut config = ProducerConfig::new("a:1");
        config.batch_size = 200;
        config.linger_ms = 5;
        change(&mut config);
        let mut queues = Accumulator::new(&config);
        queues.add_partition("t".into(), 0);
        queues.set_producer(7, 0);
        Self { queues, now: Instant::now(), told: Told::default() }
    }

    fn after(&mut self, wait: Duration) {
        self.now += wait;
    }

    fn add(&mut self, value: &[u8]) -> Added {
        let told = self.told.clone();
        let mut callback: Option<Callback> = Some(Box::new(move |result| {
            let fate = result.map(|it| it.offset).map_err(|error| error.code());
            told.lock().expect("no panic").push(fate);
        }));
        let record = NewRecord { value: Some(value), ..NewRecord::default() };
        self.queues.add(self.now, 0, &record, &mut callback).expect("fits a request")
    }

    /// Adds a record that fills its batch, drains and seals the batch.
    fn send_one(&mut self) -> Batch {
        self.add(&[0; 150]);
        self.queues.set_hurry(true);
        let batch = self.drain_one();
        self.queues.set_hurry(false);
        batch
    }

    fn drain_one(&mut self) -> Batch {
        let mut out = Vec::new();
        self.queues.drain(self.now, &[0], &mut out);
        assert_eq!(out.len(), 1, "one batch per partition and request");
        let mut batch = out.remove(0);
        batch.seal(Codec::None, &mut Vec::new()).expect("has records");
        batch
    }

    fn drains_nothing(&mut self) -> bool {
        let mut out = Vec::new();
        self.queues.drain(self.now, &[0], &mut out);
        out.is_empty()
    }

    fn settle(&mut self, batch: Batch, verdict: Verdict) -> bool {
        let done = self.queues.settle(self.now, batch, verdict);
        let is_done = done.is_some();
        if let Some(done) = done {
            let serial = done.tell();
            self.queues.told(serial);
        }
        is_done
    }

    fn told(&self) -> Vec<std::result::Result<i64, ErrorCode>> {
        std::mem::take(&mut self.told.lock().expect("no panic"))
    }
}

fn appended(base_offset: i64) -> Verdict {
    Verdict::Appended(Appended { base_offset, log_append_time_ms: -1 })
}

fn refused(code: ErrorCode) -> Verdict {
    Verdict::Refused(ClientError::refused(code, None))
}

fn lost() -> Verdict {
    Verdict::Lost(ClientError::new(Kind::Unreachable, "gone"))
}

fn sequence(batch: &Batch) -> (i16, i32) {
    batch.stamp.map(|stamp| (stamp.epoch, stamp.base_sequence)).expect("stamped")
}

#[test]
fn a_batch_lingers_until_it_is_full_or_hurried() {
    let mut bed = Bed::new(|_| ());
    assert_eq!(bed.add(b"a"), Added::Waiting { wake: true });
    assert_eq!(bed.add(b"b"), Added::Waiting { wake: false });
    assert!(bed.drains_nothing());
    assert_eq!(bed.queues.sendable_at(0), Some(bed.now + Duration::from_millis(5)));
    bed.after(Duration::from_millis(5));
    let batch = bed.drain_one();
    assert_eq!(batch.count(), 2);
    assert!(bed.settle(batch, appended(40)));
    assert_eq!(bed.told(), [Ok(40), Ok(41)]);
    assert_eq!(bed.queues.used_bytes(), 0);
    assert!(bed.queues.is_complete_below(bed.queues.mark()));
}

#[test]
fn a_full_batch_goes_at_once() {
    let mut bed = Bed::new(|_| ());
    bed.add(&[0; 130]);
    bed.add(&[0; 130]);
    assert_eq!(bed.drain_one().count(), 1);
}

#[test]
fn memory_is_bounded_and_a_record_too_large_is_refused() {
    let mut bed = Bed::new(|config| config.buffer_memory = 400);
    assert_ne!(bed.add(&[0; 150]), Added::Full);
    assert_ne!(bed.add(&[0; 100]), Added::Full);
    assert_eq!(bed.add(&[0; 100]), Added::Full);
    let record = NewRecord { value: Some(&[0; 500]), ..NewRecord::default() };
    let error = bed.queues.add(bed.now, 0, &record, &mut None).expect_err("over the bound");
    assert!(error.to_string().contains("max.request.size"), "{error}");
}

#[test]
fn retries_keep_their_sequence_and_their_order() {
    let mut bed = Bed::new(|_| ());
    let first = bed.send_one();
    let second = bed.send_one();
    assert_eq!((sequence(&first), sequence(&second)), ((0, 0), (0, 1)));
    // The connection breaks: both come back, the later one first.
    assert!(!bed.settle(second, lost()));
    assert!(!bed.settle(first, lost()));
    assert!(bed.drains_nothing(), "there is a wait before a retry");
    bed.after(BACKOFF);
    let first = bed.drain_one();
    assert_eq!(sequence(&first), (0, 0));
    assert!(bed.drains_nothing(), "the second waits for the first");
    assert!(bed.settle(first, appended(0)));
    let second = bed.drain_one();
    assert_eq!(sequence(&second), (0, 1));
    // It had arrived the first time.
    assert!(bed.settle(second, refused(ErrorCode::DuplicateSequenceNumber)));
    assert_eq!(bed.told(), [Ok(0), Ok(-1)]);
}

#[test]
fn a_batch_behind_a_retry_is_sent_again_behind_it() {
    let mut bed = Bed::new(|_| ());
    let (first, second) = (bed.send_one(), bed.send_one());
    assert!(!bed.settle(first, refused(ErrorCode::NotLeaderOrFollower)));
    assert!(!bed.settle(second, refused(ErrorCode::OutOfOrderSequenceNumber)));
    bed.after(BACKOFF);
    let first = bed.drain_one();
    assert!(bed.settle(first, appended(0)));
    let second = bed.drain_one();
    assert_eq!(sequence(&second), (0, 1));
    assert!(bed.settle(second, appended(1)));
}

#[test]
fn a_failed_batch_leaves_no_gap() {
    let mut bed = Bed::new(|_| ());
    let (first, second, third) = (bed.send_one(), bed.send_one(), bed.send_one());
    assert!(bed.settle(first, refused(ErrorCode::InvalidRecord)));
    assert!(!bed.settle(second, refused(ErrorCode::OutOfOrderSequenceNumber)));
    // The third's fate is open: it must be settled under its old number before anything else.
    assert!(!bed.settle(third, lost()));
    bed.after(BACKOFF);
    let third = bed.drain_one();
    assert_eq!(sequence(&third), (0, 2));
    assert!(!bed.settle(third, refused(ErrorCode::OutOfOrderSequenceNumber)));
    bed.after(BACKOFF * 2);
    let second = bed.drain_one();
    let third = bed.drain_one();
    assert_eq!((sequence(&second), sequence(&third)), ((1, 0), (1, 1)));
    assert!(bed.settle(second, appended(0)));
    assert!(bed.settle(third, appended(1)));
    assert_eq!(bed.told(), [Err(ErrorCode::InvalidRecord), Ok(0), Ok(1)]);
}

#[test]
fn records_lost_by_the_broker_are_an_error() {
    let mut bed = Bed::new(|_| ());
    let first = bed.send_one();
    assert!(bed.settle(first, refused(ErrorCode::OutOfOrderSequenceNumber)));
    assert_eq!(bed.told(), [Err(ErrorCode::OutOfOrderSequenceNumber)]);
    assert_eq!(sequence(&bed.send_one()), (1, 0));
}

#[test]
fn a_batch_too_large_for_its_topic_is_split() {
    let mut bed = Bed::new(|_| ());
    for _ in 0..4 {
        bed.add(b"0123456789");
    }
    bed.after(Duration::from_millis(5));
    let whole = bed.drain_one();
    let behind = bed.send_one();
    assert!(!bed.settle(whole, refused(ErrorCode::MessageTooLarge)));
    assert!(!bed.settle(behind, refused(ErrorCode::OutOfOrderSequenceNumber)));
    for expected in [(0, 0, 2), (0, 2, 2), (0, 4, 1)] {
        let mark = bed.queues.mark();
        assert!(!bed.queues.is_complete_below(mark));
        bed.after(BACKOFF);
        let batch = bed.drain_one();
        assert_eq!((sequence(&batch).0, sequence(&batch).1, batch.count()), expected);
        let base_offset = i64::from(expected.1);
        assert!(bed.settle(batch, appended(base_offset)));
    }
    assert_eq!(bed.told(), (0..5).map(Ok).collect::<Vec<_>>());
    assert_eq!(bed.queues.used_bytes(), 0);
    assert!(bed.queues.is_complete_below(bed.queues.mark()));
}

#[test]
fn retries_end_with_their_number_or_the_delivery_timeout() {
    let mut bed = Bed::new(|config| config.retries = 1);
    let batch = bed.send_one();
    assert!(!bed.settle(batch, lost()));
    bed.after(BACKOFF);
    let batch = bed.drain_one();
    assert!(bed.settle(batch, lost()));
    let mut bed = Bed::new(|_| ());
    let batch = bed.send_one();
    bed.after(Duration::from_millis(120_000));
    assert!(bed.settle(batch, lost()));
    assert_eq!(bed.told(), [Err(ErrorCode::None)]);
}

#[test]
fn waiting_batches_expire() {
    let mut bed = Bed::new(|_| ());
    bed.add(b"a");
    assert_eq!(bed.queues.next_expiry(), Some(bed.now + Duration::from_millis(120_000)));
    bed.after(Duration::from_millis(120_000));
    for done in bed.queues.expire(bed.now) {
        done.tell();
    }
    assert_eq!(bed.told(), [Err(ErrorCode::None)]);
    assert_eq!(bed.queues.next_expiry(), None);
}

#[test]
fn one_request_in_flight_keeps_order_without_idempotence() {
    let mut bed = Bed::new(|config| {
        config.enable_idempotence = Some(false);
        config.max_in_flight = 1;
    });
    let first = bed.send_one();
    bed.add(&[0; 150]);
    bed.add(&[0; 150]);
    assert!(bed.drains_nothing());
    assert!(!bed.settle(first, lost()));
    bed.after(BACKOFF);
    assert_eq!(bed.drain_one().serial, 0);
    assert!(bed.drains_nothing());
}

#[test]
fn a_request_takes_one_batch_of_each_partition_up_to_its_size() {
    let mut bed = Bed::new(|config| config.max_request_size = 450);
    for partition in 1..4 {
        bed.queues.add_partition("t".into(), partition);
    }
    for slot in 0..4 {
        let record = NewRecord { value: Some(&[0; 130]), ..NewRecord::default() };
        bed.queues.add(bed.now, slot, &record, &mut None).expect("fits");
        bed.queues.add(bed.now, slot, &record, &mut None).expect("fits");
    }
    let mut out = Vec::new();
    bed.queues.drain(bed.now, &[2, 3, 0, 1], &mut out);
    let slots: Vec<usize> = out.iter().map(|batch| batch.slot).collect();
    assert_eq!(slots, [2, 3]);
}

#[test]
fn nothing_is_numbered_without_a_producer_id() {
    let mut bed = Bed::new(|_| ());
    bed.queues.producer = None;
    bed.add(b"a");
    assert!(bed.queues.wants_producer_id());
    assert_eq!(bed.queues.sendable_at(0), None);
    bed.queues.set_producer(8, 0);
    assert!(bed.queues.sendable_at(0).is_some());
}
