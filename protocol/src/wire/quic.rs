//! Tells packets of QUIC from those of this transport on a UDP port that both use (transport.md section 8.6; RFC 9000
//! section 17, RFC 9443).

/// Returns true for a version field of QUIC: version negotiation (0), versions 1 and 2 (RFC 9000, RFC 9369), the drafts
/// of the IETF, and the versions that are reserved to exercise version negotiation (RFC 9000 section 15).
pub const fn is_quic_version(version: u32) -> bool {
    const VERSION_2: u32 = 0x6b33_43cf;
    const DRAFTS: u32 = 0x00ff_0000;
    matches!(version, 0 | 1 | VERSION_2) || version >> 8 == DRAFTS || version & 0x0f0f_0f0f == 0x0a0a_0a0a
}

/// Returns true for a datagram towards a gateway that begins with a packet of QUIC whose fixed bit is set: one with a
/// short header, or one with a long header and a version of QUIC. A gateway never hands out a receiver index that equals
/// such a version, so that no short packet of this transport looks like a long header.
pub const fn is_quic(datagram: &[u8]) -> bool {
    match *datagram {
        [0x40..=0x7f, ..] => true,
        [0xc0..=0xff, a, b, c, d, ..] => is_quic_version(u32::from_be_bytes([a, b, c, d])),
        _ => false,
    }
}

/// Returns the first receiver index from `fresh` on that is not taken and not a version of QUIC.
pub fn free_index(fresh: u32, is_taken: impl Fn(u32) -> bool) -> Option<u32> {
    (0..=u32::MAX)
        .map(|step| fresh.wrapping_add(step))
        .find(|index| !is_quic_version(*index) && !is_taken(*index))
}

#[cfg(test)]
mod tests {
    use proptest::{array::uniform4, prelude::*};

    use super::*;
    use crate::wire::{Activity, KeyPhase, KeySpace, PacketKind, ReceiverIndex, ShortHeader};

    #[test]
    fn indices_are_no_versions_of_quic() {
        let free = |fresh| free_index(fresh, |_| false);
        assert_eq!(free(0), Some(2));
        assert_eq!(free(0x6b33_43cf), Some(0x6b33_43d0));
        assert_eq!(free(0xff00_001d), Some(0xff00_0100));
        assert_eq!(free(0x1a2a_3a4a), Some(0x1a2a_3a4b));
        assert_eq!(free_index(u32::MAX, |index| index > 7), Some(2));
    }

    #[test]
    fn packets_that_are_no_short_ones_are_not_taken_for_quic() {
        for first in [
            PacketKind::INIT,
            PacketKind::RESP,
            PacketKind::VERSIONS,
            PacketKind::RESET,
        ] {
            assert!(!is_quic(&[first, 0, 0, 0, 1]));
        }
        assert!(!is_quic(&[]));
        assert!(!is_quic(&[0xc0, 0, 0, 0]));
    }

    /// A header of a short packet as an agent can send it: EARLY packets have the even phase and an index that is a part
    /// of a public key, the others an index that a gateway has handed out.
    fn header() -> impl Strategy<Value = ShortHeader> {
        (any::<u32>(), any::<u32>(), 0..6_u8).prop_map(|(fresh, truncated, kind)| {
            let index = if kind < 2 {
                fresh
            } else {
                free_index(fresh, |_| false).unwrap()
            };
            ShortHeader {
                keys: if kind < 2 { KeySpace::Early } else { KeySpace::Full },
                phase: if kind < 4 { KeyPhase::Even } else { KeyPhase::Odd },
                activity: if kind % 2 == 0 {
                    Activity::More
                } else {
                    Activity::Idle
                },
                index: ReceiverIndex::Gateway(index),
                truncated,
            }
        })
    }

    /// Versions of QUIC, each of them more often than a random number would be.
    fn version() -> impl Strategy<Value = u32> {
        let reserved = uniform4(0..16_u32).prop_map(|nibbles| {
            nibbles
                .into_iter()
                .fold(0, |version, nibble| version << 8 | nibble << 4 | 0x0a)
        });
        prop_oneof![
            Just(0),
            Just(1),
            Just(0x6b33_43cf),
            0xff00_0000..0xff00_0100_u32,
            reserved,
        ]
    }

    proptest! {
        #[test]
        fn no_short_packet_is_taken_for_quic(header in header(), rest in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut packet = Vec::new();
            header.encode(&mut packet);
            packet.extend(rest);
            prop_assert!(!is_quic(&packet), "{header:?}");
        }

        #[test]
        fn no_index_near_a_version_is_taken_for_quic(near in version(), step in 0..4_u32) {
            let index = free_index(near.wrapping_sub(step), |_| false).unwrap();
            for first in [0x80, 0x90, 0xa0, 0xb0, 0xc0, 0xd0_u8] {
                let mut packet = vec![first];
                packet.extend(index.to_be_bytes());
                prop_assert!(!is_quic(&packet), "{first:02x} {index:08x}");
            }
        }

        #[test]
        fn each_packet_of_quic_is_recognised(
            bits in 0..0x40_u8, version in version(), rest in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut long = vec![0xc0 | bits];
            long.extend(version.to_be_bytes());
            long.extend(&rest);
            prop_assert!(is_quic(&long));
            let mut short = vec![0x40 | bits];
            short.extend(&rest);
            prop_assert!(is_quic(&short));
        }
    }
}
