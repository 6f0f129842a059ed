use millrace_engine::{
    batch::{BatchBuilder, BatchOptions, Codec, NewRecord},
    io::buf::Slice,
    types::{Offset, ProducerId},
};

use super::*;

fn batch(base_offset: i64, values: &[&str], options: BatchOptions) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for value in values {
        let record =
            NewRecord { timestamp_ms: 7, value: Some(value.as_bytes()), ..NewRecord::default() };
        builder.push(&record).expect("small");
    }
    let options = BatchOptions { base_offset: Offset(base_offset), ..options };
    let mut bytes = Vec::new();
    builder.finish(&options, &mut bytes).expect("has records");
    bytes
}

fn plain(base_offset: i64, values: &[&str]) -> Vec<u8> {
    batch(base_offset, values, BatchOptions::default())
}

fn fetched(bytes: &[u8], aborted: Vec<(i64, i64)>) -> Fetched {
    Fetched::new("t".into(), 0, Slice::copy_of(bytes).into(), true, aborted)
}

fn read(fetched: &mut Fetched, mut from: i64) -> (Vec<(i64, String)>, i64) {
    let mut seen = Vec::new();
    while let Some(next) = fetched
        .next_batch(from, &mut |view| {
            let value = String::from_utf8_lossy(view.value.unwrap_or_default()).into_owned();
            seen.push((view.offset, value));
        })
        .expect("sound batches")
    {
        from = next;
    }
    (seen, from)
}

#[test]
fn skips_what_lies_before_the_position_and_a_cut_end() {
    let mut bytes = plain(10, &["a", "b", "c"]);
    bytes.extend(plain(13, &["d"]));
    let cut = plain(14, &["e"]);
    bytes.extend(&cut[..cut.len() - 1]);
    let mut fetched = fetched(&bytes, Vec::new());
    assert_eq!(fetched.end(), Some(14));
    let (seen, next) = read(&mut fetched, 11);
    let expected = [(11, "b".to_owned()), (12, "c".to_owned()), (13, "d".to_owned())];
    assert_eq!((seen.as_slice(), next), (expected.as_slice(), 14));
}

#[test]
fn every_codec_unfolds() {
    for codec in Codec::ALL {
        let options = BatchOptions { codec, ..BatchOptions::default() };
        let (seen, next) = read(&mut fetched(&batch(0, &["x", "y"], options), Vec::new()), 0);
        assert_eq!((seen.len(), next), (2, 2), "{codec:?}");
    }
}

#[test]
fn a_flipped_bit_fails_and_names_the_way_on() {
    let mut bytes = plain(5, &["a"]);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let error = fetched(&bytes, Vec::new()).next_batch(5, &mut |_| ()).expect_err("corrupt");
    assert!(error.to_string().contains("seek behind offset 5"), "{error}");
}

#[test]
fn records_of_aborted_transactions_and_markers_are_left_out() {
    let of = |producer_id, control| BatchOptions {
        producer_id: ProducerId(producer_id),
        producer_epoch: 0,
        base_sequence: 0,
        transactional: true,
        control,
        ..BatchOptions::default()
    };
    let marker = |base_offset, producer_id, kind: u8| {
        let mut builder = BatchBuilder::new();
        let record =
            NewRecord { key: Some(&[0, 0, 0, kind]), value: Some(&[0; 6]), ..NewRecord::default() };
        builder.push(&record).expect("small");
        let options = BatchOptions { base_offset: Offset(base_offset), ..of(producer_id, true) };
        let mut bytes = Vec::new();
        builder.finish(&options, &mut bytes).expect("has a record");
        bytes
    };
    let mut bytes = batch(0, &["aborted"], of(1, false));
    bytes.extend(batch(1, &["committed"], of(2, false)));
    bytes.extend(marker(2, 1, 0));
    bytes.extend(batch(3, &["later"], of(1, false)));
    bytes.extend(marker(4, 1, 1));
    let (seen, next) = read(&mut fetched(&bytes, vec![(1, 0)]), 0);
    let expected = [(1, "committed".to_owned()), (3, "later".to_owned())];
    assert_eq!((seen.as_slice(), next), (expected.as_slice(), 5));
    // Without the list, as for a reader of everything, only markers are left out.
    assert_eq!(read(&mut fetched(&bytes, Vec::new()), 0).0.len(), 3);
}
