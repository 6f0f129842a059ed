//! Which cluster, node and disk a data directory belongs to, and the ids that are made for it.
//!
//! A small text file that people can read, in each directory of `log.dirs`: a first line with
//! magic, version and checksum, then three settings. Knows the text; `store` knows the file.

use crate::types::{NodeId, uuid_text};

/// Name of the file in a data directory.
pub(super) const FILE_NAME: &str = "millrace.meta";
/// Name of the file by which Apache Kafka marks a directory of its own.
pub(super) const KAFKA_FILE_NAME: &str = "meta.properties";
/// Longest such file.
pub(super) const FILE_BYTES_MAX: u64 = 4096;

const MAGIC: &str = "millrace-meta";
const VERSION: &str = "1";

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub cluster_id: String,
    pub node_id: NodeId,
    /// Of this directory alone; a copied directory is found out by it.
    pub directory_id: String,
}

impl Identity {
    /// The file's text.
    pub fn encode(&self) -> String {
        let Self { cluster_id, node_id, directory_id } = self;
        let node = node_id.0;
        let body =
            format!("cluster.id={cluster_id}\nnode.id={node}\ndirectory.id={directory_id}\n");
        format!("{MAGIC} {VERSION} {:08x}\n{body}", crc32c::crc32c(body.as_bytes()))
    }

    /// What `bytes` say; the error is what is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let text = str::from_utf8(bytes).map_err(|_| "not text")?;
        let (first, body) = text.split_once('\n').ok_or("no first line")?;
        let mut words = first.split(' ');
        if words.next() != Some(MAGIC) {
            return Err("wrong magic".to_owned());
        }
        let version = words.next().unwrap_or_default();
        if version != VERSION {
            return Err(format!("version {version}, this program knows {VERSION}"));
        }
        let crc = format!("{:08x}", crc32c::crc32c(body.as_bytes()));
        if words.next() != Some(crc.as_str()) || words.next().is_some() {
            return Err("wrong checksum".to_owned());
        }
        let mut lines = body.lines();
        let mut field = |name: &str| {
            let value = lines.next().and_then(|line| line.strip_prefix(name));
            value.map(str::to_owned).ok_or_else(|| format!("no {name}"))
        };
        let cluster_id = field("cluster.id=")?;
        let node = field("node.id=")?.parse().map_err(|_| "node.id is not a number")?;
        Ok(Self { cluster_id, node_id: NodeId(node), directory_id: field("directory.id=")? })
    }
}

/// A random UUID (version 4) from 16 random bytes, or `None` where Kafka would not use it: its
/// text must not start with a dash, which command lines take for a flag.
pub(super) fn uuid(mut random: [u8; 16]) -> Option<[u8; 16]> {
    random[6] = (random[6] & 0x0f) | 0x40;
    random[8] = (random[8] & 0x3f) | 0x80;
    (!uuid_text(&random).starts_with('-')).then_some(random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back_and_every_flipped_bit_is_found() {
        let identity = Identity {
            cluster_id: uuid_text(&[7; 16]),
            node_id: NodeId(3),
            directory_id: "d".to_owned(),
        };
        let bytes = identity.encode().into_bytes();
        assert_eq!(Identity::decode(&bytes), Ok(identity));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Identity::decode(&flipped).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(Identity::decode(&bytes[..length]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn uuids_are_as_kafkas() {
        // Checked against org.apache.kafka.common.Uuid.
        let bytes: [u8; 16] = std::array::from_fn(|at| u8::try_from(at * 17).expect("small"));
        assert_eq!(uuid_text(&bytes), "ABEiM0RVZneImaq7zN3u_w");
        assert_eq!(uuid_text(&[0; 16]), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(uuid([0xfb; 16]), None);
        assert_eq!(uuid([0; 16]).map(|id| (id[6], id[8])), Some((0x40, 0x80)));
    }
}
