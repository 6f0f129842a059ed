//! The hash that spreads keys over partitions: murmur2 as Kafka's Java client computes it.
//!
//! Every client that wants to find the partition another client chose for a key has to agree on
//! this function bit by bit, its odd seed and sign handling included.

const SEED: u32 = 0x9747_b28c;
const MIX: u32 = 0x5bd1_e995;
const SHIFT: u32 = 24;

/// murmur2 of `bytes`, the bits of Java's `Utils.murmur2`.
#[must_use]
pub fn murmur2(bytes: &[u8]) -> u32 {
    // Java hashes arrays, whose length is an i32; a longer key cannot exist in a record.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut hash = SEED ^ length;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut mixed = u32::from_le_bytes(*word).wrapping_mul(MIX);
        mixed ^= mixed >> SHIFT;
        hash = hash.wrapping_mul(MIX) ^ mixed.wrapping_mul(MIX);
    }
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(MIX);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MIX);
    hash ^ (hash >> 15)
}

/// Java's `Utils.toPositive`: the sign bit cleared, which is not the absolute value.
#[must_use]
pub fn to_positive(hash: u32) -> u32 {
    hash & 0x7fff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of Kafka's own `UtilsTest.testMurmur2`.
    #[test]
    fn agrees_with_java() {
        let known: [(&[u8], i32); 6] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
        ];
        for (key, hash) in known {
            assert_eq!(murmur2(key), u32::from_ne_bytes(hash.to_ne_bytes()), "{key:?}");
        }
    }

    #[test]
    fn clears_the_sign_instead_of_negating() {
        assert_eq!(to_positive(u32::from_ne_bytes((-1_i32).to_ne_bytes())), 0x7fff_ffff);
        assert_eq!(to_positive(0x8000_0000), 0);
        assert_eq!(to_positive(5), 5);
    }
}
