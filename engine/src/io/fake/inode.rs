//! One file of the fake disk: what the device would keep, what readers see, and what lies between.

use super::random::Random;

/// Unit of atomic writing.
pub(super) const SECTOR: usize = 512;
/// Unit in which the file system converts unwritten extents.
const BLOCK_SECTORS: usize = 8;

/// A change that is not durable yet.
pub(super) enum Change {
    /// Bytes at an offset.
    Write(usize, Vec<u8>),
    /// A new length.
    Length(usize),
}

pub(super) struct Pending {
    pub(super) id: u64,
    change: Change,
    /// Its completion was seen by the caller.
    reaped: bool,
    /// It changed only durable, initialised extents, so a device flush is enough.
    overwrite: bool,
}

/// A file's contents.
#[derive(Default)]
pub(super) struct Inode {
    /// What survives, with its length.
    durable: Vec<u8>,
    /// Per sector of `durable`: holds written bytes, not a hole or an unwritten extent.
    initialised: Vec<bool>,
    /// What readers see.
    pub(super) current: Vec<u8>,
    pending: Vec<Pending>,
}

/// How likely a crash keeps an undurable sector or change, in percent, and tears it.
#[derive(Clone, Copy)]
pub(super) struct Survival {
    pub(super) keep: usize,
    pub(super) tear: usize,
}

impl Inode {
    pub(super) fn of_durable(bytes: &[u8]) -> Self {
        let mut inode = Self { durable: bytes.to_vec(), ..Self::default() };
        inode.initialised = vec![true; bytes.len().div_ceil(SECTOR)];
        inode.current = bytes.to_vec();
        inode
    }

    pub(super) fn apply(&mut self, id: u64, change: Change) {
        let overwrite = match &change {
            Change::Write(at, bytes) => self.is_initialised(*at, bytes.len()),
            Change::Length(_) => false,
        };
        apply_to(&mut self.current, &change);
        self.pending.push(Pending { id, change, reaped: false, overwrite });
    }

    fn is_initialised(&self, at: usize, length: usize) -> bool {
        let sectors = at / SECTOR..(at + length).div_ceil(SECTOR);
        at + length <= self.durable.len() && self.initialised[sectors].iter().all(|set| *set)
    }

    pub(super) fn reap(&mut self, id: u64) {
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.id == id) {
            pending.reaped = true;
        }
    }

    /// The process that would have seen the completions is gone; the operating system knows them.
    pub(super) fn reap_all(&mut self) {
        self.pending.iter_mut().for_each(|pending| pending.reaped = true);
    }

    /// Ids of the changes that a flush submitted now would cover.
    pub(super) fn covered(&self, by_device_flush: bool) -> Vec<u64> {
        let covered =
            |pending: &&Pending| pending.reaped && (pending.overwrite || !by_device_flush);
        self.pending.iter().filter(covered).map(|pending| pending.id).collect()
    }

    /// Makes these changes durable.
    pub(super) fn settle(&mut self, ids: &[u64]) {
        let (done, rest) =
            std::mem::take(&mut self.pending).into_iter().partition(|one| ids.contains(&one.id));
        self.pending = rest;
        let done: Vec<Pending> = done;
        for pending in done {
            apply_to(&mut self.durable, &pending.change);
            self.initialised.resize(self.durable.len().div_ceil(SECTOR), false);
            if let Change::Write(at, bytes) = pending.change {
                let sectors = at / SECTOR..(at + bytes.len()).div_ceil(SECTOR);
                self.initialised[sectors].fill(true);
            }
        }
        self.convert_blocks();
    }

    /// Power is cut: each sector of each undurable change stays, goes or tears.
    pub(super) fn crash(&mut self, random: &mut Random, survival: Survival) {
        for pending in std::mem::take(&mut self.pending) {
            match pending.change {
                Change::Length(_) if !random.chance(survival.keep) => {}
                Change::Length(length) => {
                    self.durable.resize(length, 0);
                    self.initialised.resize(length.div_ceil(SECTOR), false);
                }
                Change::Write(at, bytes) => self.crash_write(random, survival, at, &bytes),
            }
        }
        self.convert_blocks();
        self.current = self.durable.clone();
    }

    fn crash_write(&mut self, random: &mut Random, survival: Survival, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if end > self.durable.len() && random.chance(survival.keep) {
            // The length is metadata of its own and may survive in part.
            let grown = end - self.durable.len();
            let kept = random.below(grown / SECTOR + 1) * SECTOR;
            self.durable.resize(self.durable.len() + kept, 0);
            self.initialised.resize(self.durable.len().div_ceil(SECTOR), false);
        }
        for (index, sector) in bytes.chunks(SECTOR).enumerate() {
            let start = at + index * SECTOR;
            if start + sector.len() > self.durable.len() || !random.chance(survival.keep) {
                continue;
            }
            let torn = random.chance(survival.tear);
            let cut = if torn { random.below(sector.len()) } else { sector.len() };
            self.durable[start..start + cut].copy_from_slice(&sector[..cut]);
            self.initialised[start / SECTOR] = true;
        }
    }

    /// Extents are converted block by block: a block cut in its middle and grown again stays
    /// initialised.
    fn convert_blocks(&mut self) {
        for block in self.initialised.chunks_mut(BLOCK_SECTORS) {
            let any = block.iter().any(|set| *set);
            block.fill(any);
        }
    }
}

fn apply_to(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Length(length) => content.resize(*length, 0),
        Change::Write(at, bytes) => {
            let end = at + bytes.len();
            if content.len() < end {
                content.resize(end, 0);
            }
            content[*at..end].copy_from_slice(bytes);
        }
    }
}
