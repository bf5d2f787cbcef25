//! RESP: the gateway's answer to an INIT (transport.md section 3.2).
use super::{
    PacketKind, Parameters, VERSION,
    field::{self, Truncated},
    init::TOKEN_LEN,
    parameters::ParametersError,
};

/// Length that Noise message 2 of the IK pattern adds to its payload: an ephemeral key and a tag.
pub const NOISE_OVERHEAD: usize = 32 + 16;
/// Length of the bytes before the Noise message.
pub const HEADER_LEN: usize = 5;
/// Length of a reset tag.
pub const RESET_TAG_LEN: usize = 16;

/// Errors of parsing a RESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RespError {
    /// The datagram is too short for its kind, or for the length that it contains.
    #[error("the RESP is cut off")]
    Truncated,
    /// The first byte is that of another kind.
    #[error("the datagram is not a RESP")]
    Kind,
    /// The version is not that of the INIT.
    #[error("the RESP has another version")]
    Version,
    /// The status or the outcome of early data has an undefined value.
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

/// Clear fields of a RESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resp<'a> {
    /// Index of the agent, from the INIT.
    pub agent_index: u8,
    /// Noise message 2.
    pub noise: &'a [u8],
}

impl<'a> Resp<'a> {
    /// Appends the RESP. A Noise message is never longer than 65,535 bytes, because a datagram is shorter.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let length = u16::try_from(self.noise.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&[PacketKind::RESP, VERSION, self.agent_index]);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(self.noise);
    }

    /// Parses the RESP at the start of `datagram`; returns the RESP and its length. A short packet may
    /// follow.
    ///
    /// # Errors
    /// The RESP is truncated, of another kind or of another version.
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

/// Reason for which a gateway refuses a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The gateway does not know the device.
    UnknownDevice,
    /// The device was revoked.
    Revoked,
    /// The gateway has its maximum number of sessions.
    TooManySessions,
    /// No agent used the invite before it expired.
    Expired,
    /// The gateway is about to end and opens no more sessions.
    Draining,
}

/// Outcome of the early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyOutcome {
    /// The gateway dropped the early data; the agent must send it again.
    Rejected,
    /// The gateway accepted the early data.
    Accepted,
}

/// An accepted session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// Outcome of the early data.
    pub early: EarlyOutcome,
    /// Receiver index of packets to the gateway.
    pub gateway_index: u32,
    /// Tag by which the agent verifies a RESET of this session.
    pub reset_tag: [u8; RESET_TAG_LEN],
    /// Token for the next INIT.
    pub token: [u8; TOKEN_LEN],
    /// Parameters of the gateway.
    pub parameters: Parameters,
}

/// Payload of Noise message 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RespPayload {
    /// The session is accepted.
    Accepted(Acceptance),
    /// The session is refused.
    Refused(Refusal),
}

/// Padding of a refusal to the length of a typical acceptance, so that the length does not reveal the status.
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
            Refusal::Expired => 4,
            Refusal::Draining => 5,
        });
        out.resize(out.len() + REFUSAL_PADDING, 0);
    }

    /// Parses a payload. Bytes after it are ignored.
    ///
    /// # Errors
    /// The payload is truncated, or a field is malformed.
    pub fn decode(payload: &[u8]) -> Result<Self, RespError> {
        let mut input = payload;
        Ok(match field::u8(&mut input)? {
            0 => Self::Accepted(Acceptance::decode(&mut input)?),
            1 => Self::Refused(Refusal::UnknownDevice),
            2 => Self::Refused(Refusal::Revoked),
            3 => Self::Refused(Refusal::TooManySessions),
            4 => Self::Refused(Refusal::Expired),
            5 => Self::Refused(Refusal::Draining),
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
