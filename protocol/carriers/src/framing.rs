//! Packets in a message (docs/protocol/transport.md section 8.2): each one is preceded by its length in two
//! bytes, big endian.

/// Maximum length of a message that is sent: a TLS record, unless one packet is longer.
pub const GATHERED: usize = 16 * 1024;
/// Maximum length of a message that is received: one packet of the greatest length.
pub const MAX_MESSAGE: usize = LENGTH + u16::MAX as usize;
/// Length of the length field.
const LENGTH: usize = 2;

/// Errors of a message. The peer violates the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// The message ends within a packet or its length.
    #[error("the peer sent a message that ends within a packet")]
    Truncated,
    /// A packet without a byte.
    #[error("the peer sent a packet of 0 bytes")]
    Empty,
}

/// Appends a packet to a message. Returns false, and appends nothing, if it has no byte or more than 65,535;
/// the transport builds no such packet.
pub fn append(message: &mut Vec<u8>, packet: &[u8]) -> bool {
    let Ok(length) = u16::try_from(packet.len()) else {
        return false;
    };
    if length == 0 {
        return false;
    }
    message.extend_from_slice(&length.to_be_bytes());
    message.extend_from_slice(packet);
    true
}

/// Returns true if a packet of `length` bytes may follow the ones in `message`.
pub fn has_room(message: &[u8], length: usize) -> bool {
    message.len() + LENGTH + length <= GATHERED
}

/// Packets of a received message, in order. Nothing follows an error.
pub fn packets(message: &[u8]) -> Packets<'_> {
    Packets { rest: message }
}

/// Iterator of [`packets`].
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Packets<'a> {
    type Item = Result<&'a [u8], FramingError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let packet = split_packet(self.rest);
        self.rest = packet.map_or(&[], |(_, rest)| rest);
        Some(packet.map(|(packet, _)| packet))
    }
}

fn split_packet(message: &[u8]) -> Result<(&[u8], &[u8]), FramingError> {
    let (length, rest) = message
        .split_first_chunk::<LENGTH>()
        .ok_or(FramingError::Truncated)?;
    let length = usize::from(u16::from_be_bytes(*length));
    if length == 0 {
        return Err(FramingError::Empty);
    }
    rest.split_at_checked(length).ok_or(FramingError::Truncated)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn broken_messages_are_rejected_after_their_whole_packets() {
        let read = |bytes: &[u8]| {
            packets(bytes)
                .map(|packet| packet.map(<[u8]>::to_vec))
                .collect::<Vec<_>>()
        };
        assert_eq!(read(&[]), []);
        assert_eq!(read(&[0, 1, 7, 0]), [Ok(vec![7]), Err(FramingError::Truncated)]);
        assert_eq!(read(&[0, 2, 7]), [Err(FramingError::Truncated)]);
        assert_eq!(read(&[0, 0, 0, 1, 7]), [Err(FramingError::Empty)]);
        let mut message = Vec::new();
        assert!(!append(&mut message, &[]) && !append(&mut message, &vec![0; 65_536]));
        assert!(message.is_empty());
    }

    proptest! {
        #[test]
        fn packets_survive_a_round_trip(sent in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..2000), 0..12)) {
            let mut message = Vec::new();
            for packet in &sent {
                prop_assert!(append(&mut message, packet));
            }
            let received: Result<Vec<&[u8]>, _> = packets(&message).collect();
            prop_assert_eq!(received.unwrap(), sent.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
    }
}
