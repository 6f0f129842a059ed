//! The bytes that the runner and the clients exchange in files: big-endian integers and
//! length-prefixed fields, where length -1 says null.
//!
//! Owns the primitive encodings. Does not know what a record or a report is. A field longer than
//! [`MAX_FIELD_BYTES`] or a cut file is an error, never an allocation by declared size.

use std::io::{self, Read, Write};

/// No key, value or header of the corpus comes near this; a longer field is a broken file.
const MAX_FIELD_BYTES: usize = 4 << 20;

/// Writes one length-prefixed field, `None` as length -1.
///
/// # Errors
/// The error of the writer, or a field above `MAX_FIELD_BYTES`.
pub fn put_field(out: &mut impl Write, field: Option<&[u8]>) -> io::Result<()> {
    let Some(bytes) = field else {
        return out.write_all(&(-1i32).to_be_bytes());
    };
    out.write_all(&length(bytes.len())?.to_be_bytes())?;
    out.write_all(bytes)
}

/// Writes `count` as a 32-bit big-endian number.
///
/// # Errors
/// The error of the writer, or a count above `MAX_FIELD_BYTES`.
pub fn put_count(out: &mut impl Write, count: usize) -> io::Result<()> {
    out.write_all(&length(count)?.to_be_bytes())
}

/// Reads a field that [`put_field`] wrote.
///
/// # Errors
/// The error of the reader, a cut field, or one above `MAX_FIELD_BYTES`.
pub fn get_field(input: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let declared = get_i32(input)?;
    if declared == -1 {
        return Ok(None);
    }
    let mut field = vec![0; checked(declared)?];
    input.read_exact(&mut field)?;
    Ok(Some(field))
}

/// Reads a count that [`put_count`] wrote.
///
/// # Errors
/// The error of the reader, or a count below 0 or above `MAX_FIELD_BYTES`.
pub fn get_count(input: &mut impl Read) -> io::Result<usize> {
    checked(get_i32(input)?)
}

/// Reads one byte; `None` at the end of the file.
///
/// # Errors
/// The error of the reader.
pub fn get_tag(input: &mut impl Read) -> io::Result<Option<u8>> {
    let mut byte = [0];
    loop {
        match input.read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(byte[0])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads one byte.
///
/// # Errors
/// The error of the reader, or the end of the file.
pub fn get_u8(input: &mut impl Read) -> io::Result<u8> {
    let mut bytes = [0; 1];
    input.read_exact(&mut bytes)?;
    Ok(bytes[0])
}

/// Reads a big-endian 32-bit number.
///
/// # Errors
/// The error of the reader, or the end of the file.
pub fn get_i32(input: &mut impl Read) -> io::Result<i32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    Ok(i32::from_be_bytes(bytes))
}

/// Reads a big-endian 64-bit number.
///
/// # Errors
/// The error of the reader, or the end of the file.
pub fn get_i64(input: &mut impl Read) -> io::Result<i64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(i64::from_be_bytes(bytes))
}

fn length(bytes: usize) -> io::Result<i32> {
    i32::try_from(bytes)
        .ok()
        .filter(|_| bytes <= MAX_FIELD_BYTES)
        .ok_or_else(|| io::Error::other(format!("a field of {bytes} bytes")))
}

fn checked(declared: i32) -> io::Result<usize> {
    usize::try_from(declared)
        .ok()
        .filter(|&bytes| bytes <= MAX_FIELD_BYTES)
        .ok_or_else(|| io::Error::other(format!("a field of {declared} bytes")))
}
