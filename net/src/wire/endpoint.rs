//! Leader hints (KIP-951): who leads a partition now, and where that node listens.

use std::borrow::Cow;

use super::{Cursor, DecodeError, Element, Field, Sink};

/// The current leader of a partition, sent with the errors that say "not here".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderIdAndEpoch {
    /// Node id, or -1 when unknown.
    pub leader_id: i32,
    /// Leader epoch, or -1 when unknown.
    pub leader_epoch: i32,
}

impl<'a> Element<'a> for LeaderIdAndEpoch {
    const MIN_BYTES: usize = 9;

    fn read(cursor: &mut Cursor<'a>, _: i16) -> Result<Self, DecodeError> {
        let leader = Self { leader_id: cursor.i32()?, leader_epoch: cursor.i32()? };
        cursor.skip_tags()?;
        Ok(leader)
    }
}

impl Field for LeaderIdAndEpoch {
    fn write<S: Sink>(&self, out: &mut S, _: i16) {
        out.i32(self.leader_id);
        out.i32(self.leader_epoch);
        out.tag_count(0);
    }
}

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEndpoint<'a> {
    /// Node id.
    pub node_id: i32,
    /// Host name or address.
    pub host: Cow<'a, str>,
    /// Port.
    pub port: i32,
    /// `broker.rack` of the node, if set.
    pub rack: Option<Cow<'a, str>>,
}

impl<'a> Element<'a> for NodeEndpoint<'a> {
    const MIN_BYTES: usize = 11;

    fn read(cursor: &mut Cursor<'a>, _: i16) -> Result<Self, DecodeError> {
        let node = Self {
            node_id: cursor.i32()?,
            host: cursor.string()?,
            port: cursor.i32()?,
            rack: cursor.nullable_string()?,
        };
        cursor.skip_tags()?;
        Ok(node)
    }
}

impl Field for NodeEndpoint<'_> {
    fn write<S: Sink>(&self, out: &mut S, _: i16) {
        out.i32(self.node_id);
        out.string(&self.host);
        out.i32(self.port);
        out.nullable_string(self.rack.as_deref());
        out.tag_count(0);
    }
}
