use super::*;

fn chain_of(parts: &[&[u8]]) -> Chain {
    let mut chain = Chain::new();
    parts.iter().for_each(|part| chain.push(Slice::copy_of(part)));
    chain
}

#[test]
fn integers_cross_slices() {
    let chain = chain_of(&[&[0, 0], &[1], &[2, 3]]);
    let mut cursor = Cursor::new(&chain);
    assert_eq!(cursor.i32(), Ok(0x0102));
    assert_eq!(cursor.i8(), Ok(3));
    assert_eq!(cursor.i8(), Err(DecodeError::Truncated));
}

#[test]
fn a_string_is_borrowed_unless_it_is_cut() {
    let (whole, cut) = (chain_of(&[b"\0\x03abc"]), chain_of(&[b"\0\x03a", b"bc"]));
    let borrowed = Cursor::new(&whole).string().expect("well formed");
    assert!(matches!(borrowed, Cow::Borrowed("abc")));
    let owned = Cursor::new(&cut).string().expect("well formed");
    assert!(matches!(owned, Cow::Owned(text) if text == "abc"));
}

#[test]
fn varints_end_within_32_bits() {
    let read = |bytes: &[u8]| Cursor::new(&chain_of(&[bytes])).uvarint();
    assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Ok(u32::MAX));
    assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x1f]), Err(DecodeError::Varint));
    assert_eq!(read(&[0x80; 6]), Err(DecodeError::Varint));
    assert_eq!(read(&[0x80]), Err(DecodeError::Truncated));
}

#[test]
fn a_count_is_believed_as_far_as_the_bytes_reach() {
    let mut frame = 3_i32.to_be_bytes().to_vec();
    frame.extend([0; 12]);
    let chain = chain_of(&[&frame]);
    assert_eq!(Cursor::new(&chain).array_length(4), Ok(3));
    assert_eq!(Cursor::new(&chain).array_length(5), Err(DecodeError::Length));
    let hostile = chain_of(&[&i32::MAX.to_be_bytes()]);
    assert_eq!(Cursor::new(&hostile).array_length(1), Err(DecodeError::Length));
    let negative = chain_of(&[&(-2_i32).to_be_bytes()]);
    assert_eq!(Cursor::new(&negative).nullable_array_length(1), Err(DecodeError::Length));
}

#[test]
fn strings_are_bounded_and_utf8() {
    let mut huge = Cursor::new(&chain_of(&[&[0xff, 0xff, 0x7f]])).uvarint().map(|_| ());
    assert_eq!(huge, Ok(()));
    let chain = chain_of(&[&[0xff, 0xff, 0x7f]]);
    let mut cursor = Cursor::new(&chain);
    cursor.set_flexible(true);
    huge = cursor.string().map(|_| ());
    assert_eq!(huge, Err(DecodeError::Length));
    let chain = chain_of(&[b"\0\x01\xff"]);
    assert_eq!(Cursor::new(&chain).string(), Err(DecodeError::Utf8));
}

#[test]
fn a_part_ends_where_it_says() {
    let chain = chain_of(&[&[1, 2], &[3, 4, 5]]);
    let mut cursor = Cursor::new(&chain);
    let mut part = cursor.take_part(3).expect("five bytes are there");
    assert_eq!(part.take_chain(3).map(|chain| chain.to_vec()), Ok(vec![1, 2, 3]));
    assert_eq!(part.i8(), Err(DecodeError::Truncated));
    assert_eq!(cursor.i16(), Ok(0x0405));
    assert!(cursor.finish().is_ok());
}

#[test]
fn payload_is_taken_without_a_copy() {
    let chain = chain_of(&[&[9; 100], &[8; 100]]);
    let before = millrace_engine::io::buf::copied_bytes();
    let mut cursor = Cursor::new(&chain);
    cursor.skip(50).expect("200 bytes are there");
    let taken = cursor.take_chain(100).expect("150 bytes are there");
    assert_eq!(millrace_engine::io::buf::copied_bytes(), before);
    assert_eq!(taken.slices().len(), 2);
    assert!(std::ptr::eq(&taken.slices()[1][0], &chain.slices()[1][0]));
}
