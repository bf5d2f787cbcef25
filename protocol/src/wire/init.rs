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
/// What Noise message 1 of the IK pattern adds to its payload: an ephemeral key, an encrypted static key, a tag.
pub const NOISE_OVERHEAD: usize = 32 + 48 + 16;
const FIXED_LEN: usize = 4;
const TOKEN_PRESENT: u8 = 0x01;

/// An INIT that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InitError {
    /// The datagram is too short for its kind.
    #[error("the INIT is cut off")]
    Truncated,
    /// The first byte says something else.
    #[error("the datagram is not an INIT")]
    Kind,
    /// A flag is set that this version does not know.
    #[error("the INIT has unknown flags")]
    Flags,
}

impl From<Truncated> for InitError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

/// The parts of a datagram that every version of INIT shares, so that a gateway can answer an INIT of an unknown version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitOutline<'a> {
    /// The version that the agent speaks.
    pub version: u8,
    /// The index by which the agent finds its handshake.
    pub agent_index: u8,
    /// What mac1 covers: everything before it.
    pub covered: &'a [u8],
    /// The last 16 bytes.
    pub mac1: [u8; MAC1_LEN],
}

impl<'a> InitOutline<'a> {
    /// Reads the outline of `datagram`.
    ///
    /// # Errors
    /// It is too short, or not an INIT.
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
    /// The receiver index of packets to the agent.
    pub agent_index: u8,
    /// The token by which the gateway knows the agent's address and, later, its device.
    pub token: Option<[u8; TOKEN_LEN]>,
    /// The clear bytes before the Noise message: part of the prologue.
    pub clear: &'a [u8],
    /// Noise message 1.
    pub noise: &'a [u8],
}

impl<'a> Init<'a> {
    /// Reads `covered`, the part of the datagram before mac1.
    ///
    /// # Errors
    /// It is too short or has unknown flags.
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

    /// Appends the clear bytes that stand before the Noise message.
    pub fn encode_clear(agent_index: u8, token: Option<&[u8; TOKEN_LEN]>, out: &mut Vec<u8>) {
        let flags = if token.is_some() { TOKEN_PRESENT } else { 0 };
        out.extend_from_slice(&[PacketKind::INIT, VERSION, flags, agent_index]);
        if let Some(token) = token {
            out.extend_from_slice(token);
        }
    }

    /// What an INIT adds to its Noise payload, in bytes.
    pub const fn overhead(token: Option<&[u8; TOKEN_LEN]>) -> usize {
        let token = if token.is_some() { TOKEN_LEN } else { 0 };
        FIXED_LEN + token + NOISE_OVERHEAD + MAC1_LEN
    }
}

/// The payload of Noise message 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitPayload<'a> {
    /// The agent's wall clock; never decreases for a device.
    pub wall: UnixTime,
    /// The agent's parameters.
    pub parameters: Parameters,
    /// The stamp of packet number 0.
    pub stamp: Stamp,
    /// The frames of packet number 0: early data.
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

    /// Reads a payload.
    ///
    /// # Errors
    /// It is cut off, or a field is malformed.
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
