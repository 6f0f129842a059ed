use millrace_engine::io::buf::{Chain, Slice};

use super::*;

fn frame(key: i16, version: i16, rest: &[u8]) -> Chain {
    let mut bytes = key.to_be_bytes().to_vec();
    bytes.extend(version.to_be_bytes());
    bytes.extend(7_i32.to_be_bytes());
    bytes.extend(rest);
    Slice::copy_of(&bytes).into()
}

fn read(chain: &Chain) -> Result<(RequestHeader<'_>, Cursor<'_>), DecodeError> {
    let mut cursor = Cursor::new(chain);
    RequestHeader::read(&mut cursor).map(|header| (header, cursor))
}

#[test]
fn the_client_id_is_classic_even_before_tagged_fields() {
    let chain = frame(3, 9, &[0, 2, b'i', b'd', 1, 5, 2, 0xaa, 0xbb, 0x42]);
    let (header, mut body) = read(&chain).expect("well formed");
    assert_eq!(header.client_id.as_deref(), Some("id"));
    assert_eq!((header.version, header.correlation_id), (9, 7));
    assert!(body.is_flexible(), "the body comes next, in the encoding of its version");
    assert_eq!(body.i8(), Ok(0x42));
}

#[test]
fn a_classic_header_ends_with_the_client_id() {
    let chain = frame(3, 8, &[0xff, 0xff, 0x42]);
    let (header, mut body) = read(&chain).expect("well formed");
    assert_eq!(header.client_id, None);
    assert!(!body.is_flexible());
    assert_eq!(body.i8(), Ok(0x42));
}

#[test]
fn what_is_not_served_is_refused_before_its_body() {
    let refused = |key, version| read(&frame(key, version, &[0xff, 0xff])).map(|_| ());
    let unsupported = |key, version| Err(DecodeError::UnsupportedVersion(key, version));
    assert_eq!(refused(4, 0), Err(DecodeError::UnknownApi(4)));
    assert_eq!(refused(-1, 0), Err(DecodeError::UnknownApi(-1)));
    assert_eq!(refused(0, 2), unsupported(ApiKey::Produce, 2));
    assert_eq!(refused(0, 14), unsupported(ApiKey::Produce, 14));
    assert_eq!(refused(1, 3), unsupported(ApiKey::Fetch, 3));
    assert_eq!(refused(3, -1), unsupported(ApiKey::Metadata, -1));
}

#[test]
fn api_versions_passes_with_any_version() {
    for version in [-1, 0, 2] {
        assert!(read(&frame(18, version, &[0xff, 0xff])).is_ok(), "{version}");
    }
    for version in [3, 5, i16::MAX] {
        assert!(read(&frame(18, version, &[0xff, 0xff, 0])).is_ok(), "{version}");
    }
}

#[test]
fn only_api_versions_keeps_the_old_response_header() {
    let chain = Chain::from(Slice::copy_of(&[0, 0, 0, 7, 0, 0x42]));
    let body = |key, version| {
        let mut cursor = Cursor::new(&chain);
        response_correlation_id(&mut cursor, key, version).expect("well formed");
        cursor.remaining()
    };
    assert_eq!(body(ApiKey::ApiVersions, 3), 2);
    assert_eq!(body(ApiKey::Metadata, 8), 2);
    assert_eq!(body(ApiKey::Metadata, 9), 1);
}
