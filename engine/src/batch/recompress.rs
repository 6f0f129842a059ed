//! Changes the codec of a batch, for topics whose `compression.type` is not `producer`.
//!
//! A slow path: it decompresses, walks and compresses the whole batch, so it belongs on a thread
//! that may block. The records' bytes themselves are kept as sent.

use super::{
    builder::{BuildError, seal},
    check::{Accepted, Rejection, Rules},
    header::{Codec, HEADER_BYTES},
    records::{Records, record_bytes},
};
use crate::io::buf::Slice;

/// The batch `accepted` with its records compressed by `codec` at `level` (`None` is Kafka's
/// default); unchanged if they already are by that codec. `Codec::None` is Kafka's
/// `uncompressed`.
///
/// Refuses what [`super::check`] would: records that do not decompress within the cap of `rules`,
/// do not parse or do not match the header's count, and a result that exceeds the topic's sizes.
pub fn recompress(
    accepted: &Accepted,
    codec: Codec,
    level: Option<i32>,
    rules: &Rules,
) -> Result<Accepted, Rejection> {
    if accepted.header.codec() == Some(codec) {
        return Ok(accepted.clone());
    }
    let records = record_bytes(&accepted.header, &accepted.payload, rules.decompressed_cap_bytes)?;
    for record in Records::new(&accepted.header, &records) {
        record?;
    }
    let mut header = accepted.header;
    header.set_codec(codec);
    let mut batch = Vec::new();
    seal(&mut header, &records, level, &mut batch).map_err(|error| match error {
        BuildError::Codec(error) => {
            Rejection::InvalidRecord { message: error.to_string(), record_errors: Vec::new() }
        }
        BuildError::TooLarge | BuildError::Empty => Rejection::TooLarge,
    })?;
    if batch.len() > rules.max_message_bytes {
        return Err(Rejection::TooLarge);
    }
    if batch.len() > rules.segment_bytes {
        return Err(Rejection::LargerThanSegment);
    }
    let payload = Slice::copy_of(batch.get(HEADER_BYTES..).unwrap_or_default());
    Ok(Accepted { header, payload: payload.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        batch::{BatchBuilder, BatchOptions, NewRecord, check},
        io::buf::Chain,
    };

    fn accepted(codec: Codec) -> Accepted {
        let mut builder = BatchBuilder::new();
        for timestamp_ms in [7, 5, 9] {
            let headers = [(&b"h"[..], None), (&b"h"[..], Some(&b"2"[..]))];
            let value = Some(&[b'v'; 5000][..]);
            let record = NewRecord { timestamp_ms, key: Some(b"k"), value, headers: &headers };
            builder.push(&record).expect("fits");
        }
        let mut out = Vec::new();
        builder
            .finish(&BatchOptions { codec, ..BatchOptions::default() }, &mut out)
            .expect("builds");
        check(&Slice::copy_of(&out).into(), &Rules::default(), 10).expect("good")
    }

    fn whole(batch: &Accepted) -> Chain {
        let mut chain = Chain::from(Slice::copy_of(&batch.header.encode()));
        batch.payload.slices().iter().for_each(|slice| chain.push(slice.clone()));
        chain
    }

    #[test]
    fn every_codec_becomes_every_other() {
        let rules = Rules { strict: true, ..Rules::default() };
        for from in Codec::ALL {
            for to in Codec::ALL {
                let made = recompress(&accepted(from), to, None, &rules).expect("recompresses");
                let checked = check(&whole(&made), &rules, 10).expect("good");
                assert_eq!(checked.header, made.header);
                assert_eq!(made.header.codec(), Some(to));
                let direct = accepted(to);
                assert_eq!(whole(&made).to_vec(), whole(&direct).to_vec(), "{from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn a_result_over_the_topics_size_is_refused() {
        let rules = Rules { max_message_bytes: 1000, ..Rules::default() };
        let small = accepted(Codec::Zstd);
        assert!(small.size_bytes() < 1000);
        let result = recompress(&small, Codec::None, None, &rules);
        assert_eq!(result.err(), Some(Rejection::TooLarge));
    }
}
