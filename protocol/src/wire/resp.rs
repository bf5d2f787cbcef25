//! RESP: the gateway's answer to an INIT (transport.md section 3.2).
use super::{
    PacketKind, Parameters, VERSION,
    field::{self, Truncated},
    init::TOKEN_LEN,
    parameters::ParametersError,
};

/// What Noise message 2 of the IK pattern adds to its payload: an ephemeral key and a tag.
pub const NOISE_OVERHEAD: usize = 32 + 16;
/// The bytes before the Noise message.
pub const HEADER_LEN: usize = 5;
/// Length of a reset tag.
pub const RESET_TAG_LEN: usize = 16;

/// A RESP that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RespError {
    /// The datagram is too short for its kind, or for the length that it names.
    #[error("the RESP is cut off")]
    Truncated,
    /// The first byte says something else.
    #[error("the datagram is not a RESP")]
    Kind,
    /// Its version is not the one of the INIT.
    #[error("the RESP has another version")]
    Version,
    /// The status or the verdict on early data has a value that this version does not know.
    #[error("the RESP has an unknown status")]
    Status,
    /// The parameters are malformed.
    #[error(transparent)]
    Parameters(#[from] ParametersError),
}

impl From<Truncated> for RespError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

/// The clear parts of a RESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resp<'a> {
    /// The agent's index, from the INIT.
    pub agent_index: u8,
    /// Noise message 2.
    pub noise: &'a [u8],
}

impl<'a> Resp<'a> {
    /// Appends the RESP. A Noise message of more than 65,535 bytes cannot be: a datagram is shorter.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let length = u16::try_from(self.noise.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&[PacketKind::RESP, VERSION, self.agent_index]);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(self.noise);
    }

    /// Reads the RESP at the front of `datagram`; returns it with its length. A short packet may follow.
    ///
    /// # Errors
    /// It is cut off, of another kind or of another version.
    pub fn parse(datagram: &'a [u8]) -> Result<(Self, usize), RespError> {
        let mut input = datagram;
        if field::u8(&mut input)? != PacketKind::RESP {
            return Err(RespError::Kind);
        }
        if field::u8(&mut input)? != VERSION {
            return Err(RespError::Version);
        }
        let agent_index = field::u8(&mut input)?;
        let length = usize::from(field::u16(&mut input)?);
        if length < NOISE_OVERHEAD {
            return Err(RespError::Truncated);
        }
        let noise = field::take(&mut input, length)?;
        Ok((Self { agent_index, noise }, HEADER_LEN + length))
    }
}

/// Why a gateway refuses a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The gateway does not know the device.
    UnknownDevice,
    /// The device was revoked.
    Revoked,
    /// The gateway has as many sessions as it may have.
    TooManySessions,
}

/// What became of the early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyOutcome {
    /// It was dropped and must be sent again.
    Rejected,
    /// It counts as received.
    Accepted,
}

/// An accepted session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// What became of the early data.
    pub early: EarlyOutcome,
    /// The receiver index of packets to the gateway.
    pub gateway_index: u32,
    /// The tag by which the agent recognises a RESET of this session.
    pub reset_tag: [u8; RESET_TAG_LEN],
    /// The token for the next INIT.
    pub token: [u8; TOKEN_LEN],
    /// The gateway's parameters.
    pub parameters: Parameters,
}

/// The payload of Noise message 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RespPayload {
    /// The session is open.
    Accepted(Acceptance),
    /// There is no session.
    Refused(Refusal),
}

/// A refusal is as long as a typical acceptance, so that its length tells nothing.
const REFUSAL_PADDING: usize = 1 + 4 + RESET_TAG_LEN + TOKEN_LEN + 10;

impl RespPayload {
    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let refusal = match self {
            Self::Accepted(acceptance) => return acceptance.encode(out),
            Self::Refused(refusal) => refusal,
        };
        out.push(match refusal {
            Refusal::UnknownDevice => 1,
            Refusal::Revoked => 2,
            Refusal::TooManySessions => 3,
        });
        out.resize(out.len() + REFUSAL_PADDING, 0);
    }

    /// Reads a payload. Bytes behind it are ignored.
    ///
    /// # Errors
    /// It is cut off, or a field is malformed.
    pub fn decode(payload: &[u8]) -> Result<Self, RespError> {
        let mut input = payload;
        Ok(match field::u8(&mut input)? {
            0 => Self::Accepted(Acceptance::decode(&mut input)?),
            1 => Self::Refused(Refusal::UnknownDevice),
            2 => Self::Refused(Refusal::Revoked),
            3 => Self::Refused(Refusal::TooManySessions),
            _ => return Err(RespError::Status),
        })
    }
}

impl Acceptance {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(0);
        out.push(match self.early {
            EarlyOutcome::Rejected => 0,
            EarlyOutcome::Accepted => 1,
        });
        out.extend_from_slice(&self.gateway_index.to_be_bytes());
        out.extend_from_slice(&self.reset_tag);
        out.extend_from_slice(&self.token);
        self.parameters.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, RespError> {
        let early = match field::u8(input)? {
            0 => EarlyOutcome::Rejected,
            1 => EarlyOutcome::Accepted,
            _ => return Err(RespError::Status),
        };
        Ok(Self {
            early,
            gateway_index: field::u32(input)?,
            reset_tag: field::array(input)?,
            token: field::array(input)?,
            parameters: Parameters::decode(input)?,
        })
    }
}
