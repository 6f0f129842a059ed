//! Which topic a partition's directory belongs to: its `partition.metadata`, in Kafka's form.
//!
//! Failure: a file that names no topic, or one whose id is nearly the one looked for, is damage:
//! `Corrupt`. Only an id of its own makes a directory another topic's: were a flipped bit taken for
//! one, its partition would begin anew, empty.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use crate::{
    error::{Error, Kind, Result},
    io::Disk,
    limits::{PARTITION_METADATA_CAP_BYTES, TOPIC_ID_NEAR_BITS},
    types::{TopicId, parse_uuid, uuid_text},
};

const FILE_NAME: &str = "partition.metadata";

/// What lies where a partition's directory would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// No directory.
    Nothing,
    /// A directory that names no topic: new, or not ours.
    Unmarked,
    /// A directory of this topic.
    Marked(TopicId),
}

/// The file that names the topic of the partition in `dir`.
pub(super) fn path_in(dir: &Path) -> PathBuf {
    dir.join(FILE_NAME)
}

/// What the file says of a partition of `topic`.
pub(super) fn text_of(topic: TopicId) -> String {
    format!("version: 0\ntopic_id: {}\n", uuid_text(&topic.0))
}

/// Whose directory `dir` is.
///
/// An unreadable directory is no absent one: taken for absent, its partition would begin anew,
/// empty, somewhere else.
///
/// # Errors
/// `Corrupt` when the file is there and names no topic, else the disk's.
pub(super) async fn find<D: Disk>(disk: &D, dir: &Path) -> Result<Found> {
    let failed = |error| Error::from_io(&dir.display().to_string(), &error);
    match disk.list(dir).await {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(failed(error)),
    }
    let bytes = match disk.read_file(&path_in(dir), PARTITION_METADATA_CAP_BYTES).await {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Unmarked),
        Err(error) if error.kind() == ErrorKind::InvalidData => Vec::new(),
        Err(error) => return Err(failed(error)),
    };
    let topic = parse(&bytes).ok_or_else(|| damaged(dir, "names no topic"))?;
    Ok(Found::Marked(topic))
}

/// Whether a directory of `found` is one of `wanted`.
///
/// # Errors
/// `Corrupt` when the ids differ in so few bits that one must be the other, damaged.
pub(super) fn is_same(dir: &Path, found: TopicId, wanted: TopicId) -> Result<bool> {
    let pairs = found.0.iter().zip(&wanted.0);
    let differing: u32 = pairs.map(|(found, wanted)| (found ^ wanted).count_ones()).sum();
    match differing {
        0 => Ok(true),
        1..TOPIC_ID_NEAR_BITS => {
            let text = format!("should say `topic_id: {}`", uuid_text(&wanted.0));
            Err(damaged(dir, &text))
        }
        _ => Ok(false),
    }
}

fn damaged(dir: &Path, what: &str) -> Error {
    let path = path_in(dir);
    let text = format!("{} is damaged: it {what}; nothing was changed", path.display());
    Error::new(Kind::Corrupt, text)
}

/// The topic in the bytes of the file, with or without a line end behind it, as Kafka has it.
fn parse(bytes: &[u8]) -> Option<TopicId> {
    let mut lines = std::str::from_utf8(bytes).ok()?.trim_end().lines();
    let version = lines.next()?.strip_prefix("version:")?.trim();
    let topic = lines.next()?.strip_prefix("topic_id:")?.trim();
    let topic = parse_uuid(topic).map(TopicId).filter(|topic| *topic != TopicId::NONE)?;
    (version == "0" && lines.next().is_none()).then_some(topic)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: TopicId =
        TopicId([0, 255, 18, 52, 86, 120, 154, 188, 222, 240, 17, 34, 51, 68, 85, 102]);

    #[test]
    fn kafkas_file_and_ours_name_their_topic() {
        let ours = text_of(TOPIC);
        assert_eq!(parse(ours.as_bytes()), Some(TOPIC));
        assert_eq!(parse(ours.trim_end().as_bytes()), Some(TOPIC), "Kafka ends no line behind it");
        assert_eq!(parse(b""), None);
    }

    /// The directory was set aside as another topic's and the partition began anew at offset 0.
    #[test]
    fn no_flipped_bits_make_a_directory_another_topics() {
        let dir = Path::new("/data/orders-0");
        let text = text_of(TOPIC);
        for at in 0..text.len() {
            for flips in 1..=255_u8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= flips;
                let Some(found) = parse(&bytes) else { continue };
                if let Ok(same) = is_same(dir, found, TOPIC) {
                    assert!(same, "byte {at} with bits {flips:x}: {found}");
                }
            }
        }
        let other = TopicId(TOPIC.0.map(|byte| byte ^ 0x55));
        assert!(!is_same(dir, other, TOPIC).expect("another topic's"));
    }
}
