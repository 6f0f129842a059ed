//! Memory of the Produce requests of one shard that wait for long work.
//!
//! Owns the sum alone. Knows nothing of requests. Few threads do long work, so without a bound
//! every connection of a shard could keep a frame of the largest size outside its buffers.

use std::cell::Cell;

use crate::limits::LONG_FRAMES_BYTES_PER_SHARD;

/// What those requests hold together.
#[derive(Debug, Default)]
pub struct LongFrames {
    bytes: Cell<usize>,
}

/// The part of one request, until it is dropped.
#[derive(Debug)]
pub struct Reserved<'a> {
    frames: &'a LongFrames,
    bytes: usize,
}

impl LongFrames {
    /// Reserves `bytes` of memory; `None` where others hold too much of it. A request alone may
    /// be of any size: its frame was admitted.
    #[must_use]
    pub fn reserve(&self, bytes: usize) -> Option<Reserved<'_>> {
        let held = self.bytes.get();
        let fits = held == 0 || held.saturating_add(bytes) <= LONG_FRAMES_BYTES_PER_SHARD;
        fits.then(|| {
            self.bytes.set(held + bytes);
            Reserved { frames: self, bytes }
        })
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.frames.bytes.set(self.frames.bytes.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_always_fits_and_many_only_within_the_bound() {
        let frames = LongFrames::default();
        drop(frames.reserve(10 * LONG_FRAMES_BYTES_PER_SHARD).expect("it is alone"));
        let half = LONG_FRAMES_BYTES_PER_SHARD / 2;
        let first = frames.reserve(half).expect("within the bound");
        let second = frames.reserve(half).expect("just within the bound");
        assert!(frames.reserve(1).is_none());
        drop(first);
        assert!(frames.reserve(half + 1).is_none());
        drop(frames.reserve(half).expect("there is room again"));
        drop(second);
        assert_eq!(frames.bytes.get(), 0);
    }
}
