//! Parts of a datagram that does not fit a packet of the transport.
use std::collections::VecDeque;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use longhaul_types::varint;

use super::MalformedDatagram;
use crate::id::FetchId;

/// Maximum number of parts: 9 KB at the smallest packets. Most programs send less than 1,500 bytes; answers of DNS with
/// many records have up to 4 KB.
pub const MAX_PARTS: u8 = 8;
/// Datagrams of an association whose parts are awaited at the same time.
const MAX_AWAITED: usize = 4;
/// A datagram is given up when a part of a datagram arrives that is so many numbers later. The numbers return after 65,536
/// datagrams: parts of two datagrams must never be put together.
const GIVEN_UP: u16 = 64;
/// The part that is a whole datagram.
const WHOLE: u8 = 0;

/// A part of a datagram of an association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The association.
    pub association: FetchId,
    /// Which part; `None` for a whole datagram.
    pub place: Option<Place>,
    /// The bytes.
    pub bytes: Bytes,
}

/// Place of a part in its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the datagram: of those with parts, from 0, modulo 2^16.
    number: u16,
    /// From 0.
    index: u8,
    /// Number of parts, at least 2.
    count: u8,
}

/// Returns the contents of the transport's datagrams for `datagram`, each at most `max` bytes; `number` is that of a
/// datagram with parts. Returns nothing if it needs more than [`MAX_PARTS`].
pub fn parts(association: FetchId, number: u16, datagram: &[u8], max: usize) -> Vec<Bytes> {
    let mut head = Vec::with_capacity(16);
    varint::encode(association.number(), &mut head);
    if head.len() + 1 + datagram.len() <= max {
        head.push(WHOLE);
        head.extend_from_slice(datagram);
        return vec![head.into()];
    }
    let Some(room) = max.checked_sub(head.len() + 3).filter(|room| *room > 0) else {
        return Vec::new();
    };
    let chunks = datagram.chunks(room);
    let Some(count) = u8::try_from(chunks.len())
        .ok()
        .filter(|count| *count <= MAX_PARTS)
    else {
        return Vec::new();
    };
    let part = |(index, chunk): (u8, &[u8])| {
        let mut part = BytesMut::with_capacity(head.len() + 3 + chunk.len());
        part.extend_from_slice(&head);
        part.put_u8(index << 4 | count);
        part.put_u16(number);
        part.extend_from_slice(chunk);
        part.freeze()
    };
    (0..).zip(chunks).map(part).collect()
}

/// Decodes a datagram of the transport.
///
/// # Errors
/// The bytes end inside the fields, or the place is none.
pub fn part_of(mut bytes: Bytes) -> Result<Part, MalformedDatagram> {
    let mut rest = &bytes[..];
    let association = varint::decode(&mut rest).map_err(|_| MalformedDatagram)?;
    let taken = bytes.len() - rest.len();
    bytes.advance(taken);
    let place = match bytes.try_get_u8().map_err(|_| MalformedDatagram)? {
        WHOLE => None,
        place => {
            let (index, count) = (place >> 4, place & 0x0f);
            if !(2..=MAX_PARTS).contains(&count) || index >= count {
                return Err(MalformedDatagram);
            }
            let number = bytes.try_get_u16().map_err(|_| MalformedDatagram)?;
            Some(Place { number, index, count })
        }
    };
    Ok(Part {
        association: FetchId::new(association),
        place,
        bytes,
    })
}

/// A datagram of which parts are missing.
#[derive(Debug)]
struct Awaited {
    number: u16,
    parts: Vec<Option<Bytes>>,
}

/// The datagrams of one association of which parts are missing, oldest first.
#[derive(Debug, Default)]
pub struct Reassembly {
    awaited: VecDeque<Awaited>,
}

impl Reassembly {
    /// Takes a part; returns the datagram if it is complete.
    pub fn take(&mut self, place: Option<Place>, bytes: Bytes) -> Option<Bytes> {
        let Some(Place { number, index, count }) = place else {
            return Some(bytes);
        };
        self.awaited.retain(|awaited| {
            let later = number.wrapping_sub(awaited.number);
            !(GIVEN_UP..=u16::MAX - GIVEN_UP).contains(&later)
        });
        let is_it = |awaited: &Awaited| awaited.number == number && awaited.parts.len() == usize::from(count);
        let at = self.awaited.iter().position(is_it).unwrap_or_else(|| {
            // Another datagram with this number would be one of an earlier round of the numbers.
            self.awaited.retain(|awaited| awaited.number != number);
            if self.awaited.len() >= MAX_AWAITED {
                self.awaited.pop_front();
            }
            let parts = vec![None; count.into()];
            self.awaited.push_back(Awaited { number, parts });
            self.awaited.len() - 1
        });
        let parts = &mut self.awaited.get_mut(at)?.parts;
        *parts.get_mut(usize::from(index))? = Some(bytes);
        if parts.iter().any(Option::is_none) {
            return None;
        }
        let complete = self.awaited.remove(at)?;
        let parts: Vec<Bytes> = complete.parts.into_iter().flatten().collect();
        Some(parts.concat().into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::datagram::{DatagramHost, UdpDatagram};

    const ASSOCIATION: FetchId = FetchId::new(300);

    fn received(reassembly: &mut Reassembly, bytes: Bytes) -> Option<Bytes> {
        let part = part_of(bytes).unwrap();
        assert_eq!(part.association, ASSOCIATION);
        reassembly.take(part.place, part.bytes)
    }

    #[test]
    fn the_bytes_are_those_of_the_specification() {
        let datagram = UdpDatagram {
            host: DatagramHost::Address("192.0.2.7".parse().unwrap()),
            port: 53,
            payload: Bytes::from_static(b"question"),
        };
        let bytes = datagram.encode().unwrap();
        let whole = b"\x41\x2c\x00\x01\xc0\x00\x02\x07\x00\x35question";
        assert_eq!(parts(ASSOCIATION, 9, &bytes, 18), [&whole[..]]);
        let [first, second] = &parts(ASSOCIATION, 9, &bytes, 17)[..] else {
            panic!("two parts");
        };
        assert_eq!(
            first,
            &b"\x41\x2c\x02\x00\x09\x01\xc0\x00\x02\x07\x00\x35quest"[..]
        );
        assert_eq!(second, &b"\x41\x2c\x12\x00\x09ion"[..]);
        let named = UdpDatagram {
            host: DatagramHost::Name("a.test".to_owned()),
            ..datagram
        };
        assert_eq!(named.encode().unwrap(), b"\x03\x06a.test\x00\x35question");
    }

    #[test]
    fn parts_of_two_datagrams_are_never_put_together() {
        let mut reassembly = Reassembly::default();
        let [old, new] = [1_u8, 2].map(|tag| parts(ASSOCIATION, 7, &[tag; 100], 60));
        assert_eq!(received(&mut reassembly, old[0].clone()), None);
        // Datagrams of later numbers, each complete, until the number 7 returns.
        for number in 8..=u16::MAX {
            for part in parts(ASSOCIATION, number, &[3; 100], 60) {
                received(&mut reassembly, part);
            }
        }
        assert_eq!(received(&mut reassembly, new[1].clone()), None);
        assert_eq!(received(&mut reassembly, new[0].clone()).unwrap(), vec![2; 100]);
    }

    #[test]
    fn few_incomplete_datagrams_are_kept() {
        let mut reassembly = Reassembly::default();
        for number in 0..100 {
            let first = parts(ASSOCIATION, number, &[0; 1000], 400).swap_remove(0);
            assert_eq!(received(&mut reassembly, first), None);
            assert!(reassembly.awaited.len() <= MAX_AWAITED);
        }
    }

    #[test]
    fn what_needs_too_many_parts_is_not_sent() {
        assert_eq!(parts(ASSOCIATION, 0, &[0; 8 * 95], 100).len(), 8);
        assert!(parts(ASSOCIATION, 0, &[0; 8 * 95 + 1], 100).is_empty());
        assert!(parts(ASSOCIATION, 0, &[0; 10], 5).is_empty());
    }

    proptest! {
        #[test]
        fn datagrams_return_whatever_the_size_of_the_parts(is_v4 in any::<bool>(), name in proptest::option::of("[a-z.]{1,255}"), port in 1_u16.., payload in proptest::collection::vec(any::<u8>(), 0..3000), max in 400_usize..1500, reversed in any::<bool>()) {
            let ip = if is_v4 { "192.0.2.1" } else { "2001:db8::1" };
            let host = name.map_or_else(|| DatagramHost::Address(ip.parse().unwrap()), DatagramHost::Name);
            let datagram = UdpDatagram { host, port, payload: payload.into() };
            let mut sent = parts(ASSOCIATION, 5, &datagram.encode().unwrap(), max);
            prop_assert!(sent.iter().all(|part| part.len() <= max));
            if reversed {
                sent.reverse();
            }
            let last = sent.pop().unwrap();
            let mut reassembly = Reassembly::default();
            for part in sent {
                prop_assert_eq!(received(&mut reassembly, part), None);
            }
            let bytes = received(&mut reassembly, last).unwrap();
            prop_assert_eq!(UdpDatagram::decode(bytes), Ok(datagram));
            prop_assert!(reassembly.awaited.is_empty());
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(part) = part_of(bytes.clone().into())
                && part.place.is_none()
                && let Ok(datagram) = UdpDatagram::decode(part.bytes)
            {
                let again = parts(part.association, 0, &datagram.encode().unwrap(), 400);
                prop_assert_eq!(again, [bytes]);
            }
        }
    }
}
