//! The four bytes in front of every request and response, and how long a frame may be.

use millrace_engine::limits::FRAME_CAP_BYTES;

use super::DecodeError;

/// Longest frame of a connection that has not said who it is, in bytes: room for any handshake
/// and token, too little to fill memory from many connections.
pub const PRE_AUTH_FRAME_CAP_BYTES: usize = 64 << 10;

/// The smallest request: key, version and correlation id.
const HEADER_MIN_BYTES: usize = 8;

// An unauthenticated peer never gets more than an authenticated one.
const _: () = assert!(PRE_AUTH_FRAME_CAP_BYTES < FRAME_CAP_BYTES);

/// The longest request frame a connection may send now, in bytes. `authenticated` is true from the
/// start where the listener asks for no authentication; `frame_cap_bytes` is
/// `socket.request.max.bytes`.
#[must_use]
pub fn cap_bytes(authenticated: bool, frame_cap_bytes: usize) -> usize {
    if authenticated { frame_cap_bytes } else { frame_cap_bytes.min(PRE_AUTH_FRAME_CAP_BYTES) }
}

/// Bytes of the request frame behind its four bytes of length.
pub fn request_length(prefix: [u8; 4], cap_bytes: usize) -> Result<usize, DecodeError> {
    length(prefix, cap_bytes, HEADER_MIN_BYTES)
}

/// Bytes of the response frame behind its four bytes of length, for a client.
pub fn response_length(prefix: [u8; 4], cap_bytes: usize) -> Result<usize, DecodeError> {
    length(prefix, cap_bytes, size_of::<i32>())
}

fn length(prefix: [u8; 4], cap_bytes: usize, min_bytes: usize) -> Result<usize, DecodeError> {
    let claimed = i32::from_be_bytes(prefix);
    match usize::try_from(claimed) {
        Ok(length) if (min_bytes..=cap_bytes).contains(&length) => Ok(length),
        _ => Err(DecodeError::FrameLength { claimed, cap_bytes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_lengths_are_refused() {
        for claimed in [-1, i32::MIN, 0, 7, 101, i32::MAX] {
            assert!(request_length(claimed.to_be_bytes(), 100).is_err(), "{claimed}");
        }
        assert_eq!(request_length(100_i32.to_be_bytes(), 100), Ok(100));
        assert_eq!(response_length(4_i32.to_be_bytes(), 100), Ok(4));
    }

    #[test]
    fn a_stranger_gets_a_small_frame() {
        assert_eq!(cap_bytes(false, FRAME_CAP_BYTES), 64 << 10);
        assert_eq!(cap_bytes(true, FRAME_CAP_BYTES), FRAME_CAP_BYTES);
        assert_eq!(cap_bytes(false, 1024), 1024);
    }
}
