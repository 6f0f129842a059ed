//! CRC-32C of a batch, whole or moved to a changed header without reading the payload again.
//!
//! The checksum covers the bytes from the attributes (21) to the end of the batch. CRC-32C is
//! linear over GF(2): a change of the first bytes changes the result by the checksum of the
//! difference, shifted over all bytes behind. That shift is a product of polynomials modulo the
//! CRC's own, and costs one product per set bit of the length; the `crc32c` crate's combine squares
//! a matrix per bit and costs more than a second pass over a batch of usual size.

use super::header::{CHECKED_FROM, HEADER_BYTES};

/// CRC-32C's polynomial, bits reversed: bit 31 is the coefficient of 1, bit 0 that of x^31.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// `x^(8 * 2^k)` modulo the polynomial: a shift by `2^k` bytes.
const SHIFTS: [u32; 32] = {
    let mut shifts = [0; 32];
    let mut power = 1 << 23; // x^8
    let mut k = 0;
    while k < shifts.len() {
        shifts[k] = power;
        power = multiply(power, power);
        k += 1;
    }
    shifts
};

/// Product of two polynomials over GF(2) modulo [`POLYNOMIAL`].
const fn multiply(left: u32, mut right: u32) -> u32 {
    let mut product = 0;
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        // A mask instead of a branch: the bits are random, so a branch would be mispredicted.
        product ^= right & (left >> bit & 1).wrapping_neg();
        right = (right >> 1) ^ (POLYNOMIAL & (right & 1).wrapping_neg());
    }
    product
}

/// The CRC that a batch must carry: over its header from the attributes on and its payload.
pub fn checksum<'a>(
    header: &[u8; HEADER_BYTES],
    payload: impl IntoIterator<Item = &'a [u8]>,
) -> u32 {
    let head = checked_head(header);
    payload.into_iter().fold(crc32c::crc32c(head), crc32c::crc32c_append)
}

/// The CRC of a batch after its header changed from `old` to `new`, given the CRC it had and the
/// length of its unchanged payload. Does not read the payload; O(log n) in its length.
#[must_use]
pub fn shift_checksum(
    crc: u32,
    old: &[u8; HEADER_BYTES],
    new: &[u8; HEADER_BYTES],
    payload_bytes: u32,
) -> u32 {
    let mut difference = crc32c::crc32c(checked_head(old)) ^ crc32c::crc32c(checked_head(new));
    let mut left = payload_bytes;
    for shift in SHIFTS {
        if left & 1 == 1 {
            difference = multiply(shift, difference);
        }
        left >>= 1;
    }
    crc ^ difference
}

fn checked_head(header: &[u8; HEADER_BYTES]) -> &[u8] {
    header.get(CHECKED_FROM..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_checksum_equals_a_full_one() {
        let mut old = [7; HEADER_BYTES];
        let payload: Vec<u8> = (0..3_000_u32).map(|i| (i * 31 % 251) as u8).collect();
        for (seed, length) in (0..3_000).step_by(37).enumerate() {
            let seed = u8::try_from(seed).expect("under a hundred steps");
            old[30] = seed;
            let mut new = old;
            new[22] ^= 8;
            new[40] = seed.wrapping_mul(91);
            let body = &payload[..length];
            let before = checksum(&old, [body]);
            let payload_bytes = u32::try_from(length).expect("small");
            let moved = shift_checksum(before, &old, &new, payload_bytes);
            assert_eq!(moved, checksum(&new, [body]), "payload of {length} bytes");
        }
    }

    #[test]
    fn cuts_between_slices_do_not_matter() {
        let header = [3; HEADER_BYTES];
        let whole = checksum(&header, [&b"abcdefgh"[..]]);
        assert_eq!(whole, checksum(&header, [&b"abc"[..], b"", b"defg", b"h"]));
    }
}
