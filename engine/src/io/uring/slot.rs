//! The table of operations in flight.
//!
//! A slot keeps everything the kernel may touch until the operation's last completion: the
//! descriptor, the buffers, and the small structures a submission points to. Slots are boxed so
//! that those structures never move, and reused with their vectors, so that a steady stream of
//! operations allocates nothing. A generation in each key keeps a late completion from being
//! taken for that of the slot's next user.

use std::{os::fd::OwnedFd, ptr, rc::Rc, sync::Arc, task::Waker};

use io_uring::types::Timespec;

use crate::io::buf::{IoRange, Slice, TailBuf};

/// Iovecs a free slot keeps memory for; a rare longer operation gives its memory back.
const IOVECS_KEPT: usize = 128;

/// Generations are below this, so that the top bit of a key's user data is free.
const GENERATIONS: u32 = 1 << 31;

/// Names one use of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::io) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    pub(super) fn user_data(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(super) fn from_user_data(user_data: u64) -> Self {
        let low = u32::try_from(user_data & u64::from(u32::MAX)).expect("masked to 32 bits");
        let high = u32::try_from(user_data >> 32).expect("shifted to 32 bits");
        Self { index: low, generation: high }
    }
}

/// Takes the completions of an operation that has several.
pub(in crate::io) trait Sink {
    /// One completion: the kernel's result, the received bytes if any, and whether more follow.
    fn complete(self: Rc<Self>, result: i32, piece: Option<Slice>, more: bool);
    /// Receive buffers are there again after a completion with `ENOBUFS`.
    fn resume(self: Rc<Self>);
}

/// Where an operation stands.
pub(super) enum State {
    Free,
    Waiting(Option<Waker>),
    Done(i32),
    /// Nobody waits for the result; the slot lives on for the kernel's sake.
    Abandoned,
    Many(Rc<dyn Sink>),
}

/// What the kernel may touch during an operation.
pub(super) struct Hold {
    pub(super) fd: Option<Arc<OwnedFd>>,
    pub(super) iovecs: Vec<libc::iovec>,
    pub(super) ranges: Vec<IoRange>,
    pub(super) slices: Vec<Slice>,
    pub(super) buffer: Option<TailBuf>,
    pub(super) header: libc::msghdr,
    pub(super) timespec: Timespec,
    pub(super) count: u64,
}

impl Hold {
    fn new() -> Self {
        let header = libc::msghdr {
            msg_name: ptr::null_mut(),
            msg_namelen: 0,
            msg_iov: ptr::null_mut(),
            msg_iovlen: 0,
            msg_control: ptr::null_mut(),
            msg_controllen: 0,
            msg_flags: 0,
        };
        Self {
            fd: None,
            iovecs: Vec::new(),
            ranges: Vec::new(),
            slices: Vec::new(),
            buffer: None,
            header,
            timespec: Timespec::new(),
            count: 0,
        }
    }

    fn clear(&mut self) {
        self.fd = None;
        self.buffer = None;
        self.iovecs.clear();
        self.ranges.clear();
        self.slices.clear();
        if self.iovecs.capacity() > IOVECS_KEPT {
            (self.iovecs, self.ranges, self.slices) = (Vec::new(), Vec::new(), Vec::new());
        }
    }
}

/// One operation.
pub(super) struct Slot {
    generation: u32,
    pub(super) state: State,
    pub(super) hold: Hold,
}

/// All operations of a ring.
#[derive(Default)]
pub(super) struct Slots {
    #[expect(clippy::vec_box, reason = "the kernel holds addresses of what lies in a slot")]
    slots: Vec<Box<Slot>>,
    free: Vec<u32>,
}

impl Slots {
    /// Operations that the kernel still owes a last completion, or whose result waits.
    pub(super) fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// A slot in the given state, and its key.
    pub(super) fn take(&mut self, state: State) -> (Key, &mut Slot) {
        let index = self.free.pop().unwrap_or_else(|| {
            let slot = Slot { generation: 0, state: State::Free, hold: Hold::new() };
            self.slots.push(Box::new(slot));
            u32::try_from(self.slots.len() - 1).expect("far fewer operations than 2^32")
        });
        let slot = &mut *self.slots[index as usize];
        assert!(matches!(slot.state, State::Free), "a free slot is nobody's");
        slot.state = state;
        (Key { index, generation: slot.generation }, slot)
    }

    /// The slot of an operation that is not over. Panics on a key given up.
    pub(super) fn get(&mut self, key: Key) -> &mut Slot {
        let slot = &mut *self.slots[key.index as usize];
        assert_eq!(slot.generation, key.generation, "a key is used until its slot is free");
        slot
    }

    /// Whether `key` names an operation with many completions that is not over.
    pub(super) fn is_many(&self, key: Key) -> bool {
        let slot = &self.slots[key.index as usize];
        slot.generation == key.generation && matches!(slot.state, State::Many(_))
    }

    /// Ends an operation: what it held is dropped, its key becomes void.
    pub(super) fn release(&mut self, key: Key) -> State {
        let slot = self.get(key);
        slot.generation = (slot.generation + 1) % GENERATIONS;
        slot.hold.clear();
        let state = std::mem::replace(&mut slot.state, State::Free);
        self.free.push(key.index);
        state
    }
}
