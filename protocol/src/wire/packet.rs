//! Kinds of datagrams and the header of short packets (transport.md sections 1 and 2).
use super::field;

/// What the first byte of a datagram says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// Opens a session.
    Init,
    /// Answers an INIT.
    Resp,
    /// Lists the versions that the gateway speaks.
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

    /// The kind of `datagram`; `None` for what is no datagram of this protocol.
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

/// Which keys seal a short packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySpace {
    /// The keys after message 2.
    Full,
    /// The keys after message 1: early data.
    Early,
}

/// Which of the keys that follow one another seals a packet (transport.md section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPhase {
    /// Those of the handshake, and every second one after them.
    Even,
    /// The others.
    Odd,
}

impl KeyPhase {
    /// The phase in which the keys were replaced so often.
    pub const fn of(replaced: u32) -> Self {
        if replaced.is_multiple_of(2) {
            Self::Even
        } else {
            Self::Odd
        }
    }
}

/// Whether the sender has more to send behind a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It has, or it does not say.
    More,
    /// It has not: the receiver sends feedback at once.
    Idle,
}

/// The index by which a receiver finds its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReceiverIndex {
    /// Chosen by an agent: 1 byte, because it has few sessions and its downlink may be thin.
    Agent(u8),
    /// Chosen by a gateway: 4 bytes.
    Gateway(u32),
}

/// How long the receiver index of arriving packets is; a receiver knows its own role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexLength {
    /// The receiver is an agent: 1 byte.
    Agent,
    /// The receiver is a gateway: 4 bytes.
    Gateway,
}

impl IndexLength {
    /// The length of the header of short packets with such an index.
    pub const fn header_len(self) -> usize {
        match self {
            Self::Agent => 5,
            Self::Gateway => 8,
        }
    }
}

/// A header that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The datagram is shorter than a header, a stamp and a tag.
    #[error("the packet is too short")]
    Truncated,
    /// A bit is set that this version does not know.
    #[error("the packet has unknown flags")]
    Flags,
}

impl From<field::Truncated> for HeaderError {
    fn from(_: field::Truncated) -> Self {
        Self::Truncated
    }
}

/// The longest header.
const MAX_HEADER: usize = IndexLength::Gateway.header_len();

const FORM: u8 = 0x80;
const PHASE: u8 = 0x40;
const EARLY: u8 = 0x20;
const IDLE: u8 = 0x10;

/// The clear header of a short packet: also the additional data of its AEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortHeader {
    /// Which keys seal the packet.
    pub keys: KeySpace,
    /// The phase of the full keys; early packets have the even one.
    pub phase: KeyPhase,
    /// Whether more follows.
    pub activity: Activity,
    /// The receiver's session.
    pub index: ReceiverIndex,
    /// The low 24 bits of the packet number; encoding cuts higher bits off.
    pub truncated: u32,
}

impl ShortHeader {
    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (bytes, len) = self.to_bytes();
        out.extend_from_slice(&bytes[..len]);
    }

    /// The header, and how many of the bytes it takes.
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

    /// Reads the header at the front of `datagram`; returns it with its length.
    ///
    /// # Errors
    /// The datagram is too short for a short packet, or has flags that this version does not know.
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

/// The packet number whose low 24 bits are `truncated` and which is nearest to the number after `largest`, the largest one
/// authenticated so far (RFC 9000 appendix A.3).
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
