//! From the bytes of a fetch to records: sans-I/O.
//!
//! A broker answers with whole batches from the one that holds the position on, so the first may
//! start before it, and an old broker may cut the last one short. Neither is an error. Nothing
//! else is passed over in silence: a batch that does not check out fails the poll.

use std::collections::HashSet;

use millrace_engine::{
    batch::{HEADER_BYTES, Header, Record, RecordHeaders, Records, checksum, record_bytes},
    io::buf::Chain,
    limits::FRAME_CAP_BYTES,
};

use crate::client::error::{ClientError, Kind, Result};

/// Most bytes that a batch may unfold to: what the largest frame could have carried plain.
const DECOMPRESSED_CAP_BYTES: usize = FRAME_CAP_BYTES;

/// Type of the control record that aborts a transaction; its key is version and type, 16 bits each.
const ABORT_MARKER: [u8; 2] = [0, 0];

/// A record where it lies.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    /// Topic it is from.
    pub topic: &'a str,
    /// Partition it is from.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Its timestamp in ms since the epoch: the producer's, or the broker's time of append where
    /// the topic says so.
    pub timestamp_ms: i64,
    /// Its key; `None` is null.
    pub key: Option<&'a [u8]>,
    /// Its value; `None` is null.
    pub value: Option<&'a [u8]>,
    /// Its headers.
    pub headers: RecordHeaders<'a>,
}

/// Fetched batches of one partition, of which some may have been read.
#[derive(Debug)]
pub struct Fetched {
    /// Topic they are from.
    pub topic: std::sync::Arc<str>,
    /// Partition they are from.
    pub partition: i32,
    records: Chain,
    check_crcs: bool,
    /// Aborted transactions by first offset, descending, and the producers now inside one.
    aborted: Vec<(i64, i64)>,
    aborting: HashSet<i64>,
}

impl Fetched {
    /// Batches as fetched. `aborted` lists `(producer id, first offset)` for a reader that wants
    /// committed records only.
    #[must_use]
    pub fn new(
        topic: std::sync::Arc<str>,
        partition: i32,
        records: Chain,
        check_crcs: bool,
        mut aborted: Vec<(i64, i64)>,
    ) -> Self {
        aborted.sort_by_key(|(_, first_offset)| std::cmp::Reverse(*first_offset));
        Self { topic, partition, records, check_crcs, aborted, aborting: HashSet::new() }
    }

    /// The offset behind the last whole batch, or `None` when there is none.
    #[must_use]
    pub fn end(&self) -> Option<i64> {
        let (mut at, mut end) = (0, None);
        while let Some(header) = whole_batch(&self.records, at) {
            end = Some(header.next_offset().0);
            at += header.size_bytes();
        }
        end
    }

    /// Takes the next batch and shows its records with offsets from `from` on; returns the offset
    /// to go on with, or `None` when no whole batch is left.
    ///
    /// # Errors
    /// `Protocol` when the batch does not check out; it is not taken then.
    pub fn next_batch(
        &mut self,
        from: i64,
        visit: &mut dyn FnMut(&RecordView<'_>),
    ) -> Result<Option<i64>> {
        let Some(header) = whole_batch(&self.records, 0) else { return Ok(None) };
        let size = header.size_bytes();
        let payload = self.records.sub(HEADER_BYTES..size);
        if self.check_crcs {
            self.check(&header, &payload)?;
        }
        if self.wanted(&header, &payload)? && header.last_offset().0 >= from {
            self.show(&header, &payload, from, visit)?;
        }
        self.records = self.records.sub(size..self.records.len());
        Ok(Some(header.next_offset().0.max(from)))
    }

    fn check(&self, header: &Header, payload: &Chain) -> Result<()> {
        let pieces = payload.slices().iter().map(|slice| &slice[..]);
        if checksum(&header.encode(), pieces) == header.crc {
            return Ok(());
        }
        Err(self.corrupt(header, "its checksum does not match its bytes"))
    }

    /// Whether a batch is data for this reader: not a marker, not of an aborted transaction.
    fn wanted(&mut self, header: &Header, payload: &Chain) -> Result<bool> {
        while let Some((producer_id, first)) = self.aborted.last().copied()
            && first <= header.last_offset().0
        {
            self.aborting.insert(producer_id);
            self.aborted.pop();
        }
        let producer_id = header.producer_id.0;
        if header.is_control() {
            let bytes = self.plain(header, payload)?;
            let key = Records::new(header, &bytes).next().and_then(|it| it.ok()?.key);
            if key.is_some_and(|key| key.get(2..4) == Some(&ABORT_MARKER)) {
                self.aborting.remove(&producer_id);
            }
            return Ok(false);
        }
        Ok(!(header.is_transactional() && self.aborting.contains(&producer_id)))
    }

    fn show(
        &self,
        header: &Header,
        payload: &Chain,
        from: i64,
        visit: &mut dyn FnMut(&RecordView<'_>),
    ) -> Result<()> {
        let bytes = self.plain(header, payload)?;
        for record in Records::new(header, &bytes) {
            let record = record.map_err(|error| self.corrupt(header, &error.to_string()))?;
            let view = self.view(header, &record);
            if view.offset >= from {
                visit(&view);
            }
        }
        Ok(())
    }

    fn plain<'p>(&self, header: &Header, payload: &'p Chain) -> Result<std::borrow::Cow<'p, [u8]>> {
        record_bytes(header, payload, DECOMPRESSED_CAP_BYTES)
            .map_err(|error| self.corrupt(header, &error.to_string()))
    }

    fn view<'r>(&'r self, header: &Header, record: &Record<'r>) -> RecordView<'r> {
        RecordView {
            topic: &self.topic,
            partition: self.partition,
            offset: record.offset(header).0,
            timestamp_ms: record.timestamp_ms(header),
            key: record.key,
            value: record.value,
            headers: record.headers,
        }
    }

    fn corrupt(&self, header: &Header, what: &str) -> ClientError {
        let message = format!(
            "the batch at {}-{} offset {} is corrupt: {what}; seek behind offset {} to go on",
            self.topic,
            self.partition,
            header.base_offset.0,
            header.last_offset().0,
        );
        ClientError::new(Kind::Protocol, message)
    }
}

/// The header of the batch at byte `at`, if the whole batch is there.
fn whole_batch(records: &Chain, at: usize) -> Option<Header> {
    let header = Header::from_chain(records, at)?;
    let size = header.size_bytes();
    (size >= HEADER_BYTES && at.checked_add(size)? <= records.len()).then_some(header)
}

#[cfg(test)]
mod tests;
