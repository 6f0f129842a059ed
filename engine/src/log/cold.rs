//! Reading from the file: what the tail no longer has. Bytes go from disk into pooled buffers and
//! out as they lie; only headers are looked at, to cut at batch boundaries.
//!
//! Failure: a header that cannot be is `Corrupt` and never served; nothing is repaired here.

use std::{io, rc::Rc};

use super::{
    cache::Cached,
    index::Indexes,
    read::ColdRead,
    read_ahead::{self, Place, Taken},
    recover::load_indexes,
    scan::{DenseFrom, Scanner},
    segment::{LOG_SUFFIX, Phase, file_name, in_memory},
    state::{FileOf, Naming, Shared},
};
use crate::{
    batch::{HEADER_BYTES, Header},
    error::{Error, Kind, Result},
    io::{
        Disk, DiskFile, Env, OpenMode,
        buf::{Chain, Pool},
    },
    limits::{DIRECT_ALIGNMENT_BYTES, READ_CHUNK_BYTES},
    types::Offset,
};

/// A first read takes at least this much, so that an index interval is skipped in one.
const FIRST_READ_BYTES: usize = 16 << 10;

/// A segment as a reader needs it.
struct Source<F> {
    file: Rc<F>,
    base: Offset,
    size: u64,
    position: u64,
}

/// Whole batches from the one that holds `read.from` on. Empty also when memory is short: nothing
/// now, and the reader asks again.
pub(super) async fn read_cold<E: Env>(shared: &Rc<Shared<E>>, read: ColdRead) -> Result<Chain> {
    match read_or_retry(shared, read).await {
        Err(error) if error.kind() == Kind::Retry => Ok(Chain::new()),
        other => other,
    }
}

/// As [`read_cold`], for who must know that nothing was read: `Retry` when memory is short, and
/// empty only where a gap in the offsets leaves nothing before `read.up_to`.
pub(super) async fn read_or_retry<E: Env>(shared: &Rc<Shared<E>>, read: ColdRead) -> Result<Chain> {
    let mut from = read.from;
    let mut evicted = false;
    let mut ahead = read_ahead::take(shared, from).await;
    let in_order = ahead.is_some();
    loop {
        let Some(source) = source(shared, from).await? else {
            if let Some(error) = shared.failure().filter(|_| shared.state.borrow().deleted) {
                return Err(error);
            }
            let text = format!("{}: offset {from} has been deleted", shared.dir.display());
            return Err(Error::new(Kind::Invalid, text));
        };
        let base = source.base;
        let mut walk = Walk::new(source, from, &shared.pool, ahead.take());
        let chain = match walk.collect(read.max_bytes, read.up_to).await {
            Ok(chain) => chain,
            Err(error) if is_short(&error) && !evicted => {
                evicted = true;
                drop(walk);
                shared.volume.evict(read.max_bytes.max(READ_CHUNK_BYTES));
                continue;
            }
            Err(error) => return Err(read_error(shared, base, &error)),
        };
        if !chain.is_empty() {
            if let Some(place) = walk.place() {
                read_ahead::follow(shared, place, read.max_bytes, in_order);
            }
            return Ok(chain);
        }
        // The offset lies in a gap at the end of the segment.
        match next_base(shared, base) {
            Some(next) if next < read.up_to => from = next,
            _ => return Ok(chain),
        }
    }
}

fn read_error<E: Env>(shared: &Rc<Shared<E>>, base: Offset, error: &io::Error) -> Error {
    let path = shared.dir.join(file_name(base, LOG_SUFFIX));
    if is_short(error) {
        // No fault of the disk.
        return Error::new(Kind::Retry, format!("{}: {error}", path.display()));
    }
    if error.kind() == io::ErrorKind::InvalidData {
        return Error::new(Kind::Corrupt, format!("{}: {error}", path.display()));
    }
    Error::from_io(&path.display().to_string(), error)
}

fn next_base<E: Env>(shared: &Rc<Shared<E>>, base: Offset) -> Option<Offset> {
    let state = shared.state.borrow();
    let next = state.segments.partition_point(|segment| segment.base <= base);
    state.segments.get(next).map(|segment| segment.base)
}

/// The file that holds `offset` and where in it to start; `None` when it was deleted.
async fn source<E: Env>(
    shared: &Rc<Shared<E>>,
    offset: Offset,
) -> Result<Option<Source<FileOf<E>>>> {
    let base = {
        let state = shared.state.borrow();
        let next = state.segments.partition_point(|segment| segment.base <= offset);
        next.checked_sub(1).map(|at| state.segments[at].base)
    };
    let Some(base) = base else { return Ok(None) };
    let Some(file) = open_file(shared, base).await? else { return Ok(None) };
    let Some(indexes) = indexes(shared, base).await? else { return Ok(None) };
    let state = shared.state.borrow();
    let at = state.segments.partition_point(|segment| segment.base < base);
    let found = state.segments.get(at).filter(|segment| segment.base == base);
    Ok(found.map(|segment| {
        let size = state.written_size(segment);
        let position = indexes.position(base, offset, segment.growing.entries());
        Source { file, base, size, position }
    }))
}

/// The segment's file, opened if need be.
pub(super) async fn open_file<E: Env>(
    shared: &Rc<Shared<E>>,
    base: Offset,
) -> Result<Option<Rc<FileOf<E>>>> {
    match shared.state.borrow_mut().segment(base) {
        None => return Ok(None),
        Some(segment) => {
            if let Some(file) = &segment.file {
                return Ok(Some(file.clone()));
            }
        }
    }
    // A deletion does not wait for readers, but for the opening of a file by its name.
    let Some(_naming) = Naming::begin(shared) else { return Ok(None) };
    let path = shared.dir.join(file_name(base, LOG_SUFFIX));
    let opened = shared.disk().open(&path, OpenMode::Read).await;
    let file = Rc::new(opened.map_err(|error| read_error(shared, base, &error))?);
    if let Some(segment) = shared.state.borrow_mut().segment(base)
        && segment.phase == Phase::Sealed
    {
        segment.file.get_or_insert_with(|| file.clone());
        shared.volume.note_cached(shared, base, Cached::File);
    }
    Ok(Some(file))
}

/// Where a segment's index lies: in memory while it grows, else shared out of the cache.
pub(super) enum Found {
    Growing,
    Sealed(Rc<Indexes>),
}

impl Found {
    fn position(&self, base: Offset, offset: Offset, growing: &Indexes) -> u64 {
        match self {
            Self::Growing => growing.position_before(base, offset),
            Self::Sealed(indexes) => indexes.position_before(base, offset),
        }
    }

    /// See [`Indexes::offset_before`].
    pub(super) fn offset_before(&self, base: Offset, time_ms: i64, growing: &Indexes) -> Offset {
        match self {
            Self::Growing => growing.offset_before(base, time_ms),
            Self::Sealed(indexes) => indexes.offset_before(base, time_ms),
        }
    }
}

/// The segment's indexes, loaded and checked at first use, rebuilt when damaged; `None` when the
/// segment is gone.
pub(super) async fn indexes<E: Env>(shared: &Rc<Shared<E>>, base: Offset) -> Result<Option<Found>> {
    let record = match shared.state.borrow_mut().segment(base) {
        None => return Ok(None),
        Some(segment) if segment.phase != Phase::Sealed => return Ok(Some(Found::Growing)),
        Some(segment) => {
            if let Some(indexes) = &segment.cached {
                return Ok(Some(Found::Sealed(indexes.clone())));
            }
            segment.seal
        }
    };
    let record = record.expect("a sealed segment has its record");
    let Some(naming) = Naming::begin(shared) else { return Ok(None) };
    let loaded = load_indexes(shared.disk(), &shared.dir, &record).await;
    drop(naming);
    let loaded = loaded.map_err(|error| read_error(shared, base, &error))?;
    let indexes = match loaded {
        Some(indexes) => indexes,
        None => rebuild(shared, base, record.size).await?,
    };
    let indexes = Rc::new(indexes);
    let mut state = shared.state.borrow_mut();
    let bytes = indexes.held_bytes();
    if let Some(segment) = state.segment(base) {
        segment.cached = Some(indexes.clone());
    }
    drop(state);
    shared.volume.note_cached(shared, base, Cached::Indexes(bytes));
    Ok(Some(Found::Sealed(indexes)))
}

/// The indexes of a sealed segment by a walk over its headers.
async fn rebuild<E: Env>(shared: &Rc<Shared<E>>, base: Offset, size: u64) -> Result<Indexes> {
    let interval = shared.state.borrow().settings.index_interval_bytes;
    let Some(file) = open_file(shared, base).await? else { return Ok(Indexes::default()) };
    let mut scanner = Scanner::new((*file).clone(), size, base, DenseFrom::NEVER);
    let mut segment = super::segment::Segment::<FileOf<E>>::empty(base, 0, 0);
    let next = async |scanner: &mut Scanner<FileOf<E>>| {
        scanner.next_header().await.map_err(|error| read_error(shared, base, &error))
    };
    while let Some(header) = next(&mut scanner).await? {
        segment.add(&header, interval);
    }
    segment.growing.add_time(base, (segment.max_timestamp_ms, segment.max_timestamp_offset));
    Ok(segment.growing.into_entries())
}

/// Whether it was the shard's buffers that did not suffice.
fn is_short(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory
}

/// A walk over one segment's headers that keeps the bytes it read.
struct Walk<'a, F> {
    source: Source<F>,
    pool: &'a Pool,
    /// Offset in `chain` of the batch looked at.
    at: usize,
    /// What was read from `source.position` on.
    chain: Chain,
    from: Offset,
    last: Option<Offset>,
    /// Where in `chain` the answer ends, and the offset there; `None` when memory was short.
    reached: Option<(usize, Offset)>,
}

impl<'a, F: DiskFile> Walk<'a, F> {
    /// A walk from where the index says, or, with the segment's bytes read ahead, from there.
    fn new(mut source: Source<F>, from: Offset, pool: &'a Pool, ahead: Option<Taken>) -> Self {
        let mut chain = Chain::new();
        if let Some(ahead) = ahead.filter(|ahead| ahead.base == source.base) {
            source.position = ahead.position;
            chain = ahead.bytes;
        }
        assert!(source.position <= source.size, "a walk starts within its segment");
        Self { source, pool, at: 0, chain, from, last: None, reached: None }
    }

    /// Where a reader goes on, with the bytes read beyond the answer.
    fn place(self) -> Option<Place<F>> {
        let (end, next) = self.reached?;
        let Source { file, base, position, .. } = self.source;
        let rest = self.chain.sub(end.min(self.chain.len())..self.chain.len());
        Some(Place { file, base, position: position + end as u64, next, rest })
    }

    /// Where memory is short, what is whole already is the answer; only the first batch may go into
    /// the last quarter of the buffers.
    async fn collect(&mut self, max_bytes: usize, up_to: Offset) -> io::Result<Chain> {
        let mut start = None;
        let (mut end, mut whole) = (0, 0);
        loop {
            let has_one = start.is_some_and(|first| whole > first);
            let header = match self.header(max_bytes, has_one).await {
                Ok(Some(header)) => header,
                Ok(None) => break,
                Err(error) if is_short(&error) && has_one => break,
                Err(error) => return Err(error),
            };
            if start.is_none() && header.last_offset() < self.from {
                self.skip(header.size_bytes());
                continue;
            }
            let first = *start.get_or_insert(self.at);
            let next = self.at + header.size_bytes();
            if header.next_offset() > up_to || (next - first > max_bytes && end > first) {
                break;
            }
            end = next;
            self.reached = Some((next, header.next_offset()));
            if next <= self.chain.len() {
                whole = next;
            }
            self.at = next;
            if end - first >= max_bytes {
                break;
            }
        }
        let Some(first) = start.filter(|first| end > *first) else { return Ok(Chain::new()) };
        while self.chain.len() < end {
            match self.load(end - self.chain.len(), whole > first).await {
                Ok(()) => {}
                Err(error) if is_short(&error) && whole > first => {
                    end = whole;
                    self.reached = None;
                }
                Err(error) => return Err(error),
            }
        }
        assert!(self.source.position + end as u64 <= self.source.size, "within the segment");
        Ok(self.chain.sub(first..end))
    }

    /// Steps over a batch before the one asked for, and forgets its bytes.
    fn skip(&mut self, bytes: usize) {
        let loaded = self.chain.len();
        self.chain = if bytes < loaded { self.chain.sub(bytes..loaded) } else { Chain::new() };
        self.source.position += bytes as u64;
    }

    /// The header at `at`; `None` at the end of the segment.
    async fn header(&mut self, max_bytes: usize, has_one: bool) -> io::Result<Option<Header>> {
        let behind = self.source.position + self.at as u64;
        if behind >= self.source.size {
            return Ok(None);
        }
        while self.chain.len() < self.at + HEADER_BYTES {
            self.load(max_bytes.max(FIRST_READ_BYTES), has_one).await?;
        }
        let header = Header::from_chain(&self.chain, self.at)
            .filter(Header::is_plausible)
            .filter(|header| behind + header.size_bytes() as u64 <= self.source.size)
            .filter(|header| self.last.is_none_or(|last| header.base_offset > last));
        let Some(header) = header else {
            let text = format!("no batch at file position {behind}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        };
        self.last = Some(header.last_offset());
        Ok(Some(header))
    }

    /// Reads some of the `wanted` bytes; with a whole batch there already, only while a quarter of
    /// the buffers stays free for what cannot do without.
    async fn load(&mut self, wanted: usize, has_one: bool) -> io::Result<()> {
        if has_one && !read_ahead::leaves_reserve(self.pool, wanted.min(READ_CHUNK_BYTES)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let at = self.source.position + self.chain.len() as u64;
        let left = in_memory(self.source.size.saturating_sub(at));
        // A direct read starts at the alignment below: the chunk ends with the buffer that its
        // size is the class of, else each chunk would take a buffer of the next class.
        let chunk = READ_CHUNK_BYTES - in_memory(at % DIRECT_ALIGNMENT_BYTES as u64);
        let piece = self.source.file.read_at(at, wanted.min(chunk).min(left)).await?;
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.chain.push(piece);
        Ok(())
    }
}
