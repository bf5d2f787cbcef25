//! INIT: the datagram that opens a session (transport.md section 3.1).
use std::time::Duration;

use longhaul_types::UnixTime;

use super::{
    PacketKind, Parameters, Stamp, VERSION,
    field::{self, Truncated},
    parameters::ParametersError,
};

/// Length of a token.
pub const TOKEN_LEN: usize = 32;
/// Length of mac1.
pub const MAC1_LEN: usize = 16;
/// Length that Noise message 1 of the IK pattern adds to its payload: an ephemeral key, an encrypted static
/// key, a tag.
pub const NOISE_OVERHEAD: usize = 32 + 48 + 16;
const FIXED_LEN: usize = 4;
const TOKEN_PRESENT: u8 = 0x01;

/// Errors of parsing an INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InitError {
    /// The datagram is too short for its kind.
    #[error("the INIT is cut off")]
    Truncated,
    /// The first byte is that of another kind.
    #[error("the datagram is not an INIT")]
    Kind,
    /// A flag is set that this version does not define.
    #[error("the INIT has unknown flags")]
    Flags,
}

impl From<Truncated> for InitError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

/// Fields that every version of INIT has, so that a gateway can answer an INIT of an unknown version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitOutline<'a> {
    /// Version of the agent.
    pub version: u8,
    /// Index by which the agent finds its handshake.
    pub agent_index: u8,
    /// Bytes that mac1 covers: all bytes before mac1.
    pub covered: &'a [u8],
    /// mac1: the last 16 bytes.
    pub mac1: [u8; MAC1_LEN],
}

impl<'a> InitOutline<'a> {
    /// Parses the common fields of `datagram`.
    ///
    /// # Errors
    /// The datagram is too short, or not an INIT.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, InitError> {
        let (covered, mac1) = datagram
            .split_last_chunk::<MAC1_LEN>()
            .ok_or(InitError::Truncated)?;
        let &[kind, version, _, agent_index, ..] = covered else {
            return Err(InitError::Truncated);
        };
        if kind != PacketKind::INIT {
            return Err(InitError::Kind);
        }
        Ok(Self {
            version,
            agent_index,
            covered,
            mac1: *mac1,
        })
    }
}

/// An INIT of version 1, without mac1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init<'a> {
    /// Receiver index of packets to the agent.
    pub agent_index: u8,
    /// Token, which identifies the agent's address and, after message 1, its device.
    pub token: Option<[u8; TOKEN_LEN]>,
    /// Clear bytes before the Noise message, which are part of the prologue.
    pub clear: &'a [u8],
    /// Noise message 1.
    pub noise: &'a [u8],
}

impl<'a> Init<'a> {
    /// Parses `covered`, the part of the datagram before mac1.
    ///
    /// # Errors
    /// The bytes are too short or have unknown flags.
    pub fn parse(covered: &'a [u8]) -> Result<Self, InitError> {
        let &[kind, _version, flags, agent_index, ref rest @ ..] = covered else {
            return Err(InitError::Truncated);
        };
        if kind != PacketKind::INIT {
            return Err(InitError::Kind);
        }
        if flags & !TOKEN_PRESENT != 0 {
            return Err(InitError::Flags);
        }
        let mut rest = rest;
        let token = match flags & TOKEN_PRESENT {
            0 => None,
            _ => Some(field::array(&mut rest)?),
        };
        if rest.len() < NOISE_OVERHEAD {
            return Err(InitError::Truncated);
        }
        Ok(Self {
            agent_index,
            token,
            clear: &covered[..covered.len() - rest.len()],
            noise: rest,
        })
    }

    /// Appends the clear bytes before the Noise message.
    pub fn encode_clear(agent_index: u8, token: Option<&[u8; TOKEN_LEN]>, out: &mut Vec<u8>) {
        let flags = if token.is_some() { TOKEN_PRESENT } else { 0 };
        out.extend_from_slice(&[PacketKind::INIT, VERSION, flags, agent_index]);
        if let Some(token) = token {
            out.extend_from_slice(token);
        }
    }

    /// Length that an INIT adds to its Noise payload, in bytes.
    pub const fn overhead(token: Option<&[u8; TOKEN_LEN]>) -> usize {
        let token = if token.is_some() { TOKEN_LEN } else { 0 };
        FIXED_LEN + token + NOISE_OVERHEAD + MAC1_LEN
    }
}

/// Payload of Noise message 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitPayload<'a> {
    /// Wall clock of the agent; never decreases for a device.
    pub wall: UnixTime,
    /// Parameters of the agent.
    pub parameters: Parameters,
    /// Stamp of packet number 0.
    pub stamp: Stamp,
    /// Frames of packet number 0: early data.
    pub frames: &'a [u8],
}

impl<'a> InitPayload<'a> {
    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let wall = self.wall.since_epoch();
        out.extend_from_slice(&wall.as_secs().to_be_bytes());
        out.extend_from_slice(&wall.subsec_nanos().to_be_bytes());
        self.parameters.encode(out);
        field::put_u24(self.stamp.raw(), out);
        out.extend_from_slice(self.frames);
    }

    /// Parses a payload.
    ///
    /// # Errors
    /// The payload is truncated, or a field is malformed.
    pub fn decode(payload: &'a [u8]) -> Result<Self, ParametersError> {
        let mut input = payload;
        let seconds = field::u64(&mut input)?;
        let nanos = field::u32(&mut input)?;
        if nanos >= 1_000_000_000 {
            return Err(ParametersError::Malformed);
        }
        let parameters = Parameters::decode(&mut input)?;
        let stamp = Stamp::from_raw(field::u24(&mut input)?);
        Ok(Self {
            wall: UnixTime::new(Duration::new(seconds, nanos)),
            parameters,
            stamp,
            frames: input,
        })
    }
}
