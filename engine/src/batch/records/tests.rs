use super::*;
use crate::{
    batch::{BatchBuilder, BatchOptions, HEADER_BYTES, NewRecord},
    io::buf::Slice,
};

fn batch(timestamps_ms: &[i64]) -> (Header, Vec<u8>) {
    let mut builder = BatchBuilder::new();
    let headers = [(&b"a"[..], Some(&b"1"[..])), (&b"a"[..], None), (&b""[..], Some(&b""[..]))];
    for timestamp_ms in timestamps_ms {
        let value = Some(&b"value"[..]);
        let record =
            NewRecord { timestamp_ms: *timestamp_ms, key: Some(b"key"), value, headers: &headers };
        builder.push(&record).expect("fits");
    }
    let mut out = Vec::new();
    let options = BatchOptions { base_offset: Offset(100), ..BatchOptions::default() };
    let header = builder.finish(&options, &mut out).expect("builds");
    (header, out.split_off(HEADER_BYTES))
}

fn at(offset: i64, timestamp_ms: i64) -> Option<TimestampedOffset> {
    Some(TimestampedOffset { offset: Offset(offset), timestamp_ms })
}

#[test]
fn headers_keep_order_and_duplicates() {
    let (header, bytes) = batch(&[5]);
    let record = Records::new(&header, &bytes).next().expect("one").expect("well formed");
    assert_eq!(record.headers.len(), 3);
    let pairs: Vec<_> = record.headers.collect();
    assert_eq!(pairs, [(&b"a"[..], Some(&b"1"[..])), (b"a", None), (b"", Some(b""))]);
}

#[test]
fn a_cut_at_any_byte_is_an_error() {
    let (header, bytes) = batch(&[5, 7]);
    for length in 0..bytes.len() {
        let last = Records::new(&header, &bytes[..length]).last().expect("an error at least");
        assert!(matches!(last, Err(RecordError::Malformed { .. })), "{length} bytes: {last:?}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(Records::new(&header, &longer).last(), Some(Err(RecordError::BytesRemain)));
}

#[test]
fn a_false_number_of_headers_ends_with_the_bytes() {
    let (header, _) = batch(&[5]);
    // Size 10, attributes, two deltas, null key and value, then i32::MAX headers.
    let bytes = [20, 0, 0, 0, 1, 1, 0xFE, 0xFF, 0xFF, 0xFF, 0x0F];
    let result = Records::new(&header, &bytes).next();
    assert!(matches!(result, Some(Err(RecordError::Malformed { index: 0, .. }))), "{result:?}");
}

#[test]
fn a_time_is_found_inside_the_batch() {
    let (header, bytes) = batch(&[50, 10, 70, 60, 70]);
    let find = |timestamp_ms, from| {
        first_at_or_after(&header, &bytes, timestamp_ms, Offset(from)).expect("well formed")
    };
    assert_eq!(find(0, 0), at(100, 50));
    assert_eq!(find(51, 0), at(102, 70));
    assert_eq!(find(60, 103), at(103, 60));
    assert_eq!(find(70, 104), at(104, 70));
    assert_eq!(find(71, 0), None);
    assert_eq!(first_with_max_timestamp(&header, &bytes).expect("well formed"), at(102, 70));
}

#[test]
fn under_time_of_append_all_records_have_the_batchs_time() {
    let (mut header, bytes) = batch(&[50, 10, 70]);
    header.set_timestamp_type(TimestampType::LogAppendTime);
    header.max_timestamp_ms = 99;
    let found = first_at_or_after(&header, &bytes, 99, Offset(0)).expect("well formed");
    assert_eq!(found, at(100, 99));
    assert_eq!(first_with_max_timestamp(&header, &bytes).expect("well formed"), at(100, 99));
}

#[test]
fn records_in_one_slice_are_not_copied() {
    let (header, bytes) = batch(&[1, 2]);
    let whole = Chain::from(Slice::copy_of(&bytes));
    assert!(matches!(record_bytes(&header, &whole, 0), Ok(Cow::Borrowed(_))));
    let mut cut = Chain::new();
    bytes.chunks(10).for_each(|part| cut.push(Slice::copy_of(part)));
    assert_eq!(record_bytes(&header, &cut, 0).expect("not compressed"), &bytes[..]);
}

#[test]
fn the_builder_predicts_its_size_and_reuses_its_memory() {
    let mut builder = BatchBuilder::new();
    let mut out = Vec::new();
    for round in 0..3_i64 {
        for at in 0..200_i64 {
            let value = vec![b'v'; usize::try_from(at * 7).expect("small")];
            let timestamp_ms = at * at * 1000 * round;
            let record = NewRecord { timestamp_ms, value: Some(&value), ..NewRecord::default() };
            let predicted = builder.size_with_bytes(&record);
            builder.push(&record).expect("fits");
            assert_eq!(builder.size_bytes(), predicted);
        }
        let predicted = builder.size_bytes();
        out.clear();
        builder.finish(&BatchOptions::default(), &mut out).expect("builds");
        assert_eq!(out.len(), predicted);
        assert!(builder.is_empty());
    }
    assert!(builder.finish(&BatchOptions::default(), &mut out).is_err());
}
