//! What a client reports, as a file of tagged entries: each record it read, each acknowledgement
//! it got, the ends of the log it was told.
//!
//! Owns the format of the dump. Judges nothing.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;

use crate::corpus::Record;
use crate::frames;

/// How the reading position came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Seek to offset 0, read all.
    Beginning,
    /// Seek to [`crate::job::TAIL_RECORDS`] before the end, read to the end.
    Tail,
    /// Seek to half of the records, read [`crate::job::MIDDLE_RECORDS`].
    Middle,
}

/// One entry of a dump.
#[derive(Debug)]
pub enum Entry {
    /// A record as read.
    Read {
        /// How the reader came there.
        phase: Phase,
        /// Topic index.
        topic: u8,
        /// Offset as the client says it.
        offset: i64,
        /// The record, with the partition it was read from.
        record: Record,
    },
    /// An acknowledgement.
    Acked {
        /// Index of the record in the corpus.
        index: usize,
        /// Partition that the client was told.
        partition: i32,
        /// Offset that the client was told.
        offset: i64,
    },
    /// First and next offset of a partition, as the client's look-up says.
    Ends {
        /// Topic index.
        topic: u8,
        /// Partition.
        partition: i32,
        /// Earliest offset.
        low: i64,
        /// Offset that the next record will get.
        high: i64,
    },
}

/// Writes a dump, for the clients that are part of this program.
pub struct DumpWriter(BufWriter<File>);

impl DumpWriter {
    /// Creates the file at `path`.
    ///
    /// # Errors
    /// The error of the file.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self(BufWriter::with_capacity(1 << 20, File::create(path)?)))
    }

    /// Appends one entry.
    ///
    /// # Errors
    /// The error of the file.
    pub fn put(&mut self, entry: &Entry) -> io::Result<()> {
        let out = &mut self.0;
        match entry {
            Entry::Read { phase, topic, offset, record } => {
                let phase = match phase {
                    Phase::Beginning => b'b',
                    Phase::Tail => b't',
                    Phase::Middle => b'm',
                };
                out.write_all(&[b'R', phase, *topic])?;
                out.write_all(&record.partition.to_be_bytes())?;
                out.write_all(&offset.to_be_bytes())?;
                record.write_content(out)
            }
            Entry::Acked { index, partition, offset } => {
                out.write_all(b"A")?;
                let index = i32::try_from(*index).map_err(io::Error::other)?;
                out.write_all(&index.to_be_bytes())?;
                out.write_all(&partition.to_be_bytes())?;
                out.write_all(&offset.to_be_bytes())
            }
            Entry::Ends { topic, partition, low, high } => {
                out.write_all(&[b'E', *topic])?;
                out.write_all(&partition.to_be_bytes())?;
                out.write_all(&low.to_be_bytes())?;
                out.write_all(&high.to_be_bytes())
            }
        }
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// The error of the file.
    pub fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Reads a dump.
pub struct DumpReader(BufReader<File>);

impl DumpReader {
    /// Opens the dump at `path`.
    ///
    /// # Errors
    /// The error of the file.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(BufReader::with_capacity(1 << 20, File::open(path)?)))
    }

    /// The next entry, `None` at the end.
    ///
    /// # Errors
    /// The error of the file, a cut entry or an unknown tag.
    pub fn next_entry(&mut self) -> io::Result<Option<Entry>> {
        let input = &mut self.0;
        let Some(tag) = frames::get_tag(input)? else {
            return Ok(None);
        };
        Ok(Some(match tag {
            b'R' => {
                let phase = match frames::get_u8(input)? {
                    b'b' => Phase::Beginning,
                    b't' => Phase::Tail,
                    b'm' => Phase::Middle,
                    other => return Err(io::Error::other(format!("phase {other} in a dump"))),
                };
                let topic = frames::get_u8(input)?;
                let partition = frames::get_i32(input)?;
                let offset = frames::get_i64(input)?;
                let record = Record::read_content(partition, input)?;
                Entry::Read { phase, topic, offset, record }
            }
            b'A' => Entry::Acked {
                index: frames::get_count(input)?,
                partition: frames::get_i32(input)?,
                offset: frames::get_i64(input)?,
            },
            b'E' => Entry::Ends {
                topic: frames::get_u8(input)?,
                partition: frames::get_i32(input)?,
                low: frames::get_i64(input)?,
                high: frames::get_i64(input)?,
            },
            other => return Err(io::Error::other(format!("tag {other} in a dump"))),
        }))
    }
}
