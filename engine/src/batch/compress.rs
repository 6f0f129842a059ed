//! The codecs: compress the records of a batch, and decompress them under a cap.
//!
//! Owns which framing each codec has in magic 2: gzip members, Snappy blocks as Java's
//! `SnappyOutputStream` frames them (or one raw block), an LZ4 frame, Zstandard frames. Knows
//! nothing of records.
//!
//! Invariant: memory follows the bytes there are, not the sizes they declare, and output stops at
//! the caller's cap while it is being made. Malformed input is an error, never a panic.

use std::{
    fmt,
    io::{Read, Write},
};

use flate2::{Compression, bufread::MultiGzDecoder, write::GzEncoder};
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use zstd::zstd_safe::{self, DCtx, zstd_sys::ZSTD_ErrorCode};

use super::{header::Codec, snappy};

/// Least first guess at the size of Zstandard output, in bytes.
const ZSTD_FIRST_GUESS_BYTES: usize = 16 << 10;

/// Why bytes could not be compressed or decompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodecError {
    /// The input is not what the codec makes.
    Malformed(Codec),
    /// The output would exceed the caller's cap.
    OverCap,
    /// The compressor failed, which only exhausted memory explains.
    Failed(Codec),
}

impl fmt::Display for CodecError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(codec) => write!(out, "not valid {} data", codec.name()),
            Self::OverCap => out.write_str("decompresses to more than is allowed"),
            Self::Failed(codec) => write!(out, "{} compression failed", codec.name()),
        }
    }
}

impl std::error::Error for CodecError {}

/// Appends `input`, compressed, to `out`.
///
/// `level` is the codec's own (`compression.gzip.level`, `compression.zstd.level`), clamped to what
/// it knows; `None` is Kafka's default. Snappy and LZ4 have none here and ignore it.
pub fn compress(
    codec: Codec,
    level: Option<i32>,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    match codec {
        Codec::None => out.extend_from_slice(input),
        Codec::Gzip => {
            let level = level.and_then(|level| u32::try_from(level).ok()).map(|level| level.min(9));
            let mut encoder =
                GzEncoder::new(out, level.map_or(Compression::default(), Compression::new));
            encoder.write_all(input).map_err(|_| CodecError::Failed(codec))?;
            encoder.finish().map_err(|_| CodecError::Failed(codec))?;
        }
        Codec::Snappy => snappy::compress(input, out)?,
        Codec::Lz4 => compress_lz4(input, out)?,
        Codec::Zstd => {
            let range = zstd::compression_level_range();
            let level = level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
            let level = level.clamp(*range.start(), *range.end());
            let compressed =
                zstd::bulk::compress(input, level).map_err(|_| CodecError::Failed(codec))?;
            out.extend_from_slice(&compressed);
        }
    }
    Ok(())
}

/// Java's decoder refuses linked blocks, and Kafka's encoder makes blocks of 64 KiB.
fn compress_lz4(input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    let info = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
    let mut encoder = FrameEncoder::with_frame_info(info, out);
    encoder.write_all(input).map_err(|_| CodecError::Failed(Codec::Lz4))?;
    encoder.finish().map_err(|_| CodecError::Failed(Codec::Lz4))?;
    Ok(())
}

/// Replaces the content of `out` by `input`, decompressed; at most `cap_bytes` of it. On an error
/// `out` holds nothing of use.
pub fn decompress(
    codec: Codec,
    input: &[u8],
    cap_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    out.clear();
    match codec {
        Codec::None if input.len() > cap_bytes => return Err(CodecError::OverCap),
        Codec::None => out.extend_from_slice(input),
        Codec::Gzip => read_capped(MultiGzDecoder::new(input), codec, cap_bytes, out)?,
        Codec::Snappy => snappy::decompress(input, cap_bytes, out)?,
        Codec::Lz4 => read_capped(FrameDecoder::new(input), codec, cap_bytes, out)?,
        Codec::Zstd => decompress_zstd(input, cap_bytes, out)?,
    }
    Ok(())
}

/// Bytes at the start of an LZ4 frame that tell the size of its blocks: magic, flags, sizes.
pub(super) const LZ4_DESCRIPTOR_BYTES: usize = 6;

/// Bytes that [`decompress`] may make at a time before it notices the cap, for input that begins
/// with `start`. An LZ4 frame chooses its blocks' size, up to 4 MiB; each block is made whole.
pub(super) fn makes_at_once(codec: Codec, start: &[u8; LZ4_DESCRIPTOR_BYTES]) -> usize {
    let [.., sizes] = start;
    match (codec, (sizes >> 4) & 7) {
        // Other sizes than these four are refused, and the first is the smallest.
        (Codec::Lz4, 5) => 256 << 10,
        (Codec::Lz4, 6) => 1 << 20,
        (Codec::Lz4, 7) => 4 << 20,
        (Codec::Lz4, _) => 64 << 10,
        _ => 0,
    }
}

fn read_capped(
    decoder: impl Read,
    codec: Codec,
    cap_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    // One byte more than the cap tells "exactly the cap" from "more".
    let limit = u64::try_from(cap_bytes).unwrap_or(u64::MAX).saturating_add(1);
    decoder.take(limit).read_to_end(out).map_err(|_| CodecError::Malformed(codec))?;
    if out.len() > cap_bytes {
        return Err(CodecError::OverCap);
    }
    Ok(())
}

/// In one call into a buffer that grows on demand, not by stream: a stream allocates the window
/// that the frame declares (up to 128 MiB), and the declared content size is no more to be trusted.
/// Repeating from the start at four times the size costs at most a third more in all.
fn decompress_zstd(input: &[u8], cap_bytes: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let malformed = CodecError::Malformed(Codec::Zstd);
    let mut context = DCtx::try_create().ok_or(CodecError::Failed(Codec::Zstd))?;
    let mut guess = input.len().saturating_mul(4).max(ZSTD_FIRST_GUESS_BYTES).min(cap_bytes);
    loop {
        out.clear();
        out.reserve_exact(guess);
        match context.decompress(out, input) {
            Ok(_) if out.len() > cap_bytes => return Err(CodecError::OverCap),
            Ok(_) => return Ok(()),
            Err(code) => {
                let short =
                    zstd_safe::is_error_kind(code, ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall);
                if !short {
                    return Err(malformed);
                }
                if guess == cap_bytes {
                    return Err(CodecError::OverCap);
                }
            }
        }
        guess = guess.saturating_mul(4).min(cap_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: usize) -> Vec<u8> {
        let words = b"the quick brown fox jumps over the lazy dog ";
        words.iter().copied().cycle().take(bytes).collect()
    }

    #[test]
    fn every_codec_returns_what_it_took() {
        for codec in Codec::ALL {
            for size in [0, 1, 100, 32 << 10, 65 << 10, 1 << 20] {
                for level in [None, Some(1), Some(-100), Some(100)] {
                    let (input, mut packed, mut out) = (text(size), Vec::new(), vec![1]);
                    compress(codec, level, &input, &mut packed).expect("compresses");
                    decompress(codec, &packed, size, &mut out).expect("decompresses");
                    assert_eq!(out, input, "{codec:?} of {size} bytes");
                }
            }
        }
    }

    #[test]
    fn a_bomb_stops_at_the_cap() {
        for codec in Codec::ALL {
            let (mut packed, mut out) = (Vec::new(), Vec::new());
            compress(codec, None, &vec![0; 8 << 20], &mut packed).expect("compresses");
            let cap_bytes = 100_000;
            assert_eq!(decompress(codec, &packed, cap_bytes, &mut out), Err(CodecError::OverCap));
            assert!(out.capacity() <= 4 * cap_bytes, "{codec:?} took {}", out.capacity());
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        let mut out = Vec::new();
        for codec in Codec::ALL.into_iter().filter(|codec| *codec != Codec::None) {
            let result = decompress(codec, b"\xff\xfenot compressed at all", 1 << 20, &mut out);
            assert_eq!(result, Err(CodecError::Malformed(codec)));
        }
    }
}
