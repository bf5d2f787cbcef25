//! UDP datagrams in the link model, and the running hash of a run's events.
use longhaul_netem::Packet;
use longhaul_types::ByteCount;

/// IPv4 and UDP headers (RFC 791, RFC 768), which a datagram occupies on the link in addition to its payload.
pub(crate) const HEADERS: u64 = 28;

/// Delivery of a datagram at the end of the path, independent of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The datagram is delivered.
    Arrives,
    /// The datagram occupied the link and is lost, because its header was damaged or the test selected it.
    Lost,
}

/// A UDP datagram.
#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    pub(crate) payload: Vec<u8>,
    pub(crate) fate: Fate,
}

impl Packet for Datagram {
    fn len_on_link(&self) -> ByteCount {
        ByteCount::new(self.payload.len() as u64 + HEADERS)
    }

    /// Damaged headers lose the datagram, because their checksum fails. A damaged payload is delivered, as if
    /// the UDP checksum were absent or matched by chance: the transport must detect it.
    fn flip_bit(&mut self, bit: u64) {
        match (bit / 8).checked_sub(HEADERS) {
            None => self.fate = Fate::Lost,
            Some(at) => {
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                if let Some(byte) = self.payload.get_mut(at) {
                    *byte ^= 1 << (bit % 8);
                }
            }
        }
    }
}

/// Hash of a sequence of events: equal runs have equal hashes. It is not collision-resistant against an
/// adversary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceHash(u64);

impl Default for TraceHash {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl TraceHash {
    pub(crate) fn word(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word).wrapping_add(self.0.rotate_left(23));
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_be_bytes(word));
        }
    }

    pub(crate) const fn value(self) -> u64 {
        self.0
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit changes about half of the output bits.
pub(crate) const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
