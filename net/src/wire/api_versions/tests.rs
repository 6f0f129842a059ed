use millrace_engine::io::buf::{Chain, Pool, Slice};

use super::*;
use crate::wire::{Encoder, RequestHeader};

fn request_frame(version: i16, name: &str) -> Chain {
    let header =
        RequestHeader { key: ApiKey::ApiVersions, version, correlation_id: 7, client_id: None };
    let body = ApiVersionsRequest {
        client_software_name: name.into(),
        client_software_version: "1.2.3".into(),
    };
    let frame = Encoder::new(Pool::new(1 << 20)).request(&header, &body).expect("fits");
    frame.sub(4..frame.len())
}

fn query(frame: &Chain) -> Query<'_> {
    let mut cursor = Cursor::new(frame);
    let header = RequestHeader::read(&mut cursor).expect("any version passes");
    Query::read(cursor, header.version).expect("well formed")
}

fn encoded(version: i16, response: &ApiVersionsResponse<'_>) -> Chain {
    let frame = Encoder::new(Pool::new(1 << 20)).response(version, 7, response).expect("fits");
    frame.sub(4..frame.len())
}

#[test]
fn software_names_are_checked_from_version_3_on() {
    for good in ["a", "apache-kafka-java", "librdkafka", "v1.2"] {
        assert!(matches!(query(&request_frame(3, good)), Query::Valid(_)), "{good}");
    }
    for bad in ["", "-a", "a.", "a b", "a_b", "ü"] {
        assert!(matches!(query(&request_frame(3, bad)), Query::InvalidSoftware), "{bad}");
        assert!(matches!(query(&request_frame(2, bad)), Query::Valid(_)), "{bad}");
    }
}

#[test]
fn a_version_above_ours_gets_the_one_entry_answer() {
    let mut frame = request_frame(4, "client").to_vec();
    frame.splice(2..4, 99_i16.to_be_bytes());
    frame.extend(b"a body that nobody knows yet");
    let frame = Chain::from(Slice::copy_of(&frame));
    assert_eq!(query(&frame), Query::UnsupportedVersion);
    let answer = encoded(0, &ApiVersionsResponse::unsupported()).to_vec();
    assert_eq!(answer, [0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4]);
}

#[test]
fn a_client_reads_the_one_entry_answer_in_place_of_any_version() {
    let frame = encoded(0, &ApiVersionsResponse::unsupported());
    let (id, response) = ApiVersionsRequest::read_response(&frame, 4).expect("well formed");
    assert_eq!(id, 7);
    assert_eq!(response.error_code, ErrorCode::UnsupportedVersion);
    let keys: Vec<_> = response.api_keys.iter().collect();
    assert_eq!(keys, [ApiVersion { api_key: 18, min_version: 0, max_version: 4 }]);
}

#[test]
fn features_from_level_0_are_hidden_before_version_4() {
    let feature = |name: &'static str, min_version| Feature {
        name: name.into(),
        min_version,
        max_version: 3,
    };
    let supported = [feature("kraft.version", 0), feature("metadata.version", 1)];
    let response = ApiVersionsResponse {
        supported_features: List::Values(&supported),
        finalized_features_epoch: 0,
        ..ApiVersionsResponse::served()
    };
    for (version, shown) in [(3, 1), (4, 2)] {
        let frame = encoded(version, &response);
        let (_, read) = ApiVersionsRequest::read_response(&frame, version).expect("well formed");
        assert_eq!(read.supported_features.len(), shown, "version {version}");
        assert_eq!(read.finalized_features_epoch, 0);
        assert_eq!(read.api_keys.len(), API_TABLE.len());
    }
}

#[test]
fn produce_is_shown_from_0() {
    let first = ApiVersionsResponse::served().api_keys.iter().next();
    assert_eq!(first, Some(ApiVersion { api_key: 0, min_version: 0, max_version: 13 }));
}
