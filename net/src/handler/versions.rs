//! ApiVersions (key 18): what is served, in the words of one Kafka release.

use std::borrow::Cow;

use millrace_engine::io::buf::Chain;

use super::table::Call;
use crate::wire::{
    ErrorCode, List,
    api_versions::{ApiVersionsResponse, Feature, FinalizedFeature, Query},
};

/// The `metadata.version` of Kafka 4.2, whose version table is advertised. User interfaces read it
/// to decide what to offer.
const METADATA_VERSION: i16 = 29;
/// The lowest that Kafka 4.2 can run with (3.3).
const METADATA_VERSION_MIN: i16 = 7;

const SUPPORTED: &[Feature<'static>] = &[Feature {
    name: Cow::Borrowed("metadata.version"),
    min_version: METADATA_VERSION_MIN,
    max_version: METADATA_VERSION,
}];

const FINALIZED: &[FinalizedFeature<'static>] = &[FinalizedFeature {
    name: Cow::Borrowed("metadata.version"),
    max_version_level: METADATA_VERSION,
    min_version_level: METADATA_VERSION,
}];

pub(super) async fn api_versions(call: Call<'_>) -> Option<Chain> {
    let header = &call.header;
    let (version, response) = match Query::read(call.body, header.version).ok()? {
        Query::UnsupportedVersion => (0, ApiVersionsResponse::unsupported()),
        Query::InvalidSoftware => {
            (header.version, ApiVersionsResponse::refused(ErrorCode::InvalidRequest))
        }
        Query::Valid(_) => {
            let mut response = ApiVersionsResponse::served();
            response.supported_features = List::Values(SUPPORTED);
            response.finalized_features = List::Values(FINALIZED);
            let epoch = call.broker.image().version();
            response.finalized_features_epoch = i64::try_from(epoch).unwrap_or(i64::MAX);
            (header.version, response)
        }
    };
    call.broker.encoder.borrow_mut().response(version, header.correlation_id, &response).ok()
}
