//! Requests and responses of all transports: a request of fixed size, and a response of the requested length
//! whose bytes the receiver can verify. They are the same for all systems, so that all carry the same load.
use std::sync::LazyLock;

use bytes::Bytes;

/// Length of a request: more than a compressed request of a browser.
pub const REQUEST: usize = 300;
/// Bytes of a response that identify its request.
pub(crate) const TAG: usize = 8;
/// Maximum bytes passed to a transport at once.
pub(crate) const PIECE: usize = 16 * 1024;
/// Period of the payload: a prime number, so that a loss or repetition of whole packets or pages is detected.
const PERIOD: usize = 65_521;
/// The length on the wire that means an endless response.
const ENDLESS: u64 = u64::MAX;

/// Length of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// This number of bytes, including the tag: at least the length of the tag, 8.
    Bytes(u64),
    /// Until the client stops it.
    Endless,
}

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Length of the response.
    pub length: Length,
    /// Priority class of the response in systems with priorities: 0 is the highest, 7 the lowest.
    pub class: u8,
}

impl Order {
    /// A download of normal priority.
    pub const fn bytes(bytes: u64) -> Self {
        Self {
            length: Length::Bytes(bytes),
            class: 3,
        }
    }

    /// A download of normal priority that ends when it is stopped.
    pub const fn endless() -> Self {
        Self {
            length: Length::Endless,
            class: 3,
        }
    }

    /// A message of `bytes` for which a user waits during another download.
    pub const fn urgent(bytes: u64) -> Self {
        Self {
            length: Length::Bytes(bytes),
            class: 1,
        }
    }
}

impl Length {
    pub(crate) fn with_tag(self) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Bytes(bytes.max(TAG as u64)),
            Self::Endless => Self::Endless,
        }
    }
}

/// A request in wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) tag: u64,
    pub(crate) order: Order,
}

impl Request {
    pub(crate) fn encode(self) -> Bytes {
        let length = match self.order.length {
            Length::Bytes(bytes) => bytes,
            Length::Endless => ENDLESS,
        };
        let mut request = Vec::with_capacity(REQUEST);
        request.extend_from_slice(&self.tag.to_be_bytes());
        request.extend_from_slice(&length.to_be_bytes());
        request.push(self.order.class);
        // Bytes without repetition, as in a compressed request.
        let filling = piece(TAG as u64, REQUEST - request.len());
        request.extend_from_slice(&filling);
        request.into()
    }

    /// Returns `None` if it is not a complete request.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != REQUEST {
            return None;
        }
        let (tag, rest) = bytes.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let length = match u64::from_be_bytes(*length) {
            ENDLESS => Length::Endless,
            bytes => Length::Bytes(bytes),
        };
        let order = Order {
            length,
            class: *rest.first()?,
        };
        Some(Self {
            tag: u64::from_be_bytes(*tag),
            order,
        })
    }
}

/// The payload's period twice, so that any piece of up to a period is one slice of it.
static PAYLOAD: LazyLock<Bytes> = LazyLock::new(|| {
    // SplitMix64 (Steele, Lea, Flood 2014) with a fixed seed: incompressible bytes.
    let mut state = 0_u64;
    let period: Vec<u8> = (0..PERIOD)
        .map(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed.to_be_bytes()[0]
        })
        .collect();
    period.repeat(2).into()
});

/// Returns at most `most` bytes of the payload from `offset` on.
fn piece(offset: u64, most: usize) -> Bytes {
    let begin = usize::try_from(offset % PERIOD as u64).unwrap_or_default();
    PAYLOAD.slice(begin..begin + most.min(PERIOD))
}

/// A response, in pieces.
#[derive(Debug)]
pub(crate) struct Body {
    tag: u64,
    length: Length,
    offset: u64,
}

impl Body {
    pub(crate) const fn of(request: Request) -> Self {
        Self {
            tag: request.tag,
            length: request.order.length,
            offset: 0,
        }
    }
}

impl Iterator for Body {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let left = match self.length {
            Length::Bytes(bytes) => usize::try_from(bytes - self.offset).unwrap_or(usize::MAX),
            Length::Endless => usize::MAX,
        };
        if left == 0 {
            return None;
        }
        let bytes = if self.offset == 0 {
            let mut first = self.tag.to_be_bytes().to_vec();
            first.extend_from_slice(&piece(TAG as u64, PIECE - TAG));
            first.truncate(left);
            first.into()
        } else {
            piece(self.offset, left.min(PIECE))
        };
        self.offset += bytes.len() as u64;
        Some(bytes)
    }
}

/// A response with wrong bytes, from this offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the transport delivered wrong bytes at offset {0}")]
pub struct WrongBytes(pub u64);

/// Verifies the bytes of a response.
#[derive(Debug)]
pub(crate) struct Checker {
    tag: [u8; TAG],
    offset: u64,
}

impl Checker {
    pub(crate) const fn new(tag: u64) -> Self {
        Self {
            tag: tag.to_be_bytes(),
            offset: 0,
        }
    }

    /// Number of received bytes so far.
    pub(crate) const fn received(&self) -> u64 {
        self.offset
    }

    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<(), WrongBytes> {
        while !bytes.is_empty() {
            let expected = match usize::try_from(self.offset) {
                Ok(offset) if offset < TAG => Bytes::copy_from_slice(&self.tag[offset..]),
                _ => piece(self.offset, PERIOD),
            };
            let (now, later) = bytes.split_at(bytes.len().min(expected.len()));
            if expected.get(..now.len()) != Some(now) {
                return Err(WrongBytes(self.offset));
            }
            self.offset += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_a_round_trip() {
        for order in [Order::bytes(20_000), Order::endless(), Order::urgent(2000)] {
            let request = Request { tag: 7, order };
            let encoded = request.encode();
            assert_eq!(encoded.len(), REQUEST);
            assert_eq!(Request::decode(&encoded), Some(request));
            assert_eq!(Request::decode(&encoded[1..]), None);
        }
    }

    #[test]
    fn checker_accepts_only_the_body_in_any_pieces() {
        for length in [8, 9, 300_000] {
            let request = Request {
                tag: 0x0102_0304_0506_0708,
                order: Order::bytes(length),
            };
            let body: Vec<u8> = Body::of(request).flatten().collect();
            assert_eq!(body.len() as u64, length);
            for size in [1, 7, 1200, 200_000] {
                let mut checker = Checker::new(request.tag);
                for piece in body.chunks(size) {
                    assert_eq!(checker.take(piece), Ok(()));
                }
                assert_eq!(checker.received(), length);
            }
            let mut wrong = body;
            if let Some(last) = wrong.last_mut() {
                *last ^= 1;
            }
            assert!(Checker::new(request.tag).take(&wrong).is_err());
        }
        let mut skipped: Vec<u8> = Body::of(Request {
            tag: 1,
            order: Order::bytes(10_000),
        })
        .flatten()
        .collect();
        skipped.drain(3000..4400);
        assert!(Checker::new(1).take(&skipped).is_err());
    }
}
