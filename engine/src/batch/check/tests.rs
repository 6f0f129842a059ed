use super::*;
use crate::{
    batch::{BatchBuilder, BatchOptions, NewRecord},
    io::buf::Slice,
    types::ProducerId,
};

const NOW_MS: i64 = 1_700_000_000_000;

fn batch_of(codec: Codec, records: &[NewRecord<'_>]) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for record in records {
        builder.push(record).expect("fits");
    }
    let mut out = Vec::new();
    builder.finish(&BatchOptions { codec, ..BatchOptions::default() }, &mut out).expect("builds");
    out
}

fn keyed(timestamp_ms: i64) -> NewRecord<'static> {
    NewRecord { timestamp_ms, key: Some(b"key"), value: Some(b"value"), headers: &[] }
}

fn in_slices(bytes: &[u8], size: usize) -> Chain {
    let mut chain = Chain::new();
    bytes.chunks(size).for_each(|part| chain.push(Slice::copy_of(part)));
    chain
}

/// Changes the header and gives the batch the CRC that then fits.
fn with_header(bytes: &[u8], change: impl FnOnce(&mut Header)) -> Vec<u8> {
    let mut header = Header::from_prefix(bytes).expect("a header");
    change(&mut header);
    let payload = &bytes[HEADER_BYTES..];
    header.crc = checksum(&header.encode(), [payload]);
    [&header.encode()[..], payload].concat()
}

fn verdict(bytes: &[u8], rules: &Rules) -> Result<Accepted, Rejection> {
    check(&Slice::copy_of(bytes).into(), rules, NOW_MS)
}

fn is_invalid(result: &Result<Accepted, Rejection>) -> bool {
    matches!(result, Err(Rejection::InvalidRecord { .. }))
}

#[test]
fn a_good_batch_passes_in_any_slices() {
    for codec in Codec::ALL {
        let bytes = batch_of(codec, &[keyed(NOW_MS), keyed(NOW_MS - 5)]);
        for size in [1, 7, 61, 62, 1 << 20] {
            for strict in [false, true] {
                let rules = Rules { strict, ..Rules::default() };
                let accepted = check(&in_slices(&bytes, size), &rules, NOW_MS).expect("good");
                assert_eq!(accepted.header, Header::from_prefix(&bytes).expect("a header"));
                assert_eq!(accepted.payload.to_vec(), bytes[HEADER_BYTES..]);
                assert_eq!(accepted.size_bytes(), bytes.len());
            }
        }
    }
}

#[test]
fn every_cut_and_every_extra_byte_is_refused() {
    let bytes = batch_of(Codec::None, &[keyed(NOW_MS)]);
    for length in 0..bytes.len() {
        assert!(is_invalid(&verdict(&bytes[..length], &Rules::default())), "{length} bytes");
    }
    assert!(is_invalid(&verdict(&[&bytes[..], &[0]].concat(), &Rules::default())));
    assert!(is_invalid(&verdict(&[&bytes[..], &bytes[..]].concat(), &Rules::default())));
}

#[test]
fn every_flipped_bit_under_the_crc_is_noticed() {
    let bytes = batch_of(Codec::None, &[keyed(NOW_MS)]);
    for at in 17..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            let result = verdict(&flipped, &Rules::default());
            let codec_bits = at == 22 && bit == 2;
            let expected = if codec_bits {
                result.is_err()
            } else {
                matches!(result, Err(Rejection::Corrupt))
            };
            assert!(expected, "byte {at} bit {bit}: {result:?}");
        }
    }
}

#[test]
fn header_rules_are_kafkas() {
    type Change = fn(&mut Header);
    let good = batch_of(Codec::None, &[keyed(NOW_MS), keyed(NOW_MS)]);
    let invalid: [Change; 10] = [
        |header| header.base_offset = Offset(1),
        |header| header.magic = 1,
        |header| header.magic = 0,
        |header| header.record_count = 0,
        |header| header.record_count = -2,
        |header| header.record_count = 3,
        |header| header.last_offset_delta = -1,
        |header| header.last_offset_delta = i32::MAX,
        |header| header.set_control(true),
        |header| header.producer_id = ProducerId(7),
    ];
    for (at, change) in invalid.into_iter().enumerate() {
        let result = verdict(&with_header(&good, change), &Rules::default());
        assert!(is_invalid(&result), "change {at}: {result:?}");
    }
    let corrupt: [Change; 4] = [
        |header| header.magic = 3,
        |header| header.magic = -1,
        |header| header.batch_length = 13,
        |header| header.batch_length = -1,
    ];
    for change in corrupt {
        let result = verdict(&with_header(&good, change), &Rules::default());
        assert_eq!(result.err(), Some(Rejection::Corrupt));
    }
}

#[test]
fn codecs_need_to_exist_and_to_be_allowed() {
    let zstd = batch_of(Codec::Zstd, &[keyed(NOW_MS)]);
    let old = Rules { allow_zstd: false, ..Rules::default() };
    assert_eq!(verdict(&zstd, &old).err(), Some(Rejection::UnsupportedCodec));
    for id in 5..8 {
        let unknown = with_header(&zstd, |header| header.attributes = id);
        let result = verdict(&unknown, &Rules::default());
        assert_eq!(result.err(), Some(Rejection::UnsupportedCodec));
    }
}

#[test]
fn sizes_are_bounded() {
    let bytes = batch_of(Codec::None, &[keyed(NOW_MS)]);
    let exact = Rules { max_message_bytes: bytes.len(), ..Rules::default() };
    assert!(verdict(&bytes, &exact).is_ok());
    let small = Rules { max_message_bytes: bytes.len() - 1, ..Rules::default() };
    assert_eq!(verdict(&bytes, &small).err(), Some(Rejection::TooLarge));
    let segment = Rules { segment_bytes: bytes.len() - 1, ..Rules::default() };
    assert_eq!(verdict(&bytes, &segment).err(), Some(Rejection::LargerThanSegment));
}

#[test]
fn compacted_topics_name_each_record_without_a_key() {
    let bare = NewRecord { key: None, ..keyed(NOW_MS) };
    let rules = Rules { compacted: true, ..Rules::default() };
    for codec in Codec::ALL {
        let bytes = batch_of(codec, &[bare, keyed(NOW_MS), bare]);
        let Err(Rejection::InvalidRecord { record_errors, .. }) = verdict(&bytes, &rules) else {
            panic!("refused as INVALID_RECORD");
        };
        let places: Vec<i32> = record_errors.into_iter().map(|(index, _)| index).collect();
        assert_eq!(places, [0, 2]);
        assert!(verdict(&bytes, &Rules::default()).is_ok());
    }
}

#[test]
fn named_records_are_bounded() {
    let bare = NewRecord { key: None, ..keyed(NOW_MS) };
    let bytes = batch_of(Codec::Zstd, &vec![bare; RECORD_ERRORS_MAX + 7]);
    let rules = Rules { compacted: true, ..Rules::default() };
    let Err(Rejection::InvalidRecord { message, record_errors }) = verdict(&bytes, &rules) else {
        panic!("refused as INVALID_RECORD");
    };
    assert_eq!(record_errors.len(), RECORD_ERRORS_MAX);
    assert!(message.contains(&(RECORD_ERRORS_MAX + 7).to_string()));
}

#[test]
fn create_times_keep_their_bounds() {
    let hour_ms = 3_600_000;
    let rules = Rules { timestamp_before_max_ms: 1000, ..Rules::default() };
    for (timestamp_ms, good) in [
        (NOW_MS - 1000, true),
        (NOW_MS - 1001, false),
        (NOW_MS + hour_ms, true),
        (NOW_MS + hour_ms + 1, false),
        (i64::MAX, false),
        (i64::MIN, false),
        (-1, true),
    ] {
        let bytes = batch_of(Codec::None, &[keyed(NOW_MS), keyed(timestamp_ms)]);
        match verdict(&bytes, &rules) {
            Ok(_) => assert!(good, "{timestamp_ms}"),
            Err(Rejection::InvalidTimestamp { record_errors, .. }) => {
                assert!(!good, "{timestamp_ms}");
                assert_eq!(record_errors.first().map(|(index, _)| *index), Some(1));
            }
            Err(other) => panic!("{other:?}"),
        }
        let append = Rules { timestamp_type: TimestampType::LogAppendTime, ..rules.clone() };
        assert!(verdict(&bytes, &append).is_ok());
    }
}

#[test]
fn a_header_that_lies_about_time_is_corrected_by_a_walk() {
    let bytes = batch_of(Codec::Gzip, &[keyed(NOW_MS - 9), keyed(NOW_MS - 10)]);
    let late = with_header(&bytes, |header| header.max_timestamp_ms = i64::MAX);
    let accepted = verdict(&late, &Rules::default()).expect("the records are in bounds");
    assert_eq!(accepted.header, Header::from_prefix(&bytes).expect("a header"));
}

#[test]
fn strict_counts_the_records() {
    let bytes = batch_of(Codec::Lz4, &[keyed(NOW_MS), keyed(NOW_MS)]);
    for count in [1, 3] {
        let lie = with_header(&bytes, |header| {
            header.record_count = count;
            header.last_offset_delta = count - 1;
        });
        assert!(verdict(&lie, &Rules::default()).is_ok());
        assert!(is_invalid(&verdict(&lie, &Rules { strict: true, ..Rules::default() })));
    }
}

/// A batch of one record that claims more: its offsets would be gone for good.
#[test]
fn a_count_that_the_payload_cannot_hold_is_refused() {
    let claim = |bytes: &[u8], count: usize| {
        with_header(bytes, |header| {
            header.record_count = i32::try_from(count).expect("a count");
            header.last_offset_delta = header.record_count - 1;
        })
    };
    let smallest = NewRecord { timestamp_ms: NOW_MS, key: None, value: None, headers: &[] };
    let full = batch_of(Codec::None, &[smallest; 60]);
    assert_eq!(full.len(), HEADER_BYTES + 60 * SMALLEST_RECORD_BYTES);
    assert!(verdict(&full, &Rules::default()).is_ok());
    for count in [61, 1 << 20, i32::MAX as usize] {
        assert!(is_invalid(&verdict(&claim(&full, count), &Rules::default())), "{count} records");
    }
    let rules = Rules { decompressed_cap_bytes: 700, ..Rules::default() };
    for codec in Codec::ALL.into_iter().filter(|codec| *codec != Codec::None) {
        let bytes = batch_of(codec, &[smallest; 100]);
        assert!(verdict(&bytes, &rules).is_ok(), "{codec:?}");
        for count in [101, i32::MAX as usize] {
            let result = verdict(&claim(&bytes, count), &rules);
            assert_eq!(result.err(), Some(Rejection::TooLarge), "{codec:?} {count}");
        }
        let result = verdict(&claim(&bytes, i32::MAX as usize), &Rules::default());
        assert_eq!(result.err(), Some(Rejection::TooLarge), "{codec:?}");
    }
}

#[test]
fn time_of_append_changes_the_crc_without_the_payload() {
    let rules = Rules { timestamp_type: TimestampType::LogAppendTime, ..Rules::default() };
    for codec in Codec::ALL {
        for count in [1, 2, 100] {
            let bytes = batch_of(codec, &vec![keyed(5); count]);
            let accepted = check(&in_slices(&bytes, 100), &rules, NOW_MS).expect("good");
            let header = accepted.header;
            assert_eq!(header.timestamp_type(), TimestampType::LogAppendTime);
            assert_eq!(header.max_timestamp_ms, NOW_MS);
            assert_eq!(header.base_timestamp_ms, 5);
            assert_eq!(header.codec(), Some(codec));
            assert_eq!(header.crc, checksum(&header.encode(), [&bytes[HEADER_BYTES..]]));
        }
    }
}

#[test]
fn a_bomb_is_too_large_where_it_is_looked_at() {
    let zeros = vec![0; 1 << 20];
    let bomb = NewRecord { value: Some(&zeros), ..keyed(NOW_MS) };
    let bytes = batch_of(Codec::Zstd, &[bomb]);
    let rules = Rules { strict: true, decompressed_cap_bytes: 1 << 20, ..Rules::default() };
    assert_eq!(verdict(&bytes, &rules).err(), Some(Rejection::TooLarge));
    assert!(verdict(&bytes, &Rules { strict: true, ..Rules::default() }).is_ok());
}

/// As [`verdict`], the way a shard takes: what is quick there, the rest elsewhere.
fn verdict_in_steps(
    bytes: &[u8],
    rules: &Rules,
    quick: usize,
) -> (bool, Result<Accepted, Rejection>) {
    match begin(&in_slices(bytes, 1000), rules, NOW_MS, quick) {
        Ok(begun) => (matches!(begun, Begun::Long(_)), begun.finish()),
        Err(rejection) => (false, Err(rejection)),
    }
}

fn stored(result: Result<Accepted, Rejection>) -> Result<(Header, Vec<u8>), Rejection> {
    result.map(|accepted| (accepted.header, accepted.payload.to_vec()))
}

#[test]
fn only_records_over_the_bound_are_left_for_later_and_the_verdict_is_the_same() {
    let value = [b'v'; 1000];
    let large = NewRecord { value: Some(&value), ..keyed(NOW_MS) };
    let keyless = NewRecord { key: None, ..large };
    for codec in Codec::ALL {
        for (records, last) in [(1, large), (10, large), (300, large), (300, keyless)] {
            let mut all = vec![large; records];
            all.push(last);
            let bytes = batch_of(codec, &all);
            for compacted in [false, true] {
                for decompressed_cap_bytes in [1 << 20, 100 << 10] {
                    let rules = Rules { compacted, decompressed_cap_bytes, ..Rules::default() };
                    let (long, result) = verdict_in_steps(&bytes, &rules, 64 << 10);
                    assert_eq!(long, compacted && records == 300, "{codec:?} of {records}");
                    assert_eq!(stored(result), stored(verdict(&bytes, &rules)));
                }
            }
        }
    }
}

/// A few KiB of LZ4 that begin with one block of 4 MiB: it is made whole before a cap is noticed.
#[test]
fn large_lz4_blocks_are_left_for_later() {
    use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};
    use std::io::Write;

    for (size, expected) in [(BlockSize::Max64KB, false), (BlockSize::Max256KB, true)] {
        let plain = batch_of(Codec::None, &[keyed(NOW_MS)]);
        let mut encoder =
            FrameEncoder::with_frame_info(FrameInfo::new().block_size(size), Vec::new());
        encoder.write_all(&plain[HEADER_BYTES..]).expect("into memory");
        let packed = [&plain[..HEADER_BYTES], &encoder.finish().expect("into memory")].concat();
        let bytes = with_header(&packed, |header| {
            header.set_codec(Codec::Lz4);
            header.batch_length =
                i32::try_from(packed.len() - LENGTH_PREFIX_BYTES).expect("a small batch");
        });
        let rules = Rules { compacted: true, ..Rules::default() };
        let (long, result) = verdict_in_steps(&bytes, &rules, 64 << 10);
        assert_eq!((long, result.is_ok()), (expected, true), "{size:?}");
    }
}
