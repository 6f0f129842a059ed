//! Cutting the received bytes into request frames, without copying them.
//!
//! Owns the bytes of one connection that no request has taken yet. Invariant: memory held is what
//! was received, never what a length prefix claims. A bad length is final for the connection.

use std::collections::VecDeque;

use millrace_engine::io::buf::{Chain, Slice};

use crate::wire::frame::request_length;

/// Bytes of the length in front of every frame.
const LENGTH_PREFIX_BYTES: usize = 4;

/// Why a connection's bytes cannot be cut into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLength;

/// The received, not yet taken bytes of one connection.
pub struct Frames {
    slices: VecDeque<Slice>,
    /// How many of the slices, from the front, lie in memory of their own.
    settled: usize,
    bytes: usize,
    cap_bytes: usize,
}

impl Frames {
    /// No bytes yet; frames longer than `cap_bytes` are refused by their prefix alone.
    #[must_use]
    pub fn new(cap_bytes: usize) -> Self {
        Self { slices: VecDeque::new(), settled: 0, bytes: 0, cap_bytes }
    }

    /// Takes received bytes.
    pub fn push(&mut self, slice: Slice) {
        if !slice.is_empty() {
            self.bytes += slice.len();
            self.slices.push_back(slice);
        }
    }

    /// Bytes held, of frames that are not complete or not taken.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// The next whole frame without its length prefix; `None` until it is complete.
    pub fn next(&mut self) -> Result<Option<Chain>, BadLength> {
        if self.bytes < LENGTH_PREFIX_BYTES {
            return Ok(None);
        }
        let length = request_length(self.prefix(), self.cap_bytes).map_err(|_| BadLength)?;
        if self.bytes < LENGTH_PREFIX_BYTES + length {
            return Ok(None);
        }
        self.skip(LENGTH_PREFIX_BYTES);
        Ok(Some(self.take(length)))
    }

    fn prefix(&self) -> [u8; LENGTH_PREFIX_BYTES] {
        let mut prefix = [0; LENGTH_PREFIX_BYTES];
        let bytes = self.slices.iter().flat_map(|slice| slice.iter());
        prefix.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        prefix
    }

    fn skip(&mut self, count: usize) {
        self.take(count);
    }

    fn take(&mut self, mut count: usize) -> Chain {
        let mut taken = Chain::new();
        self.bytes -= count;
        while count > 0 {
            let slice = self.slices.pop_front().expect("the bytes were counted in");
            if slice.len() > count {
                self.slices.push_front(slice.sub(count..slice.len()));
                taken.push(slice.sub(0..count));
                return taken;
            }
            self.settled = self.settled.saturating_sub(1);
            count -= slice.len();
            taken.push(slice);
        }
        taken
    }

    /// Moves what is held out of the shared receive buffers into memory of its own, so that a
    /// client that stops in mid-frame does not keep them from the others.
    ///
    /// What came since the last call becomes one piece: each byte is copied once, however many
    /// calls and however small the pieces it came in.
    pub fn settle(&mut self) {
        if self.settled == self.slices.len() {
            return;
        }
        let mut received = Chain::new();
        self.slices.drain(self.settled..).for_each(|slice| received.push(slice));
        self.slices.push_back(Slice::copy_of(&received.to_vec()));
        self.settled += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(bodies: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for body in bodies {
            bytes.extend(u32::try_from(body.len()).expect("short").to_be_bytes());
            bytes.extend_from_slice(body);
        }
        bytes
    }

    #[test]
    fn frames_come_out_whatever_the_cuts() {
        let bodies: [&[u8]; 3] = [b"the first", b"shortest", b"the third"];
        let bytes = framed(&bodies);
        for piece in 1..bytes.len() {
            let mut frames = Frames::new(1000);
            let mut found = Vec::new();
            for part in bytes.chunks(piece) {
                frames.push(Slice::copy_of(part));
                frames.settle();
                while let Some(frame) = frames.next().expect("good lengths") {
                    found.push(frame.to_vec());
                }
            }
            assert_eq!(found, bodies);
            assert_eq!(frames.held_bytes(), 0);
        }
    }

    /// Under pressure a connection settles at every receive: a frame of many receives was copied as
    /// often as it had pieces.
    #[test]
    fn settled_bytes_stay_where_they_are() {
        let mut frames = Frames::new(1000);
        frames.push(Slice::copy_of(&[0, 0, 0, 100, 1]));
        frames.push(Slice::copy_of(&[2]));
        frames.settle();
        assert_eq!(frames.slices.len(), 1, "small pieces become one");
        let place = frames.slices[0].as_ptr();
        frames.push(Slice::copy_of(&[3]));
        frames.settle();
        assert_eq!((frames.slices.len(), frames.slices[0].as_ptr()), (2, place));
    }

    #[test]
    fn a_length_over_the_cap_or_negative_is_refused_by_its_prefix() {
        for prefix in [1001u32, u32::MAX, 0x8000_0000] {
            let mut frames = Frames::new(1000);
            frames.push(Slice::copy_of(&prefix.to_be_bytes()));
            assert_eq!(frames.next().err(), Some(BadLength));
        }
    }
}
