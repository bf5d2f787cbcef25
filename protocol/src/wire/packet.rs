//! Kinds of datagrams and the header of short packets (transport.md sections 1 and 2).
use super::field;

/// Kind of a datagram, from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// Opens a session.
    Init,
    /// Answers an INIT.
    Resp,
    /// Lists the versions that the gateway supports.
    Versions,
    /// The gateway does not know this session.
    Reset,
    /// A packet of a session.
    Short,
}

impl PacketKind {
    /// First byte of an INIT.
    pub const INIT: u8 = 0x01;
    /// First byte of a RESP.
    pub const RESP: u8 = 0x02;
    /// First byte of a VERSIONS.
    pub const VERSIONS: u8 = 0x03;
    /// First byte of a RESET.
    pub const RESET: u8 = 0x04;

    /// Returns the kind of `datagram`; `None` for an unknown first byte or an empty datagram.
    pub fn classify(datagram: &[u8]) -> Option<Self> {
        match *datagram.first()? {
            Self::INIT => Some(Self::Init),
            Self::RESP => Some(Self::Resp),
            Self::VERSIONS => Some(Self::Versions),
            Self::RESET => Some(Self::Reset),
            0x80..=0xff => Some(Self::Short),
            _ => None,
        }
    }
}

/// Keys that seal a short packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySpace {
    /// Keys after message 2.
    Full,
    /// Keys after message 1: early data.
    Early,
}

/// Key phase of a packet (transport.md section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPhase {
    /// Keys of the handshake, and every second phase after them.
    Even,
    /// The other phases.
    Odd,
}

impl KeyPhase {
    /// The phase after `replaced` key updates.
    pub const fn of(replaced: u32) -> Self {
        if replaced.is_multiple_of(2) {
            Self::Even
        } else {
            Self::Odd
        }
    }
}

/// Activity flag of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The sender may have more to send.
    More,
    /// IDLE: the sender has nothing more to send, and the receiver sends feedback at once.
    Idle,
}

/// Index by which a receiver finds its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReceiverIndex {
    /// Chosen by an agent: 1 byte, because an agent has few sessions and its downlink may be slow.
    Agent(u8),
    /// Chosen by a gateway: 4 bytes.
    Gateway(u32),
}

/// Length of the receiver index of received packets, from the receiver's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexLength {
    /// The receiver is an agent: 1 byte.
    Agent,
    /// The receiver is a gateway: 4 bytes.
    Gateway,
}

impl IndexLength {
    /// Length of the header of short packets with this index.
    pub const fn header_len(self) -> usize {
        match self {
            Self::Agent => 5,
            Self::Gateway => 8,
        }
    }
}

/// Errors of parsing a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The datagram is shorter than a header, a stamp and a tag.
    #[error("the packet is too short")]
    Truncated,
    /// A bit is set that this version does not define.
    #[error("the packet has unknown flags")]
    Flags,
}

impl From<field::Truncated> for HeaderError {
    fn from(_: field::Truncated) -> Self {
        Self::Truncated
    }
}

/// Length of the longest header.
const MAX_HEADER: usize = IndexLength::Gateway.header_len();

const FORM: u8 = 0x80;
const PHASE: u8 = 0x40;
const EARLY: u8 = 0x20;
const IDLE: u8 = 0x10;

/// Clear header of a short packet, which is the additional data of the AEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortHeader {
    /// Keys that seal the packet.
    pub keys: KeySpace,
    /// Phase of the full keys; early packets have the even phase.
    pub phase: KeyPhase,
    /// Activity flag of the sender.
    pub activity: Activity,
    /// Session of the receiver.
    pub index: ReceiverIndex,
    /// Low 24 bits of the packet number; encoding ignores higher bits.
    pub truncated: u32,
}

impl ShortHeader {
    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (bytes, len) = self.to_bytes();
        out.extend_from_slice(&bytes[..len]);
    }

    /// Returns the header's bytes and their number.
    pub fn to_bytes(&self) -> ([u8; MAX_HEADER], usize) {
        let early = if self.keys == KeySpace::Early { EARLY } else { 0 };
        let idle = if self.activity == Activity::Idle { IDLE } else { 0 };
        let phase = if self.phase == KeyPhase::Odd { PHASE } else { 0 };
        let flags = FORM | phase | early | idle;
        let [_, a, b, c] = self.truncated.to_be_bytes();
        match self.index {
            ReceiverIndex::Agent(index) => {
                ([flags, index, a, b, c, 0, 0, 0], IndexLength::Agent.header_len())
            }
            ReceiverIndex::Gateway(index) => {
                let [w, x, y, z] = index.to_be_bytes();
                ([flags, w, x, y, z, a, b, c], IndexLength::Gateway.header_len())
            }
        }
    }

    /// Parses the header at the start of `datagram`; returns the header and its length.
    ///
    /// # Errors
    /// The datagram is too short for a short packet, or has unknown flags.
    pub fn parse(datagram: &[u8], index: IndexLength) -> Result<(Self, usize), HeaderError> {
        if datagram.len() < index.header_len() + 3 + super::TAG_LEN {
            return Err(HeaderError::Truncated);
        }
        let mut input = datagram;
        let flags = field::u8(&mut input)?;
        let is_early = flags & EARLY != 0;
        if flags & FORM == 0 || flags & !(FORM | PHASE | EARLY | IDLE) != 0 || is_early && flags & PHASE != 0
        {
            return Err(HeaderError::Flags);
        }
        let receiver = match index {
            IndexLength::Agent => ReceiverIndex::Agent(field::u8(&mut input)?),
            IndexLength::Gateway => ReceiverIndex::Gateway(field::u32(&mut input)?),
        };
        let header = Self {
            keys: if is_early { KeySpace::Early } else { KeySpace::Full },
            phase: if flags & PHASE == 0 {
                KeyPhase::Even
            } else {
                KeyPhase::Odd
            },
            activity: if flags & IDLE == 0 {
                Activity::More
            } else {
                Activity::Idle
            },
            index: receiver,
            truncated: field::u24(&mut input)?,
        };
        Ok((header, index.header_len()))
    }
}

const WINDOW: u64 = 1 << 24;

/// Returns the packet number whose low 24 bits are `truncated` and which is nearest to the number after
/// `largest`, the largest authenticated number (RFC 9000 appendix A.3).
pub fn expand_packet_number(truncated: u32, largest: Option<u64>) -> u64 {
    let expected = largest.map_or(0, |largest| largest.saturating_add(1));
    let candidate = expected & !(WINDOW - 1) | u64::from(truncated) & (WINDOW - 1);
    if candidate.saturating_add(WINDOW / 2) <= expected && candidate <= u64::MAX - WINDOW {
        candidate + WINDOW
    } else if candidate > expected.saturating_add(WINDOW / 2) && candidate >= WINDOW {
        candidate - WINDOW
    } else {
        candidate
    }
}
