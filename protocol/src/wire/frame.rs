//! Frames of packets (transport.md section 4).
use longhaul_types::StreamId;

use super::{
    feedback::Feedback,
    field::{self, Truncated},
    init::TOKEN_LEN,
    varint::{self, VarintError},
};

/// Maximum length of the reason of a CLOSE in bytes.
pub const MAX_REASON: usize = 200;
/// Smallest and largest number of packets of a TRAIN.
pub const TRAIN_PACKETS: std::ops::RangeInclusive<u8> = 2..=32;

/// Errors of parsing a frame; a malformed frame closes the session with error 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The packet ends inside a frame.
    #[error("the packet ends inside a frame")]
    Truncated,
    /// A number is not in its shortest form.
    #[error("a number in a frame is not in its shortest form")]
    NotShortest,
    /// The type is unknown in this version.
    #[error("unknown frame type {0:#04x}")]
    UnknownType(u8),
    /// DATAGRAM, although this side has not announced that it receives it.
    #[error("a DATAGRAM that was not negotiated")]
    Unsupported,
    /// The reason of a CLOSE is too long or not UTF-8.
    #[error("the reason of a CLOSE is malformed")]
    Reason,
    /// FEEDBACK has more gaps than permitted.
    #[error("FEEDBACK has more than 256 gaps")]
    TooManyGaps,
    /// A gap is empty or outside the range of FEEDBACK's numbers.
    #[error("FEEDBACK has a gap outside its range")]
    GapRange,
    /// DATA ends beyond the stream's total, or beyond 2^62 - 1, or its FIN contradicts its total.
    #[error("DATA contradicts the length of its stream")]
    DataRange,
    /// TRAIN asks for fewer than 2 or more than 32 packets.
    #[error("TRAIN asks for fewer than 2 or more than 32 packets")]
    TrainLength,
}

impl From<VarintError> for FrameError {
    fn from(error: VarintError) -> Self {
        match error {
            VarintError::Truncated => Self::Truncated,
            VarintError::NotShortest => Self::NotShortest,
        }
    }
}

impl From<Truncated> for FrameError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

const PAD: u8 = 0x00;
const PING: u8 = 0x01;
const FEEDBACK: u8 = 0x02;
const FORWARD: u8 = 0x03;
const CANCEL: u8 = 0x04;
const STOP: u8 = 0x05;
const STREAM_LIMIT: u8 = 0x06;
const STREAMS: u8 = 0x07;
const TOKEN: u8 = 0x08;
const PATH_CHALLENGE: u8 = 0x09;
const PATH_RESPONSE: u8 = 0x0a;
const CLOSE: u8 = 0x0b;
const TRAIN: u8 = 0x0c;
const DATAGRAM: u8 = 0x30;
const DATAGRAM_LENGTH: u8 = 0x01;
const DATA: u8 = 0x40;
const DATA_OFFSET: u8 = 0x01;
const DATA_TOTAL: u8 = 0x02;
const DATA_LENGTH: u8 = 0x04;
const DATA_FIN: u8 = 0x08;

/// Bytes outside of streams, which are not retransmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a>(pub &'a [u8]);

impl Datagram<'_> {
    /// Appends the frame.
    pub fn encode(self, extent: Extent, out: &mut Vec<u8>) {
        match extent {
            Extent::Delimited => put(DATAGRAM | DATAGRAM_LENGTH, &[self.0.len() as u64], out),
            Extent::ToEnd => out.push(DATAGRAM),
        }
        out.extend_from_slice(self.0);
    }
}

/// Bytes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// The stream.
    pub stream: StreamId,
    /// Offset of the bytes in the stream.
    pub offset: u64,
    /// Length of the stream, if the sender knows it.
    pub total: Option<u64>,
    /// True if the stream ends after these bytes.
    pub fin: bool,
    /// The bytes, possibly none.
    pub bytes: &'a [u8],
}

/// End of a DATA frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The frame has a length; other frames may follow.
    Delimited,
    /// The frame extends to the end of the packet and is the last one.
    ToEnd,
}

/// Header of a DATA frame, for a sender that appends the stream's bytes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// The stream.
    pub stream: StreamId,
    /// Offset of the bytes in the stream.
    pub offset: u64,
    /// Length of the stream, if the frame contains it.
    pub total: Option<u64>,
    /// True if the stream ends after these bytes.
    pub fin: bool,
    /// Number of bytes that follow; `None` if they extend to the end of the packet.
    pub length: Option<u64>,
}

impl DataHeader {
    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let offset = if self.offset > 0 { DATA_OFFSET } else { 0 };
        let total = if self.total.is_some() { DATA_TOTAL } else { 0 };
        let length = if self.length.is_some() { DATA_LENGTH } else { 0 };
        let fin = if self.fin { DATA_FIN } else { 0 };
        out.push(DATA | offset | total | length | fin);
        varint::encode(self.stream.0, out);
        if self.offset > 0 {
            varint::encode(self.offset, out);
        }
        if let Some(total) = self.total {
            varint::encode(total, out);
        }
        if let Some(length) = self.length {
            varint::encode(length, out);
        }
    }
}

impl<'a> Data<'a> {
    /// Length of a DATA frame's header with a length field for `len` bytes. A frame that extends to the end
    /// of the packet has no length field: its header is shorter by `varint::len(len)`.
    pub const fn header_len(stream: StreamId, offset: u64, total: Option<u64>, len: usize) -> usize {
        let offset = if offset == 0 { 0 } else { varint::len(offset) };
        let total = match total {
            Some(total) => varint::len(total),
            None => 0,
        };
        1 + varint::len(stream.0) + offset + total + varint::len(len as u64)
    }

    /// Appends the frame.
    pub fn encode(&self, extent: Extent, out: &mut Vec<u8>) {
        let header = DataHeader {
            stream: self.stream,
            offset: self.offset,
            total: self.total,
            fin: self.fin,
            length: (extent == Extent::Delimited).then_some(self.bytes.len() as u64),
        };
        header.encode(out);
        out.extend_from_slice(self.bytes);
    }

    fn decode(flags: u8, input: &mut &'a [u8]) -> Result<Self, FrameError> {
        let stream = StreamId(varint::decode(input)?);
        let offset = if flags & DATA_OFFSET == 0 {
            0
        } else {
            varint::decode(input)?
        };
        let total = if flags & DATA_TOTAL == 0 {
            None
        } else {
            Some(varint::decode(input)?)
        };
        let bytes = if flags & DATA_LENGTH == 0 {
            std::mem::take(input)
        } else {
            let length = varint::decode(input)?;
            field::take(input, usize::try_from(length).map_err(|_| FrameError::Truncated)?)?
        };
        let fin = flags & DATA_FIN != 0;
        let end = offset + bytes.len() as u64;
        let beyond = total.is_some_and(|total| end > total || fin && end != total);
        if end > varint::MAX || beyond {
            return Err(FrameError::DataRange);
        }
        Ok(Self {
            stream,
            offset,
            total,
            fin,
            bytes,
        })
    }
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The rest of the packet is ignored; encoding writes one zero byte.
    Pad,
    /// Requests immediate feedback.
    Ping,
    /// Report and grant of the receiver.
    Feedback(Feedback),
    /// The sender no longer waits for acknowledgements of numbers below this packet's number minus the
    /// distance.
    Forward {
        /// This packet's number minus the oldest unacknowledged number.
        distance: u64,
    },
    /// The sender ends a stream early.
    Cancel {
        /// The stream.
        stream: StreamId,
        /// Error code of the session layer.
        error: u64,
        /// Final offset: bytes sent of the stream.
        final_offset: u64,
    },
    /// The receiver wants no more data of a stream.
    Stop {
        /// The stream.
        stream: StreamId,
        /// Error code of the session layer.
        error: u64,
    },
    /// Offset up to which the sender may send.
    StreamLimit {
        /// The stream.
        stream: StreamId,
        /// The offset.
        limit: u64,
    },
    /// Total number of streams that the peer may open.
    Streams {
        /// Number of streams, counted from the start of the session.
        count: u64,
    },
    /// A token for the next INIT.
    Token([u8; TOKEN_LEN]),
    /// Requests the return of the data from the address to which it is sent.
    PathChallenge([u8; 8]),
    /// Returns the data of a PATH_CHALLENGE.
    PathResponse([u8; 8]),
    /// Ends the session.
    Close {
        /// Error code (transport.md section 7.4).
        error: u64,
        /// Reason for log readers.
        reason: &'a str,
    },
    /// Asks a gateway for full packets back to back, by whose spacing the agent measures the link.
    Train {
        /// Number of packets, within [`TRAIN_PACKETS`].
        packets: u8,
    },
    /// Bytes outside of streams.
    Datagram(Datagram<'a>),
    /// Bytes of a stream.
    Data(Data<'a>),
}

impl<'a> Frame<'a> {
    /// Appends the frame; DATA and DATAGRAM with their lengths ([`Data::encode`] has the other form, too). A reason is
    /// truncated to [`MAX_REASON`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Pad => out.push(PAD),
            Self::Ping => out.push(PING),
            Self::Feedback(feedback) => {
                out.push(FEEDBACK);
                feedback.encode(out);
            }
            Self::Forward { distance } => put(FORWARD, &[*distance], out),
            Self::Cancel {
                stream,
                error,
                final_offset,
            } => put(CANCEL, &[stream.0, *error, *final_offset], out),
            Self::Stop { stream, error } => put(STOP, &[stream.0, *error], out),
            Self::StreamLimit { stream, limit } => put(STREAM_LIMIT, &[stream.0, *limit], out),
            Self::Streams { count } => put(STREAMS, &[*count], out),
            Self::Token(token) => put_bytes(TOKEN, token, out),
            Self::PathChallenge(data) => put_bytes(PATH_CHALLENGE, data, out),
            Self::PathResponse(data) => put_bytes(PATH_RESPONSE, data, out),
            Self::Close { error, reason } => {
                let reason = &reason[..reason.floor_char_boundary(MAX_REASON)];
                put(CLOSE, &[*error, reason.len() as u64], out);
                out.extend_from_slice(reason.as_bytes());
            }
            Self::Train { packets } => out.extend_from_slice(&[TRAIN, *packets]),
            Self::Datagram(datagram) => datagram.encode(Extent::Delimited, out),
            Self::Data(data) => data.encode(Extent::Delimited, out),
        }
    }

    /// Removes a frame from the start of `input`, the remaining contents of a packet.
    ///
    /// # Errors
    /// The frame is malformed or of an unknown type.
    pub fn decode(input: &mut &'a [u8]) -> Result<Self, FrameError> {
        let kind = field::u8(input)?;
        Ok(match kind {
            PAD => {
                *input = &[];
                Self::Pad
            }
            PING => Self::Ping,
            FEEDBACK => Self::Feedback(Feedback::decode(input)?),
            FORWARD => Self::Forward {
                distance: varint::decode(input)?,
            },
            CANCEL => Self::Cancel {
                stream: StreamId(varint::decode(input)?),
                error: varint::decode(input)?,
                final_offset: varint::decode(input)?,
            },
            STOP => Self::Stop {
                stream: StreamId(varint::decode(input)?),
                error: varint::decode(input)?,
            },
            STREAM_LIMIT => Self::StreamLimit {
                stream: StreamId(varint::decode(input)?),
                limit: varint::decode(input)?,
            },
            STREAMS => Self::Streams {
                count: varint::decode(input)?,
            },
            TOKEN => Self::Token(field::array(input)?),
            PATH_CHALLENGE => Self::PathChallenge(field::array(input)?),
            PATH_RESPONSE => Self::PathResponse(field::array(input)?),
            CLOSE => {
                let error = varint::decode(input)?;
                let length = usize::try_from(varint::decode(input)?).map_err(|_| FrameError::Reason)?;
                if length > MAX_REASON {
                    return Err(FrameError::Reason);
                }
                let reason =
                    std::str::from_utf8(field::take(input, length)?).map_err(|_| FrameError::Reason)?;
                Self::Close { error, reason }
            }
            TRAIN => {
                let packets = field::u8(input)?;
                if !TRAIN_PACKETS.contains(&packets) {
                    return Err(FrameError::TrainLength);
                }
                Self::Train { packets }
            }
            DATAGRAM => Self::Datagram(Datagram(std::mem::take(input))),
            0x31 => {
                let length = usize::try_from(varint::decode(input)?).map_err(|_| FrameError::Truncated)?;
                Self::Datagram(Datagram(field::take(input, length)?))
            }
            DATA..=0x4f => Self::Data(Data::decode(kind, input)?),
            _ => return Err(FrameError::UnknownType(kind)),
        })
    }
}

fn put(kind: u8, fields: &[u64], out: &mut Vec<u8>) {
    out.push(kind);
    for field in fields {
        varint::encode(*field, out);
    }
}

fn put_bytes(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(bytes);
}
