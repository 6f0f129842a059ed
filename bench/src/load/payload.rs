//! What a record of the load holds: which run it belongs to and when it was due, then noise that
//! does not compress.

use std::time::Duration;

/// Bytes of run and due time.
pub const MIN_BYTES: usize = 16;

/// Bytes of noise that payloads are cut from.
const NOISE_BYTES: usize = 1 << 20;

/// Makes payloads.
#[derive(Debug)]
pub struct Payload {
    run: u64,
    noise: Vec<u8>,
    bytes: Vec<u8>,
    at: usize,
}

impl Payload {
    /// Payloads of `size_bytes` (at least [`MIN_BYTES`]) for the run `run`.
    pub fn new(run: u64, size_bytes: usize) -> Self {
        let mut noise = Vec::with_capacity(NOISE_BYTES + size_bytes);
        let mut state = run | 1;
        while noise.len() < NOISE_BYTES + size_bytes {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            noise.extend_from_slice(&state.to_le_bytes());
        }
        Self { run, noise, bytes: vec![0; size_bytes], at: 0 }
    }

    /// The payload of a record that is due at `due` since the start.
    pub fn next(&mut self, due: Duration) -> &[u8] {
        let size = self.bytes.len();
        self.at = (self.at + size) % NOISE_BYTES;
        self.bytes.copy_from_slice(&self.noise[self.at..self.at + size]);
        let due_ns = u64::try_from(due.as_nanos()).unwrap_or(u64::MAX);
        self.bytes[..8].copy_from_slice(&self.run.to_be_bytes());
        self.bytes[8..MIN_BYTES].copy_from_slice(&due_ns.to_be_bytes());
        &self.bytes
    }
}

/// When a record was due, if it is of the run `run`.
pub fn due(run: u64, payload: &[u8]) -> Option<Duration> {
    let (of, rest) = payload.split_first_chunk()?;
    let due_ns = rest.first_chunk()?;
    (u64::from_be_bytes(*of) == run).then(|| Duration::from_nanos(u64::from_be_bytes(*due_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_tells_its_run_and_due_time() {
        let mut payload = Payload::new(7, 100);
        let bytes = payload.next(Duration::from_micros(5)).to_vec();
        assert_eq!(bytes.len(), 100);
        assert_eq!(due(7, &bytes), Some(Duration::from_micros(5)));
        assert_eq!(due(8, &bytes), None);
        assert_eq!(due(7, b"short"), None);
        assert_ne!(payload.next(Duration::from_micros(5)), bytes, "noise goes on");
    }
}
