//! Cutting the received bytes into request frames, without copying them.
//!
//! Owns the bytes of one connection that no request has taken yet. Invariant: memory held is what
//! was received, never what a length prefix claims. A bad length is final for the connection.

use std::collections::VecDeque;

use millrace_engine::io::buf::{Chain, Slice, TailBuf};

use crate::{
    handler::{self, Kind},
    limits,
    wire::{ApiKey, frame::request_length},
};

/// Bytes of the length in front of every frame.
const LENGTH_PREFIX_BYTES: usize = 4;

/// Bytes of the API's key behind it.
const KEY_BYTES: usize = 2;

/// Why a connection's bytes cannot be cut into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLength;

/// The received, not yet taken bytes of one connection.
pub struct Frames {
    slices: VecDeque<Slice>,
    /// How many of the slices, from the front, lie in memory of their own.
    settled: usize,
    /// The memory that the last of them lies in, with room for more behind it.
    own: Option<TailBuf>,
    bytes: usize,
    cap_bytes: usize,
}

impl Frames {
    /// No bytes yet; frames longer than `cap_bytes` are refused by their prefix alone, and those
    /// longer than their API's requests may be by its key behind it.
    #[must_use]
    pub fn new(cap_bytes: usize) -> Self {
        Self { slices: VecDeque::new(), settled: 0, own: None, bytes: 0, cap_bytes }
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
        let length = request_length(self.front(), self.cap_bytes).map_err(|_| BadLength)?;
        if self.bytes < LENGTH_PREFIX_BYTES + KEY_BYTES {
            return Ok(None);
        }
        if length > self.kind().frame_cap_bytes() {
            return Err(BadLength);
        }
        if self.bytes < LENGTH_PREFIX_BYTES + length {
            return Ok(None);
        }
        self.skip(LENGTH_PREFIX_BYTES);
        Ok(Some(self.take(length)))
    }

    /// The first `N` bytes, which are there.
    fn front<const N: usize>(&self) -> [u8; N] {
        let mut front = [0; N];
        let bytes = self.slices.iter().flat_map(|slice| slice.iter());
        front.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        front
    }

    /// Of what kind the request is whose first bytes are there.
    fn kind(&self) -> Kind {
        let [.., high, low] = self.front::<{ LENGTH_PREFIX_BYTES + KEY_BYTES }>();
        // A request that nobody knows ends its connection, however short.
        ApiKey::from_i16(i16::from_be_bytes([high, low])).map_or(Kind::Plain, handler::kind)
    }

    fn skip(&mut self, count: usize) {
        self.take(count);
    }

    fn take(&mut self, mut count: usize) -> Chain {
        let mut taken = Chain::new();
        self.bytes -= count;
        if self.bytes == 0 {
            self.own = None;
        }
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

    /// Whether a frame came in many small pieces, which cost more than their bytes.
    #[must_use]
    pub fn is_scattered(&self) -> bool {
        let loose = self.slices.len() - self.settled;
        let bytes =
            || self.slices.iter().skip(self.settled).map(|slice| slice.len()).sum::<usize>();
        loose > limits::FRAME_PIECES_MAX && bytes() < loose * limits::FRAME_PIECE_BYTES_MIN
    }

    /// Moves what is held out of the shared receive buffers into memory of its own, so that a
    /// client that stops in mid-frame does not keep them from the others.
    ///
    /// Each byte is copied once, however many calls and however small the pieces it came in, and
    /// the memory is at most twice the bytes, but for the last page.
    pub fn settle(&mut self) {
        let loose: Vec<_> = self.slices.drain(self.settled..).collect();
        for slice in loose {
            let mut left = &slice[..];
            while !left.is_empty() {
                left = self.settle_some(left);
            }
        }
    }

    /// Copies what fits of `bytes` behind what is settled; returns the rest.
    fn settle_some<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let room = self.bytes.min(limits::SMALL_FRAME_BYTES).max(bytes.len());
        let mut own = self.own.take().unwrap_or_else(|| TailBuf::unpooled(room));
        let mut start = own.len();
        let count = own.append(bytes);
        // Behind the last slice in the same memory, it makes that one longer.
        if start > 0 && self.settled > 0 {
            let last = self.slices.pop_back().expect("the loose ones were taken out");
            self.settled -= 1;
            start -= last.len();
        }
        self.slices.push_back(own.slice(start..own.len()));
        self.settled += 1;
        self.own = (own.spare() > 0).then_some(own);
        bytes.get(count..).unwrap_or_default()
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
    /// often as it had pieces, or took a page for every piece.
    #[test]
    fn settled_bytes_stay_where_they_are_and_small_pieces_share_memory() {
        let mut frames = Frames::new(100_000);
        frames.push(Slice::copy_of(&50_000_u32.to_be_bytes()));
        frames.settle();
        let place = frames.slices[0].as_ptr();
        for piece in 0..4000_u16 {
            frames.push(Slice::copy_of(&[piece.to_be_bytes()[1]]));
            frames.settle();
        }
        assert_eq!((frames.slices.len(), frames.slices[0].as_ptr()), (1, place));
        frames.push(Slice::copy_of(&[7; 46_000]));
        frames.settle();
        let mut held = Chain::new();
        frames.slices.iter().for_each(|slice| held.push(slice.clone()));
        let pinned = held.pinned_bytes();
        assert!(frames.slices.len() <= 3 && pinned <= 2 * 50_004 + 4096, "{pinned}");
        let frame = frames.next().expect("a good length").expect("complete");
        let counted = (0..4000_u16).map(|piece| piece.to_be_bytes()[1]);
        assert_eq!(frame.to_vec(), counted.chain([7; 46_000]).collect::<Vec<u8>>());
        assert!(frames.own.is_none(), "nothing is held for a client that sent whole frames");
    }

    #[test]
    fn only_many_small_pieces_are_scattered() {
        let pushed = |count: usize, bytes: usize| {
            let mut frames = Frames::new(10 << 20);
            frames.push(Slice::copy_of(&(9_u32 << 20).to_be_bytes()));
            (0..count).for_each(|_| frames.push(Slice::copy_of(&vec![1; bytes])));
            frames
        };
        assert!(!pushed(limits::FRAME_PIECES_MAX - 1, 1).is_scattered());
        assert!(!pushed(100, 2 * limits::FRAME_PIECE_BYTES_MIN).is_scattered());
        let mut trickle = pushed(100, 1);
        assert!(trickle.is_scattered());
        trickle.settle();
        assert!(!trickle.is_scattered());
    }

    /// A complete frame of any API was held, up to 100 MiB, before it was found too long for it.
    #[test]
    fn a_length_over_what_the_api_needs_is_refused_by_its_key() {
        let begun = |key: ApiKey, length: usize| {
            let mut frames = Frames::new(100 << 20);
            let length = u32::try_from(length).expect("short").to_be_bytes();
            frames.push(Slice::copy_of(&length));
            assert!(frames.next().expect("within the cap of any frame").is_none());
            frames.push(Slice::copy_of(&key.code().to_be_bytes()));
            frames.next().map(|frame| assert!(frame.is_none(), "most of it is missing"))
        };
        for api in crate::wire::API_TABLE {
            let longest = handler::kind(api.key).frame_cap_bytes();
            if api.key == ApiKey::Produce {
                assert_eq!(begun(api.key, 100 << 20), Ok(()));
                continue;
            }
            assert!(longest <= 4 << 20, "{:?} may be {longest} bytes", api.key);
            assert_eq!(begun(api.key, longest), Ok(()), "{:?}", api.key);
            assert_eq!(begun(api.key, longest + 1), Err(BadLength), "{:?}", api.key);
        }
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
