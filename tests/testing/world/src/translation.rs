//! Address translation at the client's side of the hop, for clients whose address changes (a new network, or
//! an expired NAT binding): one internal address, successive external addresses, unchanged ports.
//!
//! The client's kernel keeps [`CLIENT`](crate::CLIENT) and does not detect the changes. The n-th external
//! address is the n-th address after it. Addresses within the payload of ICMP errors are not translated.
use std::net::Ipv4Addr;

use longhaul_netem::ClientAddress;

use crate::CLIENT;

/// Number of external addresses: the host numbers from the client's own to the end of the hop's network,
/// without the broadcast address.
pub(crate) const MAX_CHANGES: u32 = 252;

const SOURCE: usize = 12;
const DESTINATION: usize = 16;
const HEADER_CHECKSUM: usize = 10;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Returns the external address.
fn outside(client: ClientAddress) -> Ipv4Addr {
    Ipv4Addr::from_bits(CLIENT.to_bits().saturating_add(client.0))
}

/// Returns the client address to which a packet from the gateway is sent. A packet to an address that no
/// client has had is lost on arrival.
pub(crate) fn destination(packet: &[u8]) -> ClientAddress {
    let address = packet
        .get(DESTINATION..DESTINATION + 4)
        .and_then(|bytes| <[u8; 4]>::try_from(bytes).ok())
        .map_or(CLIENT, Ipv4Addr::from);
    ClientAddress(address.to_bits().wrapping_sub(CLIENT.to_bits()))
}

/// Sets the external source address of a packet that leaves the client.
pub(crate) fn to_outside(packet: &mut [u8], client: ClientAddress) {
    rewrite(packet, SOURCE, outside(client));
}

/// Sets the internal destination address of a packet that has reached the client.
pub(crate) fn to_inside(packet: &mut [u8]) {
    rewrite(packet, DESTINATION, CLIENT);
}

/// Replaces the address at `place`. Correct checksums stay correct, and wrong ones stay wrong.
fn rewrite(packet: &mut [u8], place: usize, address: Ipv4Addr) {
    let new = address.octets();
    let Some(field) = packet.get_mut(place..place + 4) else {
        return;
    };
    let Ok(old) = <[u8; 4]>::try_from(&*field) else {
        return;
    };
    if old == new {
        return;
    }
    field.copy_from_slice(&new);
    adjust(packet, HEADER_CHECKSUM, old, new);
    let header = packet.first().map_or(0, |byte| usize::from(byte & 0x0f) * 4);
    let is_first_fragment = packet
        .get(6..8)
        .is_some_and(|field| field[0] & 0x1f == 0 && field[1] == 0);
    if !is_first_fragment {
        return;
    }
    match packet.get(9) {
        Some(&TCP) => adjust(packet, header + 16, old, new),
        // Zero means that there is no checksum (RFC 768).
        Some(&UDP)
            if packet
                .get(header + 6..header + 8)
                .is_some_and(|sum| sum != [0, 0]) =>
        {
            adjust(packet, header + 6, old, new);
            if let Some(sum) = packet
                .get_mut(header + 6..header + 8)
                .filter(|sum| **sum == [0, 0])
            {
                sum.fill(0xff);
            }
        }
        _ => {}
    }
}

/// Updates the checksum at `place` for a changed address (RFC 1624, equation 3).
fn adjust(packet: &mut [u8], place: usize, old: [u8; 4], new: [u8; 4]) {
    let Some(field) = packet.get_mut(place..place + 2) else {
        return;
    };
    let word = |bytes: &[u8]| u32::from(bytes[0]) << 8 | u32::from(bytes[1]);
    let complement = |value: u32| !value & 0xffff;
    let mut sum = complement(word(field));
    for half in [0..2, 2..4] {
        sum += complement(word(&old[half.clone()])) + word(&new[half]);
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    field[0] = u8::try_from(complement(sum) >> 8).unwrap_or_default();
    field[1] = u8::try_from(complement(sum) & 0xff).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the Internet checksum (RFC 1071) of these bytes, zero if they contain a correct one.
    fn checksum(bytes: &[u8]) -> u16 {
        let mut sum: u32 = bytes
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
            .sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(!sum & 0xffff).unwrap()
    }

    /// Returns a UDP packet from the client with correct checksums.
    fn datagram(payload: u8) -> Vec<u8> {
        let mut packet = vec![
            0x45, 0, 0, 30, 0, 0, 0x40, 0, 64, UDP, 0, 0, 10, 78, 0, 2, 10, 79, 1, 1,
        ];
        packet.extend([0x30, 0x39, 0, 53, 0, 10, 0, 0, payload, 7]);
        let sum = checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        let sum = checksum(&covered(&packet));
        packet[26..28].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    /// Returns the bytes that the UDP checksum covers: pseudo-header and datagram.
    fn covered(packet: &[u8]) -> Vec<u8> {
        let mut bytes = packet[12..20].to_vec();
        bytes.extend([0, UDP, 0, 10]);
        bytes.extend(&packet[20..]);
        bytes
    }

    #[test]
    fn translation_keeps_checksums_correct() {
        for payload in 0..=255 {
            let original = datagram(payload);
            assert_eq!(checksum(&covered(&original)), 0);
            let mut packet = original.clone();
            to_outside(&mut packet, ClientAddress(3));
            assert_eq!(packet[12..16], [10, 78, 0, 5]);
            assert_eq!(
                (checksum(&packet[..20]), checksum(&covered(&packet))),
                (0, 0),
                "{payload}"
            );
            packet[12..16].copy_from_slice(&[10, 79, 1, 1]);
            packet[16..20].copy_from_slice(&[10, 78, 0, 5]);
            assert_eq!(destination(&packet), ClientAddress(3));
            to_inside(&mut packet);
            assert_eq!(
                (checksum(&packet[..20]), checksum(&covered(&packet))),
                (0, 0),
                "{payload}"
            );
        }
    }

    #[test]
    fn translation_to_the_first_address_or_of_short_packets_changes_nothing() {
        let mut packet = datagram(1);
        to_outside(&mut packet, ClientAddress(0));
        assert_eq!(packet, datagram(1));
        for len in 0..28 {
            to_outside(&mut datagram(1)[..len], ClientAddress(1));
            destination(&datagram(1)[..len]);
        }
    }

    #[test]
    fn a_later_fragment_has_no_checksum_to_adjust() {
        let mut packet = datagram(1);
        packet[7] = 1;
        let mut changed = packet.clone();
        to_outside(&mut changed, ClientAddress(1));
        assert_eq!(changed[20..], packet[20..]);
    }
}
