//! Zigzag varints as records use them (Protocol Buffers' `sint32` and `sint64`).

/// Takes a 32-bit varint off the front of `rest`; `None` when it is cut or longer than 5 bytes.
pub(super) fn take_i32(rest: &mut &[u8]) -> Option<i32> {
    let raw = u32::try_from(take_raw(rest, 5)? & u64::from(u32::MAX)).ok()?;
    Some((raw >> 1).cast_signed() ^ -((raw & 1).cast_signed()))
}

/// Takes a 64-bit varint off the front of `rest`; `None` when it is cut or longer than 10 bytes.
pub(super) fn take_i64(rest: &mut &[u8]) -> Option<i64> {
    let raw = take_raw(rest, 10)?;
    Some((raw >> 1).cast_signed() ^ -((raw & 1).cast_signed()))
}

/// As Kafka's readers, drops bits beyond the type's own in the last byte allowed.
fn take_raw(rest: &mut &[u8], bytes_max: u32) -> Option<u64> {
    let mut value = 0;
    for place in 0..bytes_max {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        value |= u64::from(byte & 0x7F) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Appends `value` as a varint.
pub(super) fn put_i32(out: &mut Vec<u8>, value: i32) {
    put_raw(out, u64::from((value << 1 ^ value >> 31).cast_unsigned()));
}

/// Appends `value` as a varint.
pub(super) fn put_i64(out: &mut Vec<u8>, value: i64) {
    put_raw(out, (value << 1 ^ value >> 63).cast_unsigned());
}

fn put_raw(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_byte(value) | 0x80);
        value >>= 7;
    }
    out.push(low_byte(value));
}

fn low_byte(value: u64) -> u8 {
    let [byte, ..] = value.to_le_bytes();
    byte & 0x7F
}

/// Bytes that `value` takes as a varint.
pub(super) fn size_i32(value: i32) -> usize {
    size_raw(u64::from((value << 1 ^ value >> 31).cast_unsigned()))
}

/// Bytes that `value` takes as a varint.
pub(super) fn size_i64(value: i64) -> usize {
    size_raw((value << 1 ^ value >> 63).cast_unsigned())
}

fn size_raw(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_and_sizes_agree() {
        let edges = (0..64).flat_map(|bit| {
            let power = 1_i64 << bit;
            [power, power.wrapping_sub(1), power.wrapping_neg(), !power]
        });
        for value in edges {
            let mut out = Vec::new();
            put_i64(&mut out, value);
            assert_eq!(out.len(), size_i64(value));
            assert_eq!(take_i64(&mut &out[..]), Some(value));
            let Ok(short) = i32::try_from(value) else { continue };
            let mut out = Vec::new();
            put_i32(&mut out, short);
            assert_eq!(out.len(), size_i32(short));
            assert_eq!(take_i32(&mut &out[..]), Some(short));
        }
    }

    #[test]
    fn cut_and_endless_ones_are_refused() {
        assert_eq!(take_i32(&mut &[0x80][..]), None);
        assert_eq!(take_i32(&mut &[0xFF; 6][..]), None);
        assert_eq!(take_i64(&mut &[0xFF; 11][..]), None);
        assert_eq!(take_i64(&mut &[][..]), None);
    }
}
