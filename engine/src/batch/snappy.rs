//! Snappy as Kafka's clients frame it.
//!
//! Java writes `SnappyOutputStream`'s framing (magic, two version words, then blocks of a length
//! and a raw Snappy block of at most 32 KiB of input); some clients send a single raw block. The
//! standard Snappy framing format is a third thing and never occurs.

use super::{compress::CodecError, header::Codec};

/// Start of the framing. No raw block starts so: behind the length that `\x82S` spells, `N` would
/// copy from output that is not there yet.
const MAGIC: [u8; 8] = *b"\x82SNAPPY\0";

/// Version and lowest compatible version, both 1.
const VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];

/// Input per block, as Java's default.
const BLOCK_BYTES: usize = 32 << 10;

/// The most output a byte of input can make: a copy of 64 bytes takes 3.
const EXPANSION_MAX: usize = 22;

const MALFORMED: CodecError = CodecError::Malformed(Codec::Snappy);

/// Appends `input` to `out` in Java's framing.
pub(super) fn compress(input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    let failed = |_| CodecError::Failed(Codec::Snappy);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSIONS);
    let mut encoder = snap::raw::Encoder::new();
    for block in input.chunks(BLOCK_BYTES) {
        let compressed = encoder.compress_vec(block).map_err(failed)?;
        let length = u32::try_from(compressed.len()).map_err(|_| MALFORMED)?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&compressed);
    }
    Ok(())
}

/// Appends `input`, framed or raw, decompressed to `out`, which grows to at most `cap_bytes`.
pub(super) fn decompress(
    input: &[u8],
    cap_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let Some(mut rest) = after_frame_header(input)? else {
        return decompress_block(input, cap_bytes, out);
    };
    while !rest.is_empty() {
        // Streams may be joined: where a length is expected, a new header may stand.
        if let Some(behind) = after_frame_header(rest)? {
            rest = behind;
            continue;
        }
        let (length, behind) = rest.split_first_chunk().ok_or(MALFORMED)?;
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| MALFORMED)?;
        let (block, behind) = behind.split_at_checked(length).ok_or(MALFORMED)?;
        decompress_block(block, cap_bytes, out)?;
        rest = behind;
    }
    Ok(())
}

fn after_frame_header(input: &[u8]) -> Result<Option<&[u8]>, CodecError> {
    match input.strip_prefix(&MAGIC) {
        None => Ok(None),
        Some(behind) => behind.get(VERSIONS.len()..).map(Some).ok_or(MALFORMED),
    }
}

fn decompress_block(block: &[u8], cap_bytes: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let declared = snap::raw::decompress_len(block).map_err(|_| MALFORMED)?;
    // The declared length is believed only as far as the input could fill it.
    if declared > block.len().saturating_mul(EXPANSION_MAX) {
        return Err(MALFORMED);
    }
    let start = out.len();
    let end = start.checked_add(declared).filter(|end| *end <= cap_bytes);
    out.resize(end.ok_or(CodecError::OverCap)?, 0);
    let target = out.get_mut(start..).unwrap_or_default();
    let made = snap::raw::Decoder::new().decompress(block, target).map_err(|_| MALFORMED)?;
    if made == declared { Ok(()) } else { Err(MALFORMED) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_block_is_taken() {
        let raw = snap::raw::Encoder::new().compress_vec(&[b'a'; 1000]).expect("compresses");
        let mut out = Vec::new();
        decompress(&raw, 1000, &mut out).expect("decompresses");
        assert_eq!(out, [b'a'; 1000]);
    }

    #[test]
    fn joined_streams_are_taken() {
        let (mut packed, mut out) = (Vec::new(), Vec::new());
        compress(b"abc", &mut packed).expect("compresses");
        compress(b"def", &mut packed).expect("compresses");
        decompress(&packed, 6, &mut out).expect("decompresses");
        assert_eq!(out, b"abcdef");
    }

    #[test]
    fn a_declared_length_is_not_believed() {
        let mut out = Vec::new();
        assert_eq!(decompress(b"\xff\xff\xff\xff\x0f\x00a", usize::MAX, &mut out), Err(MALFORMED));
        assert_eq!(out.capacity(), 0);
    }
}
