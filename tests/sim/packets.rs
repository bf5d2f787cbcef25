//! Packet numbers as an observer of the wire checks them: they are never reused.
use crate::application::User;

/// First byte of a short packet; the packet number follows the receiver index.
const SHORT: u8 = 0x80;
const RESP: u8 = 0x02;

/// Packet numbers of one direction.
#[derive(Debug, Default)]
pub(crate) struct PacketNumbers {
    largest: Option<u32>,
}

impl PacketNumbers {
    /// Records the packet number of a datagram.
    ///
    /// # Panics
    /// If the number is not greater than all earlier ones (modulo 2^24).
    pub(crate) fn check(&mut self, from: User, datagram: &[u8]) {
        let Some(number) = short_packet(datagram).and_then(|packet| packet_number(from, packet)) else {
            return;
        };
        if let Some(largest) = self.largest {
            let ahead = number.wrapping_sub(largest) & 0x00ff_ffff;
            assert!(
                (1..1 << 23).contains(&ahead),
                "{from:?} sent packet number {number} after {largest}"
            );
        }
        self.largest = Some(number);
    }
}

/// The short packet of a datagram, which may follow a RESP.
fn short_packet(datagram: &[u8]) -> Option<&[u8]> {
    match *datagram.first()? {
        RESP => {
            let length = u16::from_be_bytes([*datagram.get(3)?, *datagram.get(4)?]);
            datagram
                .get(5 + usize::from(length)..)
                .filter(|rest| !rest.is_empty())
        }
        first if first & SHORT != 0 => Some(datagram),
        _ => None,
    }
}

fn packet_number(from: User, packet: &[u8]) -> Option<u32> {
    let at = match from {
        User::Agent => 5,
        User::Gateway => 2,
    };
    let number = packet.get(at..at + 3)?;
    Some(
        number
            .iter()
            .fold(0, |number, byte| number << 8 | u32::from(*byte)),
    )
}
