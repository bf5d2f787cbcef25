//! Packet protection: ChaCha20-Poly1305 (RFC 8439) with the packet number as nonce (transport.md section 2).
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroizing;

use crate::wire::TAG_LEN;

/// Error: a packet does not authenticate because it is forged, damaged, or sealed with another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the packet does not authenticate")]
pub struct OpenError;

/// Packet key of one direction. The caller never seals two packets under the same number.
///
/// The key is stored as 32 bytes, which are erased on drop, and is prepared for each packet: a prepared key
/// has space for the largest algorithm, 17 times as much, and an idle session would hold two.
#[derive(Clone)]
pub struct PacketKey(Zeroizing<[u8; 32]>);

impl std::fmt::Debug for PacketKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PacketKey(<secret>)")
    }
}

impl PacketKey {
    /// Creates a key from its 32 bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(Zeroizing::new(*bytes))
    }

    /// Key of the next phase. It does not reveal the current key.
    pub(super) fn next(&self) -> Self {
        Self::derive("longhaul 1 next key", &*self.0)
    }

    fn prepared(&self) -> LessSafeKey {
        #[expect(
            clippy::expect_used,
            reason = "32 bytes are the length of a key of this algorithm"
        )]
        let key = UnboundKey::new(&CHACHA20_POLY1305, &*self.0).expect("a key of 32 bytes");
        LessSafeKey::new(key)
    }

    /// Derives a key for the purpose `context` from secret `material`.
    pub(super) fn derive(context: &str, material: &[u8]) -> Self {
        Self::new(&Zeroizing::new(blake3::derive_key(context, material)))
    }

    fn nonce(packet_number: u64) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&packet_number.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    /// Encrypts `buf[payload_start..]` in place and appends the tag. `buf[header_start..payload_start]` is
    /// the authenticated header. Bytes before the header (a RESP) are unchanged. Start values beyond the end
    /// count as the end.
    pub fn seal(&self, packet_number: u64, buf: &mut Vec<u8>, header_start: usize, payload_start: usize) {
        let payload_start = payload_start.min(buf.len());
        let (front, payload) = buf.split_at_mut(payload_start);
        let header = &front[header_start.min(front.len())..];
        let tag = self.prepared().seal_in_place_separate_tag(
            Self::nonce(packet_number),
            Aad::from(header),
            payload,
        );
        #[expect(
            clippy::expect_used,
            reason = "sealing fails only beyond 256 GiB, which no buffer of a datagram holds"
        )]
        let tag = tag.expect("a packet is short");
        buf.extend_from_slice(tag.as_ref());
    }

    /// Decrypts `datagram[payload_start..]`, which ends with the tag, in place and returns the contents. The
    /// bytes before `payload_start` are the header.
    ///
    /// # Errors
    /// The packet does not authenticate. The bytes after the header are then unspecified.
    pub fn open<'a>(
        &self,
        packet_number: u64,
        datagram: &'a mut [u8],
        payload_start: usize,
    ) -> Result<&'a mut [u8], OpenError> {
        let (header, sealed) = datagram.split_at_mut_checked(payload_start).ok_or(OpenError)?;
        if sealed.len() < TAG_LEN {
            return Err(OpenError);
        }
        self.prepared()
            .open_in_place(Self::nonce(packet_number), Aad::from(&*header), sealed)
            .map_err(|_| OpenError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn vector_of_this_wire_format() {
        // Result of an independent implementation of RFC 8439: key 00..1f, nonce 00000000 || number, header
        // as additional data.
        let key: [u8; 32] = std::array::from_fn(|index| u8::try_from(index).unwrap());
        let mut packet = vec![0x80, 7, 0, 0, 5, 1, 2, 3, 0x01];
        PacketKey::new(&key).seal(5, &mut packet, 0, 5);
        let reference = {
            use snow::resolvers::{CryptoResolver, DefaultResolver};
            let choice = snow::params::CipherChoice::ChaChaPoly;
            // Noise has a little-endian nonce, short packets a big-endian one: swap the bytes.
            let mut cipher = DefaultResolver.resolve_cipher(&choice).unwrap();
            cipher.set(&key);
            let mut out = [0; 20];
            let length = cipher.encrypt(5_u64.swap_bytes(), &packet[..5], &[1, 2, 3, 0x01], &mut out);
            out[..length].to_vec()
        };
        assert_eq!(packet[5..], reference);
        let hex: String = packet.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "8007000005cdcae01db18b8d980ba5b4ce58e744b146a9ed52");
    }

    proptest! {
        #[test]
        fn round_trip_and_every_flipped_bit_is_noticed(number in any::<u64>(), header in 0_usize..10, payload in proptest::collection::vec(any::<u8>(), 0..60), flip in any::<proptest::sample::Index>()) {
            let key = PacketKey::new(&[7; 32]);
            let mut packet = vec![0xaa; header];
            packet.extend_from_slice(&payload);
            key.seal(number, &mut packet, 0, header);
            let mut damaged = packet.clone();
            let bit = flip.index(damaged.len() * 8);
            damaged[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(key.open(number, &mut damaged, header), Err(OpenError));
            let mut renumbered = packet.clone();
            prop_assert_eq!(key.open(number ^ 1, &mut renumbered, header), Err(OpenError));
            prop_assert_eq!(key.open(number, &mut packet, header).map(|open| open.to_vec()), Ok(payload));
        }
    }
}
