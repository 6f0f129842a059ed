//! Record batch v2: the only place that knows its bytes.
//!
//! Owns the header, the CRC, the checks that a batch from a client must pass, the walk over
//! records, the codecs and the builder. Knows neither logs nor API versions nor error codes, and
//! does no I/O.
//!
//! Invariant: bytes from outside never panic, never loop beyond their length and never allocate by
//! a size they declare; whatever is wrong with them is an answer.

mod builder;
mod check;
mod checksum;
mod compress;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod golden;
mod header;
mod recompress;
mod records;
mod snappy;
mod varint;

pub use builder::{BatchBuilder, BatchOptions, BuildError, NewRecord, NewRecordHeader};
pub use check::{Accepted, Begun, RecordErrors, Rejection, Rules, Unwalked, begin, check};
pub use checksum::{checksum, shift_checksum};
pub use compress::{CodecError, compress, decompress};
pub use header::{Codec, HEADER_BYTES, Header, LENGTH_PREFIX_BYTES, MAGIC, TimestampType};
pub use recompress::recompress;
pub(crate) use records::comes_to_more;
pub use records::{
    Record, RecordError, RecordHeaders, Records, TimestampedOffset, first_at_or_after,
    first_with_max_timestamp, record_bytes,
};
