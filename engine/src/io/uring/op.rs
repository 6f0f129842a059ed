//! The operations of the ring, each a function that fills a slot and queues its submission.
//!
//! A single-shot operation is a future, [`Op`]; dropping it asks the kernel to cancel and leaves
//! the slot to the ring, so that no buffer or descriptor goes away under the kernel.

use std::{
    future::Future,
    io,
    os::fd::{AsRawFd, OwnedFd},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use io_uring::{
    opcode,
    squeue::Entry,
    types::{Fd, FsyncFlags, Timespec},
};

use super::{
    Key, Ring, Sink,
    buffers::GROUP,
    slot::{Hold, State},
};
use crate::io::buf::{IoRange, Slice, TailBuf};

/// Iovecs of one operation at most: `UIO_MAXIOV` of the kernel.
pub(in crate::io) const IOVECS_MAX: usize = 1024;

/// What a completed operation hands back: the kernel's count, and the buffer of a read.
pub(in crate::io) type Outcome = (io::Result<usize>, Option<TailBuf>);

/// A single-shot operation in flight.
pub(in crate::io) struct Op {
    ring: Rc<Ring>,
    key: Option<Key>,
}

impl Future for Op {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let key = self.key.expect("a future is not polled after it is ready");
        let mut slots = self.ring.slots.borrow_mut();
        let slot = slots.get(key);
        match &mut slot.state {
            State::Waiting(waker) => {
                if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                    *waker = Some(cx.waker().clone());
                }
                return Poll::Pending;
            }
            State::Done(_) => {}
            _ => unreachable!("the slot is this future's"),
        }
        let buffer = slot.hold.buffer.take();
        let State::Done(result) = slots.release(key) else { unreachable!("checked above") };
        drop(slots);
        self.key = None;
        Poll::Ready((outcome(result), buffer))
    }
}

fn outcome(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(result.wrapping_neg()))
}

impl Drop for Op {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut slots = self.ring.slots.borrow_mut();
        let slot = slots.get(key);
        if matches!(slot.state, State::Done(_)) {
            slots.release(key);
            return;
        }
        slot.state = State::Abandoned;
        drop(slots);
        self.ring.cancel(key);
    }
}

impl Ring {
    fn start(self: &Rc<Self>, fill: impl FnOnce(&mut Hold) -> Entry) -> Op {
        let mut slots = self.slots.borrow_mut();
        let (key, slot) = slots.take(State::Waiting(None));
        let entry = fill(&mut slot.hold).user_data(key.user_data());
        drop(slots);
        self.push(entry);
        Op { ring: self.clone(), key: Some(key) }
    }

    fn start_many(&self, fd: &Arc<OwnedFd>, sink: Rc<dyn Sink>, entry: Entry) -> Key {
        let mut slots = self.slots.borrow_mut();
        let (key, slot) = slots.take(State::Many(sink));
        slot.hold.fd = Some(fd.clone());
        drop(slots);
        self.push(entry.user_data(key.user_data()));
        key
    }

    /// Accepts connections until cancelled; each completion's result is a new descriptor.
    pub(in crate::io) fn accept_many(&self, fd: &Arc<OwnedFd>, sink: Rc<dyn Sink>) -> Key {
        let flags = libc::SOCK_CLOEXEC;
        let entry = opcode::AcceptMulti::new(Fd(fd.as_raw_fd())).flags(flags).build();
        self.start_many(fd, sink, entry)
    }

    /// Receives into lent buffers until cancelled, ended or out of buffers.
    pub(in crate::io) fn receive_many(&self, fd: &Arc<OwnedFd>, sink: Rc<dyn Sink>) -> Key {
        let entry = opcode::RecvMulti::new(Fd(fd.as_raw_fd()), GROUP).build();
        self.start_many(fd, sink, entry)
    }

    /// Completes after `duration`, with `ETIME`.
    pub(in crate::io) fn timeout(self: &Rc<Self>, duration: Duration) -> Op {
        self.start(|hold| {
            hold.timespec = Timespec::new().sec(duration.as_secs()).nsec(duration.subsec_nanos());
            opcode::Timeout::new(&raw const hold.timespec).build()
        })
    }

    /// Takes the count of an eventfd, which outlives the ring's operations, once it is not 0.
    pub(super) fn read_count(self: &Rc<Self>, bell: &impl AsRawFd) -> Op {
        self.start(|hold| {
            let target = (&raw mut hold.count).cast();
            opcode::Read::new(Fd(bell.as_raw_fd()), target, 8).build()
        })
    }

    /// Sends what lies in `slices` behind the first `skip` bytes, as far as [`IOVECS_MAX`] reaches.
    pub(in crate::io) fn send(
        self: &Rc<Self>,
        fd: &Arc<OwnedFd>,
        slices: &[Slice],
        mut skip: usize,
    ) -> Op {
        self.start(|hold| {
            for slice in slices {
                if skip >= slice.len() {
                    skip -= slice.len();
                    continue;
                }
                if hold.slices.len() == IOVECS_MAX {
                    break;
                }
                let part = &slice[skip..];
                let base = part.as_ptr().cast_mut().cast();
                hold.iovecs.push(libc::iovec { iov_base: base, iov_len: part.len() });
                hold.slices.push(slice.clone());
                skip = 0;
            }
            hold.fd = Some(fd.clone());
            hold.header.msg_iov = hold.iovecs.as_mut_ptr();
            hold.header.msg_iovlen = hold.iovecs.len();
            let flags =
                u32::try_from(libc::MSG_NOSIGNAL | libc::MSG_WAITALL).expect("flags are positive");
            opcode::SendMsg::new(Fd(fd.as_raw_fd()), &raw const hold.header).flags(flags).build()
        })
    }

    /// Writes `ranges` (at most [`IOVECS_MAX`]) one after the other at `offset` of a file.
    pub(in crate::io) fn write(
        self: &Rc<Self>,
        fd: &Arc<OwnedFd>,
        ranges: &[IoRange],
        offset: u64,
    ) -> Op {
        assert!(ranges.len() <= IOVECS_MAX, "the caller splits longer writes");
        self.start(|hold| {
            hold.fd = Some(fd.clone());
            hold.ranges.extend_from_slice(ranges);
            hold.iovecs.extend(ranges.iter().map(|range| libc::iovec {
                iov_base: range.as_ptr().cast_mut().cast(),
                iov_len: range.len(),
            }));
            let count = u32::try_from(hold.iovecs.len()).expect("at most IOVECS_MAX");
            opcode::Writev::new(Fd(fd.as_raw_fd()), hold.iovecs.as_ptr(), count)
                .offset(offset)
                .build()
        })
    }

    /// Reads at most `length` bytes at `offset` of a file behind what `buffer` holds; the buffer
    /// comes back with the outcome, its length not yet advanced.
    pub(in crate::io) fn read(
        self: &Rc<Self>,
        fd: &Arc<OwnedFd>,
        buffer: TailBuf,
        length: usize,
        offset: u64,
    ) -> Op {
        assert!(length <= buffer.spare(), "a read stays in its buffer");
        self.start(|hold| {
            hold.fd = Some(fd.clone());
            let target = hold.buffer.insert(buffer).spare_pointer();
            let length = u32::try_from(length).expect("a buffer is far below 4 GiB");
            opcode::Read::new(Fd(fd.as_raw_fd()), target, length).offset(offset).build()
        })
    }

    /// Makes a file's data, and what is needed to find it, durable (fdatasync).
    pub(in crate::io) fn sync_data(self: &Rc<Self>, fd: &Arc<OwnedFd>) -> Op {
        self.start(|hold| {
            hold.fd = Some(fd.clone());
            opcode::Fsync::new(Fd(fd.as_raw_fd())).flags(FsyncFlags::DATASYNC).build()
        })
    }
}
