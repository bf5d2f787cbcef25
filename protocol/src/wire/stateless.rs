//! Stateless answers of a gateway: VERSIONS and RESET (transport.md sections 3.4 and 3.5).
use super::{
    PacketKind,
    field::{self, Truncated},
    resp::RESET_TAG_LEN,
};

/// Errors of parsing a VERSIONS or RESET.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatelessError {
    /// The datagram is too short.
    #[error("the datagram is cut off")]
    Truncated,
    /// The datagram is longer than its contents, or the first byte is that of another kind.
    #[error("the datagram is malformed")]
    Malformed,
}

impl From<Truncated> for StatelessError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

/// Versions that a gateway supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions<'a> {
    /// Index of the agent, from the INIT.
    pub agent_index: u8,
    /// Versions, one byte each: at least one, at most 255.
    pub versions: &'a [u8],
}

impl<'a> Versions<'a> {
    /// Appends the datagram; versions after the 255th are omitted.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let count = u8::try_from(self.versions.len()).unwrap_or(u8::MAX);
        out.extend_from_slice(&[PacketKind::VERSIONS, self.agent_index, count]);
        out.extend_from_slice(&self.versions[..usize::from(count)]);
    }

    /// Parses a complete datagram.
    ///
    /// # Errors
    /// The datagram is truncated, contains no version, is longer than its count, or is of another kind.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, StatelessError> {
        let mut input = datagram;
        let kind = field::u8(&mut input)?;
        let agent_index = field::u8(&mut input)?;
        let count = usize::from(field::u8(&mut input)?);
        let versions = field::take(&mut input, count)?;
        if kind != PacketKind::VERSIONS || count == 0 || !input.is_empty() {
            return Err(StatelessError::Malformed);
        }
        Ok(Self {
            agent_index,
            versions,
        })
    }
}

/// Informs an agent that the gateway does not know a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset {
    /// Reset tag from the RESP of the session.
    pub tag: [u8; RESET_TAG_LEN],
}

impl Reset {
    /// Length of a RESET.
    pub const LEN: usize = 1 + RESET_TAG_LEN;

    /// Appends the datagram.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(PacketKind::RESET);
        out.extend_from_slice(&self.tag);
    }

    /// Parses a complete datagram.
    ///
    /// # Errors
    /// The datagram has another length or is of another kind.
    pub fn parse(datagram: &[u8]) -> Result<Self, StatelessError> {
        let mut input = datagram;
        let kind = field::u8(&mut input)?;
        let tag = field::array(&mut input)?;
        if kind != PacketKind::RESET || !input.is_empty() {
            return Err(StatelessError::Malformed);
        }
        Ok(Self { tag })
    }
}
