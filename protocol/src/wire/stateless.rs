//! Answers for which a gateway keeps no state: VERSIONS and RESET (transport.md sections 3.4 and 3.5).
use super::{
    PacketKind,
    field::{self, Truncated},
    resp::RESET_TAG_LEN,
};

/// A datagram that is neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatelessError {
    /// It is too short.
    #[error("the datagram is cut off")]
    Truncated,
    /// It is longer than what it says, or the first byte says something else.
    #[error("the datagram is malformed")]
    Malformed,
}

impl From<Truncated> for StatelessError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

/// The versions that a gateway speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions<'a> {
    /// The agent's index, from the INIT.
    pub agent_index: u8,
    /// One byte each, at least one, at most 255.
    pub versions: &'a [u8],
}

impl<'a> Versions<'a> {
    /// Appends the datagram; versions behind the 255th are left out.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let count = u8::try_from(self.versions.len()).unwrap_or(u8::MAX);
        out.extend_from_slice(&[PacketKind::VERSIONS, self.agent_index, count]);
        out.extend_from_slice(&self.versions[..usize::from(count)]);
    }

    /// Reads a whole datagram.
    ///
    /// # Errors
    /// It is cut off, empty, longer than its count says, or of another kind.
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

/// The gateway does not know a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The tag that the gateway gave in its RESP.
    pub tag: [u8; RESET_TAG_LEN],
}

impl Reset {
    /// The length of a RESET.
    pub const LEN: usize = 1 + RESET_TAG_LEN;

    /// Appends the datagram.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(PacketKind::RESET);
        out.extend_from_slice(&self.tag);
    }

    /// Reads a whole datagram.
    ///
    /// # Errors
    /// It has another length or another kind.
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
